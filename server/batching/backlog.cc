#include "server/batching/backlog.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

#include "server/batching/batcher.h"

namespace softmax::server {

Backlog::Backlog(const Options& options, Arena& arena, Clock clock) : options_(options), arena_(arena), clock_(clock) {
  // Taking the lock orders the notice after a waiter's failed attempt: it either saw the room or is waiting by now.
  arena_.SetReleaseListener([this] {
    { MutexLock lock(mu_); }
    changed_.notify_all();
  });
  for (std::uint32_t i = 0; i < options_.threads; ++i) {
    threads_.emplace_back([this] { Run(); });
  }
}

Backlog::~Backlog() { Stop(/*fail=*/true); }

bool Backlog::Push(PendingRequest* request, Batcher* home, bool small) {
  const std::uint64_t bytes = Batch::NeedOf(request->spec()).total();
  {
    MutexLock lock(mu_);
    if (stopping_ || queue_.size() >= options_.max_requests ||
        queued_bytes_.load(std::memory_order_relaxed) + bytes > options_.max_bytes) {
      return false;
    }
    queue_.push_back(Entry{request, home, bytes, small});
    queued_requests_.fetch_add(1, std::memory_order_relaxed);
    queued_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }
  changed_.notify_all();
  return true;
}

Nanoseconds Backlog::Impatience(TimePoint now) const {
  const std::int64_t since = head_since_ns_.load(std::memory_order_relaxed);
  return since == 0 ? Nanoseconds(-1) : now.time_since_epoch() - Nanoseconds(since) - options_.patience;
}

bool Backlog::MustQueue(bool small, TimePoint now) const {
  const Nanoseconds impatience = Impatience(now);
  if (impatience.count() < 0) return false;
  return !small || impatience % (options_.turn + options_.overtaking) < options_.turn;
}

void Backlog::Uncount(const Entry& entry) {
  queued_bytes_.fetch_sub(entry.bytes, std::memory_order_relaxed);
  queued_requests_.fetch_sub(1, std::memory_order_relaxed);
}

TimePoint Backlog::NextDeadline() const {
  TimePoint next = kNoDeadline;
  for (const Entry& entry : queue_) next = std::min(next, entry.request->deadline());
  return next;
}

template <typename Fails>
void Backlog::TakeFailed(absl::Status failure, Taken* taken, const Fails& fails) {
  taken->failure = std::move(failure);
  std::erase_if(queue_, [&](const Entry& entry) {
    if (!fails(entry)) return false;
    Uncount(entry);
    taken->failed.push_back(entry);
    return true;
  });
}

bool Backlog::TakeRoom(const std::deque<Entry>::iterator& entry, Taken* taken) {
  const Span room = arena_.TryReserve(entry->bytes);
  if (room.slabs == 0) return false;
  taken->request = entry->request;
  taken->home = entry->home;
  taken->room = SpanRef(&arena_, room);
  Uncount(*entry);
  queue_.erase(entry);
  return true;
}

// The head's room, or outside its turn a small request's; or what failed in the meantime.
bool Backlog::TakeRoomOrFailures(TimePoint now, Taken* taken, TimePoint* next) {
  if (failing_) {
    TakeFailed(absl::UnavailableError("the server is shutting down"), taken, [](const Entry&) { return true; });
    return true;
  }
  const auto has_left = [](const Entry& entry) { return entry.request->CallerLeft(); };
  if (has_left(queue_.front())) {
    TakeFailed(absl::CancelledError("the client left"), taken, has_left);
    return true;
  }
  // Announced before the attempt, so that a release after the attempt is not missed.
  arena_.SetWaiting(true);
  if (TakeRoom(queue_.begin(), taken)) return true;
  const Entry head = queue_.front();
  if (waiting_ != head.request) {
    waiting_ = head.request;
    head_since_ns_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  }
  if (!MustQueue(/*small=*/true, now)) {
    const auto small = std::find_if(queue_.begin() + 1, queue_.end(), [](const Entry& entry) { return entry.small; });
    if (small != queue_.end() && TakeRoom(small, taken)) return true;
  }
  const Nanoseconds impatience = Impatience(now);
  const Nanoseconds round = options_.turn + options_.overtaking;
  if (impatience >= round + options_.turn) memory_is_short_.store(true, std::memory_order_relaxed);
  *next = NextDeadline();
  if (*next <= now) {
    TakeFailed(absl::DeadlineExceededError("the deadline passed while waiting for memory"), taken,
               [now](const Entry& entry) { return entry.request->deadline() <= now; });
    return true;
  }
  if (options_.max_wait.count() > 0) {
    const TimePoint hopeless(Nanoseconds(head_since_ns_.load(std::memory_order_relaxed)) + options_.max_wait);
    if (hopeless <= now) {
      const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(options_.max_wait).count();
      TakeFailed(
          absl::ResourceExhaustedError(absl::StrCat("memory for ", head.bytes, " bytes did not come free within ",
                                                    waited, " ms; try again after the pushback")),
          taken, [bytes = head.bytes](const Entry& entry) { return entry.bytes >= bytes; });
      return true;
    }
    *next = std::min(*next, hopeless);
  }
  // It looks again at the end of the head's next turn, when small requests may overtake.
  const std::int64_t turns = impatience < options_.turn ? 0 : (impatience - options_.turn) / round + 1;
  *next = std::min(*next, now - impatience + turns * round + options_.turn);
  return false;
}

// A head that only made way for others' failures goes on waiting: each of them would otherwise let small requests pass
// it by again.
void Backlog::EndTurn() {
  arena_.SetWaiting(false);
  if (!queue_.empty() && queue_.front().request == waiting_) return;
  waiting_ = nullptr;
  head_since_ns_.store(0, std::memory_order_relaxed);
  memory_is_short_.store(false, std::memory_order_relaxed);
}

std::optional<Backlog::Taken> Backlog::Take() {
  Taken taken;
  MutexLock lock(mu_);
  while (head_taken_ || queue_.empty()) {
    if (stopping_ && queue_.empty()) return std::nullopt;
    changed_.wait(mu_);
  }
  head_taken_ = true;
  for (TimePoint next; !TakeRoomOrFailures(clock_(), &taken, &next);) changed_.wait_until(mu_, next);
  head_taken_ = false;
  EndTurn();
  changed_.notify_all();
  return taken;
}

bool Backlog::TryTake(Taken* taken, TimePoint* next) {
  MutexLock lock(mu_);
  *next = kNoDeadline;
  if (queue_.empty() || !TakeRoomOrFailures(clock_(), taken, next)) return false;
  EndTurn();
  return true;
}

void Backlog::CarryOut(Taken taken) {
  // A status for each: copies would share a count of references across the threads that they go to.
  for (const Entry& entry : taken.failed) {
    entry.home->DeliverFailure(entry.request, absl::Status(taken.failure.code(), taken.failure.message()));
  }
  if (taken.request == nullptr) return;
  const TensorSpec& spec = taken.request->spec();
  const TimePoint now = clock_();
  auto batch = std::make_unique<Batch>();
  batch->Open(spec.input_type, spec.output_type, std::move(taken.room), Batch::NeedOf(spec), now);
  batch->Add(taken.request, now, taken.home->Gathers(spec));
  batch->Close(CloseReason::kLarge);
  taken.home->Deliver(std::move(batch));
}

void Backlog::Run() {
  while (std::optional<Taken> taken = Take()) CarryOut(std::move(*taken));
}

void Backlog::Stop(bool fail) {
  {
    MutexLock lock(mu_);
    stopping_ = true;
    if (fail) failing_ = true;
  }
  changed_.notify_all();
  for (std::jthread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

}  // namespace softmax::server

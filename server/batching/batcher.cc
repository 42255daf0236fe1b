#include "server/batching/batcher.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

namespace softmax::server {
namespace {

constexpr std::size_t kSpareBatches = 8;
// What a refused caller is told to wait: long enough for several batches, short against any human's patience.
constexpr std::uint32_t kRetryAfterMs = 20;
constexpr std::uint32_t kRetryWithoutMemoryMs = 1000;
// To gather a piece of an input takes as long as to copy this number of bytes.
constexpr std::uint64_t kPieceBytes = 64;

absl::Status CallerLeftError() { return absl::CancelledError("the client left before the request ran"); }

}  // namespace

Batcher::Batcher(const Options& options, Arena& arena, Backlog& backlog, Lane& lane, Recorder& recorder,
                 std::function<void()> wake, Clock clock)
    : options_(options),
      arena_(arena),
      backlog_(backlog),
      lane_(lane),
      recorder_(recorder),
      wake_(std::move(wake)),
      clock_(clock) {}

Batcher::~Batcher() = default;

std::size_t Batcher::OpenIndex(const PendingRequest& request) {
  static_assert(Region::kHost == -1);
  const TensorSpec& spec = request.spec();
  const std::size_t types =
      (static_cast<std::size_t>(spec.input_type) - 1) * 4 + static_cast<std::size_t>(spec.output_type) - 1;
  return static_cast<std::size_t>(request.regions().device + 1) * kTypePairs + types;
}

std::unique_ptr<Batch> Batcher::NewBatch() {
  if (spare_.empty()) return std::make_unique<Batch>();
  std::unique_ptr<Batch> batch = std::move(spare_.back());
  spare_.pop_back();
  return batch;
}

void Batcher::Refuse(PendingRequest* request, absl::Status status, RefuseReason reason, std::uint32_t retry_after_ms) {
  recorder_.RequestRefused(reason);
  Answer answer;
  answer.status = std::move(status);
  answer.retry_after_ms = retry_after_ms;
  request->Finish(answer);
}

void Batcher::RefusePending(PendingRequest* request, absl::Status status, RefuseReason reason,
                            std::uint32_t retry_after_ms) {
  --pending_;
  Refuse(request, std::move(status), reason, retry_after_ms);
}

void Batcher::Drop(PendingRequest* request) {
  --pending_;
  Answer answer;
  answer.status = CallerLeftError();
  request->Finish(answer);
}

void Batcher::SubmitToBacklog(PendingRequest* request, bool small) {
  if (backlog_.Push(request, this, small)) return;
  RefusePending(request, absl::ResourceExhaustedError("the server's queue is full; try again after the pushback"),
                RefuseReason::kQueueFull, kRetryAfterMs);
}

void Batcher::Submit(PendingRequest* request, TimePoint now) {
  ++pending_;
  if (request->CallerLeft()) return Drop(request);
  const TensorSpec& spec = request->spec();
  if (request->deadline() <= now) {
    return RefusePending(request, absl::DeadlineExceededError("the deadline passed before the request ran"),
                         RefuseReason::kDeadline, 0);
  }
  if (spec.elements() == 0) {
    Answer answer;
    answer.ran = true;
    --pending_;
    request->Finish(answer);
    return;
  }
  const Batch::Need need = Batch::NeedOf(spec);
  if (need.total() > arena_.bytes_total()) {
    // The configuration's check leaves room for every allowed request but for the rounding of its parts.
    RefusePending(request,
                  absl::InvalidArgumentError(absl::StrCat("input.data: the request needs ", need.total(),
                                                          " bytes of memory; the server has ", arena_.bytes_total(),
                                                          " (arena_bytes)")),
                  RefuseReason::kInvalid, 0);
    return;
  }
  const bool gather = Gathers(spec);
  const std::uint64_t to_copy = need.input + spec.pieces * kPieceBytes;
  const bool quick = gather || to_copy <= options_.inline_copy_bytes;
  const bool small = quick && need.total() + Batch::InRegionsOf(spec) <= options_.batch.bytes;
  // Who needs no memory waits for none.
  if (need.total() > 0 && backlog_.MustQueue(small, now)) return SubmitToBacklog(request, small);
  if (!small) {
    const bool stays = gather || (quick && spec.input_in_region);
    if (!stays || !SubmitAlone(request, now)) SubmitToBacklog(request, small);
    return;
  }
  Batch* batch = OpenBatch(*request, now);
  if (batch == nullptr) return SubmitToBacklog(request, small);
  request->BeginWork(now);
  open_bytes_ -= batch->bytes();
  batch->Add(request, now, gather);
  open_bytes_ += batch->bytes();
  if (batch->requests() >= options_.batch.requests) CloseOpen(OpenIndex(*request), CloseReason::kFull);
}

// A batch of its own for a request that no open batch could hold and whose input stays where it is. False: there is no
// room.
bool Batcher::SubmitAlone(PendingRequest* request, TimePoint now) {
  const TensorSpec& spec = request->spec();
  const Batch::Need need = Batch::NeedOf(spec);
  SpanRef span;
  if (need.total() > 0 && !(span = Reserve(need))) return false;
  std::unique_ptr<Batch> batch = NewBatch();
  batch->Open(spec.input_type, spec.output_type, std::move(span), need, now);
  request->BeginWork(now);
  batch->Add(request, now, /*gather=*/true);
  batch->Close(CloseReason::kLarge);
  ready_.push_back(std::move(batch));
  LaunchReady(now);
  return true;
}

SpanRef Batcher::Reserve(const Batch::Need& need) {
  const Span span = arena_.TryReserve(need.total(), options_.home);
  return span.slabs == 0 ? SpanRef() : SpanRef(&arena_, span);
}

// The open batch for the request's types with room for it, or null when the arena has none.
Batch* Batcher::OpenBatch(const PendingRequest& request, TimePoint now) {
  const TensorSpec& spec = request.spec();
  const std::size_t index = OpenIndex(request);
  if (index >= open_.size()) open_.resize((index / kTypePairs + 1) * kTypePairs);
  if (open_[index] != nullptr) {
    if (open_[index]->Fits(spec, options_.batch)) return open_[index].get();
    CloseOpen(index, CloseReason::kFull);
    LaunchReady(now);
  }
  Batch::Need capacity = Batch::CapacityOf(spec.input_type, spec.output_type, options_.batch);
  SpanRef span = Reserve(capacity);
  if (!span) {  // no room for company: perhaps for this one alone
    capacity = Batch::NeedOf(spec);
    if (capacity.total() > 0 && !(span = Reserve(capacity))) return nullptr;
  }
  open_[index] = NewBatch();
  open_[index]->Open(spec.input_type, spec.output_type, std::move(span), capacity, now);
  ++open_count_;
  return open_[index].get();
}

void Batcher::CloseOpen(std::size_t index, CloseReason reason) {
  open_[index]->Close(reason);
  open_bytes_ -= open_[index]->bytes();
  ready_.push_back(std::move(open_[index]));
  --open_count_;
}

void Batcher::LaunchReady(TimePoint now) {
  for (auto next = ready_.begin(); next != ready_.end();) {
    if (!MayLaunch(**next)) {
      ++next;
      continue;
    }
    std::unique_ptr<Batch> batch = std::move(*next);
    next = ready_.erase(next);
    batch->set_launched(now);
    if (batch->CallersLeft()) {
      dropped_.push_back(std::move(batch));
      continue;
    }
    running_.push_back(batch.get());
    lane_.Launch(batch.release());
  }
}

void Batcher::Flush(TimePoint now) {
  LaunchReady(now);
  for (std::size_t i = 0; i < open_.size() && open_count_ > 0; ++i) {
    if (open_[i] == nullptr || !MayLaunch(*open_[i])) continue;
    if (now - open_[i]->opened() < options_.max_queue_delay) continue;
    const CloseReason reason = options_.max_queue_delay.count() > 0 ? CloseReason::kDelay
                               : running_.empty()                   ? CloseReason::kIdle
                                                                    : CloseReason::kDrained;
    CloseOpen(i, reason);
    LaunchReady(now);
  }
}

TimePoint Batcher::next_flush() const {
  if (options_.max_queue_delay.count() == 0 || open_count_ == 0) return kNoDeadline;
  TimePoint next = kNoDeadline;
  for (const std::unique_ptr<Batch>& batch : open_) {
    // Where it may not be launched: what finishes next is followed by a Flush.
    if (batch != nullptr && MayLaunch(*batch)) next = std::min(next, batch->opened() + options_.max_queue_delay);
  }
  return next;
}

void Batcher::Finish(std::unique_ptr<Batch> batch, TimePoint now) {
  recorder_.BatchFinished(batch->Sample(now));
  pending_ -= batch->requests();
  const absl::Status status = batch->status;
  batch->Complete(status, now);
  if (spare_.size() < kSpareBatches) spare_.push_back(std::move(batch));
}

bool Batcher::TakeInbox() {
  if (!inbox_filled_.load(std::memory_order_relaxed)) return false;
  inbox_filled_.exchange(false, std::memory_order_acquire);
  std::vector<std::unique_ptr<Batch>> batches;
  std::vector<Failure> failures;
  {
    MutexLock lock(inbox_mu_);
    batches.swap(inbox_);
    failures.swap(failures_);
  }
  const TimePoint now = clock_();
  for (std::unique_ptr<Batch>& batch : batches) {
    batch->BeginWork(now);
    ready_.push_back(std::move(batch));
  }
  for (Failure& failure : failures) {
    if (absl::IsCancelled(failure.status)) {
      Drop(failure.request);
      continue;
    }
    const bool memory = absl::IsResourceExhausted(failure.status);
    const RefuseReason reason = memory                                     ? RefuseReason::kNoMemory
                                : absl::IsDeadlineExceeded(failure.status) ? RefuseReason::kDeadline
                                                                           : RefuseReason::kDraining;
    RefusePending(failure.request, std::move(failure.status), reason, memory ? kRetryWithoutMemoryMs : 0);
  }
  LaunchReady(now);
  return true;
}

bool Batcher::CompleteDropped() {
  if (dropped_.empty()) return false;
  const TimePoint now = clock_();
  for (const std::unique_ptr<Batch>& batch : std::exchange(dropped_, {})) {
    pending_ -= batch->requests();
    batch->Complete(CallerLeftError(), now);
  }
  return true;
}

Nanoseconds Batcher::BeginNap(TimePoint now) {
  Nanoseconds nap = FinishForecast::kLongestNap;
  for (const Batch* batch : running_) {
    nap = std::min(nap, ForecastOf(*batch).NapFor(batch->bytes(), now - batch->launched()));
  }
  // A request in an open batch waits for no more than its delay.
  if (next_flush() != kNoDeadline) nap = std::min(nap, std::max(Nanoseconds(0), next_flush() - now));
  woke_ = nap > Nanoseconds(0);
  return nap;
}

bool Batcher::Poll() {
  bool progress = TakeInbox();
  const bool woke = std::exchange(woke_, false);
  while (in_flight()) {
    std::unique_ptr<Batch> batch(lane_.Poll());
    if (batch == nullptr) break;
    running_.erase(std::find(running_.begin(), running_.end(), batch.get()));
    const TimePoint now = clock_();
    ForecastOf(*batch).Finished(batch->bytes(), now - batch->launched(), woke);
    // The next launch first: the device works while the answers leave.
    LaunchReady(now);
    Finish(std::move(batch), now);
    progress = true;
  }
  return CompleteDropped() || progress;
}

// The wake is inside the lock: once the owner has taken the delivery, nobody touches this batcher on its behalf any
// more.
void Batcher::Deliver(std::unique_ptr<Batch> batch) {
  MutexLock lock(inbox_mu_);
  inbox_.push_back(std::move(batch));
  inbox_filled_.store(true, std::memory_order_release);
  wake_();
}

void Batcher::DeliverFailure(PendingRequest* request, absl::Status status) {
  MutexLock lock(inbox_mu_);
  failures_.push_back(Failure{request, std::move(status)});
  inbox_filled_.store(true, std::memory_order_release);
  wake_();
}

}  // namespace softmax::server

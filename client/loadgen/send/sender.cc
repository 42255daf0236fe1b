#include "client/loadgen/send/sender.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "client/softmax_client/channel.h"

namespace softmax::client {
namespace {

// How often a thread without events looks whether it should give up, or whether the window's borders have changed.
constexpr std::int64_t kIdleCheckNs = 100000000;
constexpr std::int64_t kBorderCheckNs = 20000000;
// gRPC waits in whole milliseconds and may overshoot by one; nearer than this, waiting is left to us.
constexpr std::int64_t kBlockingNs = 2000000;
// Waking a sleeping thread takes up to about this long.
constexpr std::int64_t kWakeNs = 60000;
// One look at an empty queue costs about so much; nearer than this, only the clock is looked at.
constexpr std::int64_t kSpinNs = 10000;

void Increment(std::atomic<std::uint64_t>& counter, std::uint64_t by) {
  counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}

}  // namespace

Connection NewConnection(const LoadOptions& options, std::size_t address) {
  const Address& to = options.addresses[address];
  ChannelSettings settings;
  settings.round_robin = settings.health_checks = options.addresses.size() > 1 || to.by_name;
  if (options.security.tls) settings.credentials = MakeCredentials(*options.security.tls);
  settings.authority = options.security.authority;
  Connection connection{CreateChannel(to.target, settings), address, std::chrono::steady_clock::now()};
  connection.channel->GetState(true);  // all of them connect at once
  return connection;
}

int CapacityOf(const LoadOptions& options) {
  if (options.loop == Loop::kClosed) return options.in_flight;
  return std::max(1, options.max_in_flight / options.TotalConnections());
}

std::vector<SenderPlace> SenderPlaces(const LoadOptions& options) {
  std::vector<SenderPlace> places;
  for (int p = 0; p < options.processes; ++p) {
    const int connections = (options.connections - p + options.processes - 1) / options.processes;
    for (int t = 0; t < std::min(options.threads, connections); ++t) places.push_back({p, t, places.size(), 1});
  }
  const auto parts = static_cast<std::uint64_t>(options.parts);
  for (SenderPlace& place : places) {
    place.index = static_cast<std::uint64_t>(options.part) + parts * place.index;
    place.count = parts * places.size();
  }
  return places;
}

SenderThread::SenderThread(const LoadOptions& options, const Workload& workload, const Board& board,
                           const SharedParts& shared, const SenderPlace& place)
    : options_(options),
      workload_(workload),
      board_(board),
      control_(board.control()),
      tally_(board.thread(place.process, place.thread)),
      shared_(shared),
      place_(place),
      retry_options_{.max_attempts = options.attempts},
      authorization_(options.security.token.empty() ? "" : "Bearer " + options.security.token),
      open_(options.loop == Loop::kOpen),
      random_(options.seed + static_cast<std::uint64_t>((options.part * 100 + place.process) * 1000 + place.thread)) {
  constexpr double kRange = 18446744073709551616.0;  // 2^64
  sample_below_ = options.verify_fraction >= 1 ? std::numeric_limits<std::uint64_t>::max()
                                               : static_cast<std::uint64_t>(options.verify_fraction * kRange);
  position_ = random_();
}

SenderThread::~SenderThread() = default;

void SenderThread::Run(std::vector<Connection> connections) {
  connections_ = std::move(connections);
  for (const Connection& connection : connections_) stubs_.emplace_back(connection.channel);
  const int capacity = CapacityOf(options_);
  for (std::size_t home = 0; home < connections_.size(); ++home) {
    callers_.push_back(options_.method == Method::kStream ? MakeStreamCaller(*this, home, capacity)
                                                          : MakeUnaryCaller(*this, home, capacity));
  }
  live_callers_ = callers_.size();
  for (auto& caller : callers_) caller->Start();
  if (open_) {
    SendWhatIsDue();
    for (auto& caller : callers_) caller->Stop();
  }
  AwaitAnswers();
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
  }
  callers_.clear();
}

// A wait with a time limit reads the clock four times, which at 100,000 answers/s is worth saving.
void SenderThread::AwaitAnswers() {
  if (live_callers_ == 0) return;
  OnHeartbeat(true);
  void* tag = nullptr;
  bool ok = false;
  while (live_callers_ > 0 && queue_.Next(&tag, &ok)) static_cast<QueueEvent*>(tag)->OnEvent(ok);
  heartbeat_.Cancel();
  queue_.Next(&tag, &ok);  // with all callers done, nothing but the heartbeat's last event can come
}

void SenderThread::OnHeartbeat(bool /*ok*/) {
  CancelLateCalls();
  heartbeat_.Set(&queue_, std::chrono::system_clock::now() + std::chrono::nanoseconds(kIdleCheckNs),
                 on_heartbeat_.tag());
}

// Waits for one event at most so long and has it seen to. False: there was none.
bool SenderThread::TakeEvent(std::int64_t wait_ns) {
  void* tag = nullptr;
  bool ok = false;
  // A time in the past is one look without waiting.
  const auto until = wait_ns == 0 ? std::chrono::system_clock::time_point()
                                  : std::chrono::system_clock::now() + std::chrono::nanoseconds(wait_ns);
  if (queue_.AsyncNext(&tag, &ok, until) != grpc::CompletionQueue::GOT_EVENT) return false;
  static_cast<QueueEvent*>(tag)->OnEvent(ok);
  return true;
}

// The open loop. Between two sends the thread takes answers; the last microseconds it only watches the clock.
void SenderThread::SendWhatIsDue() {
  Pacer pacer(options_.arrivals, control_, place_.index, place_.count);
  for (const Due* due = pacer.Peek(); due != nullptr; due = pacer.Peek()) {
    const std::int64_t now = NowNs();
    if (due->at_ns > now) {
      AwaitDue(due->at_ns, now);
      continue;
    }
    Dispatch(*due);
    pacer.Pop();
    TakeEvent(0);
  }
}

void SenderThread::AwaitDue(std::int64_t due_ns, std::int64_t now_ns) {
  const std::int64_t wait = due_ns - now_ns;
  if (wait > kBlockingNs) {
    TakeEvent(std::min(wait - kBlockingNs, kBorderCheckNs));
  } else if (wait <= kSpinNs) {
    while (NowNs() < due_ns) {
    }
  } else if (outstanding_ == 0 && wait > 2 * kWakeNs) {
    SleepUntil(due_ns - kWakeNs);
  } else {
    TakeEvent(0);
  }
}

void SenderThread::Dispatch(const Due& due) {
  const bool measured = due.at_ns >= control_.start_ns.load(std::memory_order_relaxed);
  const std::int64_t now = NowNs();
  if (measured && Ended(now) && now - due.at_ns > kLateNs) return Increment(tally_.dropped_behind, 1);
  const std::uint32_t variant =
      due.shape < 0 ? workload_.VariantAt(due.position) : workload_.VariantOfShape(due.shape, due.position);
  for (std::size_t i = 0; i < callers_.size(); ++i) {
    Caller& caller = *callers_[next_caller_];
    next_caller_ = (next_caller_ + 1) % callers_.size();
    if (!caller.Send(variant, due.at_ns)) continue;
    ++outstanding_;
    return;
  }
  if (measured) Increment(tally_.dropped_full, 1);
}

void SenderThread::CancelLateCalls() {
  if (cancelled_ || !Ended(NowNs() - options_.grace.count())) return;
  cancelled_ = true;
  for (auto& caller : callers_) caller->Cancel();
}

std::size_t SenderThread::ConnectionFor(std::size_t home, std::size_t avoid) const {
  return options_.addresses.size() == 1 ? home : PickConnection(connections_, home, avoid);
}

void SenderThread::RenewIfLost(std::size_t connection) {
  Connection& lost = connections_[connection];
  if (!IsLost(lost, options_.addresses[lost.address])) return;
  lost = NewConnection(options_, lost.address);
  stubs_[connection] = grpc::GenericStub(lost.channel);
}

void SenderThread::RecordSend(const Sent& sent) {
  if (!InWindow(sent)) return;
  Increment(tally_.sent, 1);
  if (!open_) return;
  const std::int64_t lag = sent.sent_ns - sent.due_ns;
  tally_.lag.Record(static_cast<std::uint64_t>(lag));
  if (lag > kLateNs) Increment(tally_.late, 1);
}

void SenderThread::RecordAttempt(const Sent& sent, std::size_t address) {
  if (InWindow(sent)) Increment(board_.of_address(place_.process, place_.thread, address).attempts, 1);
}

void SenderThread::RecordAttemptEnd(const Sent& sent, std::size_t address, int code) {
  if (!InWindow(sent)) return;
  AddressTally& tally = board_.of_address(place_.process, place_.thread, address);
  Increment(code == 0 ? tally.answered : tally.failed, 1);
}

void SenderThread::RecordUnseen(const Sent& sent, std::size_t address) {
  if (!InWindow(sent)) return;
  std::atomic<std::uint64_t>& attempts = board_.of_address(place_.process, place_.thread, address).attempts;
  attempts.store(attempts.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
}

void SenderThread::RecordRetry(const Sent& sent, int code) {
  if (InWindow(sent)) Increment(tally_.retried[std::clamp(code, 0, kCodes - 1)], 1);
}

void SenderThread::RecordThrottled(const Sent& sent) {
  if (InWindow(sent)) Increment(tally_.throttled, 1);
}

void SenderThread::RecordAnswer(const Sent& sent) {
  --outstanding_;
  const std::int64_t now = NowNs();
  const std::int64_t start = control_.start_ns.load(std::memory_order_relaxed);
  const std::int64_t end = control_.end_ns.load(std::memory_order_relaxed);
  const auto latency = static_cast<std::uint64_t>(now - sent.due_ns);
  const bool came_within = now >= start && now < end;
  Increment(tally_.answers, 1);
  const Variant& variant = workload_.variants()[sent.variant];
  ClassTally& tally = board_.of_class(place_.process, place_.thread, variant.class_index);
  if (came_within) {
    Increment(tally.answered, 1);
    Increment(tally.payload_bytes, variant.message.size() - variant.payload_offset);
  }
  const bool belongs = open_ ? sent.due_ns >= start && sent.due_ns < end : came_within;
  if (belongs) {
    tally.latency.Record(latency);
    if (options_.slo.limit.count() > 0 && latency <= static_cast<std::uint64_t>(options_.slo.limit.count())) {
      Increment(tally.within_slo, 1);
    }
    if (open_) tally_.service.Record(static_cast<std::uint64_t>(now - sent.sent_ns));
  } else if (now < start) {
    tally_.warmup.Record(latency);
  }
}

void SenderThread::RecordError(const Sent& sent, int code, const std::string& message) {
  --outstanding_;
  CountError(InWindow(sent), code, message);
}

void SenderThread::RecordFault(int code, const std::string& message) { CountError(InWindow(NowNs()), code, message); }

void SenderThread::CountError(bool in_window, int code, const std::string& message) {
  auto& errors = in_window ? tally_.errors : tally_.warmup_errors;
  Increment(errors[std::clamp(code, 0, kCodes - 1)], 1);
  tally_.first_error.Set(message.c_str());
}

}  // namespace softmax::client

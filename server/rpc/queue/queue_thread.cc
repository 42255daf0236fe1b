#include "server/rpc/queue/queue_thread.h"

#include <pthread.h>

#include <algorithm>

#include "server/base/log.h"
#include "server/base/receive_pool.h"
#include "server/rpc/calls/health_calls.h"
#include "server/rpc/calls/info_call.h"
#include "server/rpc/calls/reflection_call.h"
#include "server/rpc/calls/softmax_call.h"
#include "server/rpc/calls/stream_call.h"
#include "server/rpc/calls/unknown_call.h"
#include "server/rpc/oip/infer_call.h"
#include "server/rpc/oip/infer_control_call.h"
#include "server/rpc/oip/infer_stream_call.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace softmax::server {
namespace {

// Calls waiting to be matched, per method: with too few, arrivals take the server's slow path.
constexpr int kArmedUnaryCalls = 64;
constexpr int kArmedStreamCalls = 8;
constexpr int kArmedControlCalls = 2;
// How often the completion flag is looked at before an empty poll of the queue, which takes a microsecond.
constexpr int kSpinPolls = 64;

constexpr char kKnownServices[] =
    "softmax.v1.SoftmaxService, inference.GRPCInferenceService, grpc.health.v1.Health and "
    "grpc.reflection.v1alpha.ServerReflection are";

void CpuRelax() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

}  // namespace

QueueThread::QueueThread(ServiceState& state, const Options& options, std::unique_ptr<QueueServer> server,
                         Recorder& recorder)
    : state_(state),
      options_(options),
      recorder_(recorder),
      server_(std::move(server)),
      queue_(server_->queue()),
      waker_(queue_),
      door_(state, recorder, options.index),
      sender_(state.arena, state.backlog, state.connections, recorder),
      control_{state.health,     server_->health,
               server_->unknown, kKnownServices,
               queue_,           state.ending_watches,
               calls_,           state.connections,
               options.index,    ControlPace(state.info.limits().max_concurrent_streams_per_connection())},
      model_counts_(state.model_statistics.AddThread()) {}

QueueThread::~QueueThread() = default;

void QueueThread::Start(std::unique_ptr<Lane> lane) {
  lane_ = std::move(lane);
  batcher_ = std::make_unique<Batcher>(options_.batcher, state_.arena, state_.backlog, *lane_, recorder_, wake());
  admission_ = std::make_unique<AdmissionQueue>(options_.admission, *batcher_, state_.connections.unread_budget());
  ArmCalls();
  thread_ = std::thread([this] {
    clockid_t clock = kNoClock;
    if (pthread_getcpuclockid(pthread_self(), &clock) == 0) cpu_clock_.store(clock);
    ReceivePool::BeginReceiving();
    Run();
    ShutdownQueue();
    ReceivePool::EndReceiving();
    cpu_clock_.store(kNoClock);
  });
}

void QueueThread::ArmCalls() {
  for (int i = 0; i < kArmedUnaryCalls; ++i) {
    SoftmaxCall::Arm(*this);
    InferCall::Arm(*this);
  }
  for (int i = 0; i < kArmedStreamCalls; ++i) {
    StreamCall::Arm(*this);
    InferStreamCall::Arm(*this);
  }
  for (int i = 0; i < kArmedControlCalls; ++i) {
    InfoCall::Arm(*this);
    for (std::size_t method = 0; method < InferMethods::kControlMethods; ++method) InferControlCall::Arm(*this, method);
    CheckCall::Arm(control_);
    WatchCall::Arm(control_);
    UnknownCall::Arm(control_);
    if (server_->reflects()) ReflectionCall::Arm(*this);
  }
}

void QueueThread::TakeReadyEvents() {
  void* tag = nullptr;
  bool ok = false;
  while (queue_->AsyncNext(&tag, &ok, gpr_inf_past(GPR_CLOCK_MONOTONIC)) == grpc::CompletionQueue::GOT_EVENT) {
    static_cast<Tag*>(tag)->Proceed(ok);
    Progress();
    if (batcher_->MustFlushEarly()) batcher_->Flush(SteadyClock::now());
  }
}

// Sleeps until an event, until an open batch has waited long enough, or until the end, and acts on it.
void QueueThread::WaitForEvent() {
  const TimePoint until =
      std::min({batcher_->next_flush(), admission_->next_look(), control_.pace.next(), end_by_.load()});
  gpr_timespec deadline = gpr_inf_future(GPR_CLOCK_MONOTONIC);
  if (until != kNoDeadline) {
    deadline = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                            gpr_time_from_nanos((until - SteadyClock::now()).count(), GPR_TIMESPAN));
  }
  void* tag = nullptr;
  bool ok = false;
  if (queue_->AsyncNext(&tag, &ok, deadline) == grpc::CompletionQueue::GOT_EVENT) static_cast<Tag*>(tag)->Proceed(ok);
}

bool QueueThread::IsOver() const {
  const TimePoint end_by = end_by_.load();
  return end_by != kNoDeadline && (calls_.calls() == 0 || SteadyClock::now() >= end_by);
}

void QueueThread::Run() {
  while (!IsOver()) {
    TakeReadyEvents();
    Progress();
    batcher_->Flush(SteadyClock::now());
    if (attention_.exchange(false)) AttendToCalls();
    if (lag_due_.load(std::memory_order_relaxed) != kNoDeadline) RecordLag();
    if (has_jobs_.load(std::memory_order_acquire)) RunJobs();
    if (end_by_.load() != kNoDeadline) control_.pace.Close();
    if (control_.pace.next() != kNoDeadline) control_.pace.Advance(SteadyClock::now());
    if (admission_->next_look() != kNoDeadline) admission_->LookAgain(SteadyClock::now());
    if (!slices_.empty()) {
      slices_.Run();
      continue;
    }
    // A batch that ran inside Launch is finished by now.
    if (Progress()) continue;
    if (batcher_->needs_polling()) {
      for (int i = 0; i < kSpinPolls; ++i) {
        if (Progress()) break;
        CpuRelax();
      }
      continue;
    }
    if (IsOver()) return;
    WaitForEvent();
    // What came while the thread slept is alone: it does not wait for company.
    if (!batcher_->in_flight()) batcher_->Flush(SteadyClock::now());
    Progress();
  }
}

void QueueThread::RecordLag() {
  recorder_.CameLate(SteadyClock::now() - lag_due_.exchange(kNoDeadline, std::memory_order_relaxed));
}

std::optional<Nanoseconds> QueueThread::CpuTime() const {
  const clockid_t clock = cpu_clock_.load();
  timespec time{};
  if (clock == kNoClock || clock_gettime(clock, &time) != 0) return std::nullopt;
  return std::chrono::seconds(time.tv_sec) + Nanoseconds(time.tv_nsec);
}

bool QueueThread::Progress() {
  const bool finished = batcher_->Poll();
  return (admission_->may_admit() && admission_->AdmitWaiting(SteadyClock::now())) || finished;
}

void QueueThread::AttendToCalls() {
  const TimePoint now = SteadyClock::now();
  const Connections& connections = state_.connections;
  const bool memory_is_short = state_.backlog.memory_is_short();
  const auto overdue = [&](Connection* connection, TimePoint sent) {
    return connections.OverdueAt(connection, sent, memory_is_short, now) <= now;
  };
  for (UnaryCall* call : answering_) {
    if (now - call->answered_at() < connections.look_after()) break;
    if (overdue(call->connection(), call->answered_at())) call->GiveUp();
  }
  const bool draining = state_.draining.load();
  for (auto it = streams_.begin(); it != streams_.end();) {
    StreamCall* const stream = *it++;  // Drain may end the stream
    if (stream->writing() && overdue(stream->connection(), stream->writing_since())) stream->GiveUp();
    stream->CopyOutOlderThan(now - connections.options().answer_timeout);
    if (draining) stream->Drain();
  }
  for (WatchCall* watch : control_.watches) watch->Update();
}

void QueueThread::RunSoon(std::function<void()> job) {
  {
    MutexLock lock(jobs_mu_);
    jobs_.push_back(std::move(job));
    has_jobs_.store(true, std::memory_order_release);
  }
  waker_.Wake();
}

void QueueThread::RunJobs() {
  std::vector<std::function<void()>> jobs;
  {
    MutexLock lock(jobs_mu_);
    jobs.swap(jobs_);
    has_jobs_.store(false, std::memory_order_relaxed);
  }
  for (const std::function<void()>& job : jobs) job();
}

void QueueThread::ShutdownQueue() {
  if (calls_.calls() > 0) LogWarning("shutting down with ", calls_.calls(), " calls that a device has not given back");
  waker_.Close();
  queue_->Shutdown();
  // gRPC aborts over a queue that still holds an event: a wake-up, or one of those calls, which begin nothing any more.
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) {
  }
}

void QueueThread::ShutdownAndJoin(TimePoint until) {
  end_by_.store(until);
  waker_.Wake();
  if (thread_.joinable()) {
    thread_.join();
  } else {
    ShutdownQueue();  // never started, since a device failed first
  }
}

}  // namespace softmax::server

#include "server/rpc/queue/queue_thread.h"

#include <immintrin.h>
#include <pthread.h>
#include <sys/prctl.h>

#include <algorithm>
#include <utility>

#include "server/base/log.h"
#include "server/base/receive_pool.h"
#include "server/rpc/accept/socket_poll.h"

namespace softmax::server {
namespace {

// How often the completion flag is looked at before an empty poll of the queue, which takes a microsecond.
constexpr std::size_t kSpinPolls = 64;
// From so many on, looks at the sockets are spared.
constexpr std::size_t kManySockets = 64;

// What the kernel may add to a wait; 50 us unless told.
constexpr unsigned long kTimerSlackNs = 1000;

void CpuRelax() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

}  // namespace

QueueServer::QueueServer(const Options& options) : builder_(std::make_unique<grpc::ServerBuilder>()) {
  ApplyServerSettings(options.channel, builder_.get());
  builder_->SetResourceQuota(options.quota);
  queue_ = builder_->AddCompletionQueue();
  if (options.tls == nullptr) return;
  tls_acceptor_ = builder_->experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, ReloadingCredentials(*options.tls));
}

absl::Status QueueServer::Start() {
  grpc_ = builder_->BuildAndStart();
  builder_.reset();
  return grpc_ == nullptr ? absl::InternalError("gRPC could not start its server") : absl::OkStatus();
}

QueueThread::QueueThread(Arena& arena, Backlog& backlog, UnreadBudget& unread, const Options& options,
                         const QueueServer::Options& server, Recorder& recorder)
    : arena_(arena),
      backlog_(backlog),
      unread_(unread),
      options_(options),
      recorder_(recorder),
      server_(server),
      queue_(server_.queue()),
      waker_(queue_),
      pace_(options.most_waiting_calls) {}

QueueThread::~QueueThread() = default;

void QueueThread::Add(std::unique_ptr<CallGroup> calls) {
  calls->Register(server_.builder());
  groups_.push_back(std::move(calls));
}

void QueueThread::Start(std::unique_ptr<Lane> lane) {
  lane_ = std::move(lane);
  batcher_ = std::make_unique<Batcher>(options_.batcher, arena_, backlog_, *lane_, recorder_, wake());
  admission_ = std::make_unique<AdmissionQueue>(options_.admission, *batcher_, unread_);
  for (const auto& group : groups_) group->Arm();
  thread_ = std::thread([this] {
    StayOn(options_.cores);
    prctl(PR_SET_TIMERSLACK, kTimerSlackNs);
    clockid_t clock = kNoClock;
    if (pthread_getcpuclockid(pthread_self(), &clock) == 0) cpu_clock_.store(clock);
    ReceivePool::BeginReceiving();
    Run();
    ShutdownQueue();
    ReceivePool::EndReceiving();
    cpu_clock_.store(kNoClock);
  });
}

void QueueThread::TakeReadyEvents(Sockets sockets) {
  // Once the queue is empty gRPC looks at the sockets, which costs it some 40 ns for each. To spare that, what is in
  // the queue is taken up to a mark.
  const bool marks = sockets == Sockets::kSpared && KeptSocketsOfThread() >= kManySockets;
  if (marks) waker_.Wake();
  void* tag = nullptr;
  bool ok = false;
  while (queue_->AsyncNext(&tag, &ok, gpr_inf_past(GPR_CLOCK_MONOTONIC)) == grpc::CompletionQueue::GOT_EVENT) {
    static_cast<Tag*>(tag)->Proceed(ok);
    Progress();
    if (batcher_->MustFlushEarly()) batcher_->Flush(SteadyClock::now());
    if (marks && !waker_.pending()) return;
  }
}

// Sleeps until an event, until an open batch has waited long enough, or until the end, and acts on it.
void QueueThread::WaitForEvent() {
  const TimePoint until = std::min({batcher_->next_flush(), admission_->next_look(), pace_.next(), end_by_.load()});
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
  Sockets sockets = Sockets::kLookedAt;
  while (!IsOver()) {
    TakeReadyEvents(std::exchange(sockets, Sockets::kLookedAt));
    Progress();
    batcher_->Flush(SteadyClock::now());
    if (attention_.exchange(false)) {
      for (const auto& group : groups_) group->Attend(SteadyClock::now());
    }
    if (lag_due_.load(std::memory_order_relaxed) != kNoDeadline) RecordLag();
    if (has_jobs_.load(std::memory_order_acquire)) RunJobs();
    if (end_by_.load() != kNoDeadline) pace_.Close();
    if (pace_.next() != kNoDeadline) pace_.Advance(SteadyClock::now());
    if (admission_->next_look() != kNoDeadline) admission_->LookAgain(SteadyClock::now());
    if (!slices_.empty()) {
      slices_.Run();
      continue;
    }
    // A batch that ran inside Launch is finished by now.
    if (Progress()) {
      sockets = Sockets::kSpared;
      continue;
    }
    if (batcher_->needs_polling()) {
      const TimePoint now = SteadyClock::now();
      const Nanoseconds nap = batcher_->BeginNap(now);
      if (nap > Nanoseconds(0) && WakeWaitsAt(now + nap, wake())) {
        WaitForEvent();
        WakeWaitsAt(kNoDeadline, nullptr);
        continue;
      }
      // As long as the look at the sockets that follows will take.
      const std::size_t spins = kSpinPolls + KeptSocketsOfThread();
      for (std::size_t i = 0; i < spins; ++i) {
        if (Progress()) {
          sockets = Sockets::kSpared;
          break;
        }
        CpuRelax();
      }
      continue;
    }
    if (IsOver()) return;
    WaitForEvent();
    sockets = Sockets::kSpared;
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

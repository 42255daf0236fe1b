#pragma once

#include <absl/status/status.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "common/base/core_set.h"
#include "common/base/mutex.h"
#include "server/batching/admission_queue.h"
#include "server/batching/batcher.h"
#include "server/batching/lane.h"
#include "server/metrics/metrics.h"
#include "server/rpc/accept/channel_settings.h"
#include "server/rpc/queue/call.h"
#include "server/rpc/queue/call_group.h"
#include "server/rpc/queue/control_pace.h"
#include "server/rpc/queue/sliced_work.h"
#include "server/rpc/queue/waker.h"
#include "server/rpc/security/tls_files.h"

namespace softmax::server {

// One grpc::Server with one completion queue: a queue thread's own. A socket given to it is polled by this queue's
// thread and by no other, which one server with many queues does not do for sockets that it did not accept itself.
class QueueServer {
 public:
  using TlsEntrance = grpc::experimental::ExternalConnectionAcceptor;

  struct Options {
    ChannelSettings channel;
    grpc::ResourceQuota quota;      // one for all
    const TlsFiles* tls = nullptr;  // null: no TLS; outlives this
  };

  explicit QueueServer(const Options& options);

  // For services, which outlive this. Null once started.
  grpc::ServerBuilder* builder() { return builder_.get(); }
  // Once, before any socket is given to it. INTERNAL: gRPC says no more.
  absl::Status Start();

  grpc::ServerCompletionQueue* queue() { return queue_.get(); }
  // Null until started.
  grpc::Server* grpc() { return grpc_.get(); }
  // The way in for sockets that speak TLS; null without, and after the first call.
  std::unique_ptr<TlsEntrance> TakeTlsAcceptor() { return std::move(tls_acceptor_); }

  // Refuses new calls and waits for those under way, until `deadline`, when they are cancelled. The queue must be
  // polled meanwhile, and is shut down by its thread afterwards.
  void Shutdown(std::chrono::system_clock::time_point deadline) { grpc_->Shutdown(deadline); }

 private:
  std::unique_ptr<grpc::ServerBuilder> builder_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> grpc_;
  std::unique_ptr<TlsEntrance> tls_acceptor_;
};

// One gRPC server with its one completion queue and the one thread that polls it: its calls are accepted on it, copy
// their tensors into this thread's batches, are launched, complete and are answered on it, without anything being
// handed to another thread on the way. The unit of concurrency. Which calls there are, it is told (CallGroup).
//
// The thread takes every ready event first, looking for finished batches in between, and launches when no event is
// ready; a request that arrives while it sleeps is launched at once. It spins only while a batch is in flight on a lane
// that has to be polled and that is not known to take long (FinishForecast), and sleeps in the queue otherwise.
class QueueThread {
 public:
  using LaneFactory = std::function<std::unique_ptr<Lane>(std::function<void()> wake)>;

  struct Options {
    std::uint32_t index = 0;  // of the server, as connections are dealt out to it
    CoreSet cores;            // that the thread stays on; none: any
    Batcher::Options batcher;
    AdmissionQueue::Options admission;
    std::size_t most_waiting_calls = 0;  // of a connection, as ControlPace has it
  };

  // What is referred to outlives this.
  QueueThread(Arena& arena, Backlog& backlog, UnreadBudget& unread, const Options& options,
              const QueueServer::Options& server, Recorder& recorder);
  ~QueueThread();

  // Before StartServer.
  void Add(std::unique_ptr<CallGroup> calls);
  absl::Status StartServer() { return server_.Start(); }
  // Once, after StartServer. The lane's failures to start are the factory's to report.
  void Start(std::unique_ptr<Lane> lane);
  std::function<void()> wake() {
    return [this] { waker_.Wake(); };
  }

  // Any thread: soon CallGroup::Attend.
  void RequestAttention() {
    attention_.store(true);
    waker_.Wake();
  }

  // Any thread: runs this soon on the thread, unless it ends before.
  void RunSoon(std::function<void()> job) ABSL_LOCKS_EXCLUDED(jobs_mu_);

  // Any thread, one at a time: the thread records how much later than `due` it came to this.
  void MeasureLag(TimePoint due) {
    if (lag_due_.load(std::memory_order_relaxed) == kNoDeadline) lag_due_.store(due, std::memory_order_relaxed);
    waker_.Wake();
  }
  // Any thread: the thread's CPU time so far; nothing when it has not begun or has ended.
  std::optional<Nanoseconds> CpuTime() const;

  // After the server's Shutdown returned. Ends the queue once its calls have ended, at `until` without those that have
  // not: a device hangs. Joins.
  void ShutdownAndJoin(TimePoint until);

  std::uint32_t index() const { return options_.index; }
  QueueServer& server() { return server_; }

  // For the calls of this thread, on this thread.
  AdmissionQueue& admission() { return *admission_; }  // after Start
  SlicedWork& slices() { return slices_; }
  ControlPace& pace() { return pace_; }
  CallCount& calls() { return calls_; }

 private:
  void Run();
  // Whether the sockets are looked at when no event is in the queue. What spares it looks soon after.
  enum class Sockets : bool { kLookedAt, kSpared };
  void TakeReadyEvents(Sockets sockets);
  void WaitForEvent();
  // Whether nothing is left to be done, or no time.
  bool IsOver() const;
  void ShutdownQueue();
  // Completes what has finished, and lets in what has its turn then. True: something happened.
  bool Progress();
  void RunJobs() ABSL_LOCKS_EXCLUDED(jobs_mu_);
  void RecordLag();

  static constexpr clockid_t kNoClock = 0;  // CLOCK_REALTIME, which is no thread's

  // Constant after Start.
  Arena& arena_;
  Backlog& backlog_;
  UnreadBudget& unread_;
  const Options options_;
  Recorder& recorder_;
  std::vector<std::unique_ptr<CallGroup>> groups_;  // outlive the server, which knows their services
  QueueServer server_;
  grpc::ServerCompletionQueue* const queue_;
  Waker waker_;
  std::unique_ptr<Lane> lane_;
  std::unique_ptr<Batcher> batcher_;
  std::unique_ptr<AdmissionQueue> admission_;

  // The thread's own.
  CallCount calls_;
  SlicedWork slices_;
  ControlPace pace_;

  Mutex jobs_mu_;
  std::vector<std::function<void()>> jobs_ ABSL_GUARDED_BY(jobs_mu_);
  std::atomic<bool> has_jobs_{false};
  std::atomic<bool> attention_{false};
  std::atomic<TimePoint> lag_due_{kNoDeadline};  // kNoDeadline: nobody asks
  std::atomic<clockid_t> cpu_clock_{kNoClock};
  // When it ends at the latest: kNoDeadline until ShutdownAndJoin.
  std::atomic<TimePoint> end_by_{kNoDeadline};
  std::thread thread_;
};

using QueueThreads = std::vector<std::unique_ptr<QueueThread>>;

}  // namespace softmax::server

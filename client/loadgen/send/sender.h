#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "client/loadgen/measure/board.h"
#include "client/loadgen/plan/workload.h"
#include "client/loadgen/send/pacer.h"
#include "client/loadgen/send/sending_region.h"
#include "client/loadgen/send/verifier.h"
#include "client/softmax_client/callback_queue.h"
#include "client/softmax_client/connection_pool.h"
#include "client/softmax_client/retry.h"

namespace softmax::client {

// Which of a run's sending threads this is.
struct SenderPlace {
  int process = 0;
  int thread = 0;
  std::uint64_t index = 0;  // among those of all processes, and of all parts, that have a connection
  std::uint64_t count = 1;
};

// All of them, in order.
std::vector<SenderPlace> SenderPlaces(const LoadOptions& options);

// One request on its way.
struct Sent {
  std::uint32_t variant = 0;
  std::int64_t due_ns = 0;   // closed loop: sent_ns
  std::int64_t sent_ns = 0;  // just before it is handed to gRPC, for the first time
};

class Caller;

// Requests that each connection may have in flight.
int CapacityOf(const LoadOptions& options);

// As the client library connects to one address or several. Begins to connect.
Connection NewConnection(const LoadOptions& options, std::size_t address);

// What the sending threads of one process share. Outlives them.
struct SharedParts {
  Verifier* verifier = nullptr;     // nullptr: only sizes are checked
  RetryBudget* budget = nullptr;    // nullptr: nothing is sent again
  SendingRegion* region = nullptr;  // nullptr: everything is in messages
};

// What all callers of one sending thread share. Used by that thread only.
class SenderThread {
 public:
  SenderThread(const LoadOptions& options, const Workload& workload, const Board& board, const SharedParts& shared,
               const SenderPlace& place);
  ~SenderThread();

  // Sends on these connections, a caller each, until the window has ended and every answer has come (or was given up).
  // Where there are several addresses, neighbours are to different ones.
  void Run(std::vector<Connection> connections);

  const LoadOptions& options() const { return options_; }
  const std::vector<Connection>& connections() const { return connections_; }
  const RetryOptions& retry_options() const { return retry_options_; }
  RetryBudget* budget() { return shared_.budget; }
  const Workload& workload() const { return workload_; }
  grpc::CompletionQueue* queue() { return &queue_; }
  Verifier* verifier() { return shared_.verifier; }
  SendingRegion* region() { return shared_.region; }

  // Closed loop: the next variant to send.
  std::uint32_t NextVariant() { return workload_.VariantAt(position_++); }

  // Whether this answer is one of the sampled fraction.
  bool Sample() { return random_() < sample_below_; }

  // Which connection a call of the caller `home` takes: its own, but where there are several addresses none that is
  // broken or leads to `avoid`, where there is another.
  std::size_t ConnectionFor(std::size_t home, std::size_t avoid = kAvoidNone) const;
  grpc::GenericStub& StubOf(std::size_t connection) { return stubs_[connection]; }
  // After a call on it has failed.
  void RenewIfLost(std::size_t connection);
  // Says who asks, on a call or stream that is about to begin.
  void Authorize(grpc::ClientContext* context) const {
    if (!authorization_.empty()) context->AddMetadata("authorization", authorization_);
  }

  // Books a request that is being sent for the first time; each is followed by one RecordAnswer or RecordError.
  void RecordSend(const Sent& sent);
  // One attempt of it, the first too, at that address; each is followed by RecordAttemptEnd.
  void RecordAttempt(const Sent& sent, std::size_t address);
  void RecordAttemptEnd(const Sent& sent, std::size_t address, int code);
  // Instead of RecordAttemptEnd: no server has seen it, it is sent again, and does not count.
  void RecordUnseen(const Sent& sent, std::size_t address);
  // An attempt that failed and is made again; or would have been if the budget allowed it.
  void RecordRetry(const Sent& sent, int code);
  void RecordThrottled(const Sent& sent);
  void RecordAnswer(const Sent& sent);
  void RecordError(const Sent& sent, int code, const std::string& message);
  // An error that is no request's own; it counts where one that is sent now would.
  void RecordFault(int code, const std::string& message);

  // Closed loop: no more requests are to be sent.
  bool Ended(std::int64_t now_ns) const { return now_ns >= control_.end_ns.load(std::memory_order_relaxed); }

  // A caller that has nothing more in flight and sends no more.
  void CallerDone() { --live_callers_; }

 private:
  bool TakeEvent(std::int64_t wait_ns);
  void SendWhatIsDue();
  void Dispatch(const Due& due);
  void AwaitDue(std::int64_t due_ns, std::int64_t now_ns);
  // Takes events, without a look at the clock before each, until every caller is done.
  void AwaitAnswers();
  // From time to time, for what must be looked at even when no answer comes.
  void OnHeartbeat(bool ok);
  void CountError(bool in_window, int code, const std::string& message);
  // Gives up what is open for too long after the end.
  void CancelLateCalls();
  // Whether this request is one of the window's as far as what was sent is concerned.
  bool InWindow(const Sent& sent) const { return InWindow(sent.due_ns); }
  bool InWindow(std::int64_t ns) const { return ns >= control_.start_ns.load(std::memory_order_relaxed) && !Ended(ns); }

  const LoadOptions& options_;
  const Workload& workload_;
  const Board& board_;
  Control& control_;
  ThreadTally& tally_;
  const SharedParts shared_;
  const SenderPlace place_;
  const RetryOptions retry_options_;
  const std::string authorization_;  // empty: none
  const bool open_;

  grpc::CompletionQueue queue_;
  std::mt19937_64 random_;
  std::uint64_t sample_below_ = 0;
  std::uint64_t position_ = 0;
  std::size_t live_callers_ = 0;
  std::size_t next_caller_ = 0;
  std::int64_t outstanding_ = 0;  // open loop: given to a caller and not yet answered
  bool cancelled_ = false;
  std::vector<Connection> connections_;
  std::deque<grpc::GenericStub> stubs_;  // of each
  std::vector<std::unique_ptr<Caller>> callers_;
  grpc::Alarm heartbeat_;
  Step<SenderThread> on_heartbeat_{this, &SenderThread::OnHeartbeat};
};

// One connection and its requests in flight; where there are several addresses and this connection is broken, its
// unary calls take another. Lives on its thread.
class Caller {
 public:
  // `home`: its place among those of its thread.
  Caller(SenderThread& thread, std::size_t home) : thread_(thread), home_(home) {}
  virtual ~Caller() = default;

  // Before anything else. In a closed loop the caller sends from then on, until the window has ended.
  virtual void Start() = 0;
  // Open loop: sends that variant, or refuses because `capacity` requests are in flight or the connection is broken.
  virtual bool Send(std::uint32_t variant, std::int64_t due_ns) = 0;
  // Open loop: nothing more is sent. The caller says CallerDone as soon as it has its answers.
  virtual void Stop() = 0;
  // Answers are no longer waited for.
  virtual void Cancel() = 0;

 protected:
  // Whether an answer is to be verified: the first of each connection, then the sampled fraction.
  bool Verifies() {
    if (thread_.verifier() == nullptr || (first_verified_ && !thread_.Sample())) return false;
    first_verified_ = true;
    return true;
  }

  SenderThread& thread_;
  const std::size_t home_;
  bool stopped_ = false;
  bool cancelled_ = false;

 private:
  bool first_verified_ = false;
};

// Room for `capacity` requests.
std::unique_ptr<Caller> MakeStreamCaller(SenderThread& thread, std::size_t home, int capacity);
std::unique_ptr<Caller> MakeUnaryCaller(SenderThread& thread, std::size_t home, int capacity);

}  // namespace softmax::client

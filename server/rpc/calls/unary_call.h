#pragma once

#include <list>
#include <memory>
#include <span>
#include <string_view>

#include "server/batching/pending_request.h"
#include "server/rpc/calls/thread_context.h"
#include "server/rpc/queue/call.h"
#include "server/rpc/queue/raw_call.h"

namespace softmax::server {

// One unary call that brings tensors, from waiting to be matched to its last operation's end: what is the same for
// every contract. Lives on its queue thread.
class UnaryCall : public Call {
 public:
  void Proceed(bool ok) final;

  TimePoint answered_at() const { return answered_at_; }
  // Null: it has gone.
  Connection* connection() const { return connection_.get(); }
  // Gives the answer up: the transport drops what it still can.
  void GiveUp() {
    given_up_ = true;  // gRPC does not tell: to it, what waits for the socket is sent
    call_.Cancel();
  }

 protected:
  UnaryCall(ThreadContext& thread, Method method);
  ~UnaryCall() override;

  // Offers the server this call, of the service's unary method.
  void Offer(const TensorService& service) {
    call_.Request(thread_.queue_thread.server().grpc(), service.unary(), thread_.queue());
  }
  // Offers one more call of the same kind.
  virtual void Rearm() = 0;
  // Reads the message, which is there. Any thread.
  virtual absl::Status Decode(const WireLimits& limits) = 0;
  // Whether that would have taken more than limits.max_steps, and decided nothing.
  virtual bool is_beyond_budget() const = 0;
  // Finds what the request has elsewhere than in its message: in regions, or files.
  virtual absl::Status FindPlaces() { return absl::OkStatus(); }
  // Hands in what Decode read; the connection is known. `deadline`: the call's own.
  virtual void Submit(TimePoint arrived, TimePoint deadline) = 0;
  // What the log calls the request.
  virtual std::uint64_t log_id() const = 0;
  // The request is counted. `answer` may be null: it did not run.
  virtual void OnCounted(const RequestSample& /*sample*/, const Answer* /*answer*/) {}

  // First of all when a request is complete. False: the caller was told an error.
  bool CanAnswer(const Answer& answer, TimePoint deadline);
  // A tensor's answer: its piece of the header, with the payload's parts in their places (counted from its begin).
  struct Piece {
    std::string_view header;
    AnswerParts parts;
    AnswerPlaces places;
    AnswerMemory memory;
  };
  using Pieces = std::span<const Piece>;
  // Answers with these, which are borrowed for the call: at once, or when what has to be copied and is large was copied
  // between other events.
  void Send(const Answer& answer, Pieces pieces);

  ConnectionShare* share() const { return connection_ == nullptr ? nullptr : &connection_->share(); }
  bool caller_left() const { return connection_ == nullptr ? left_early_ : connection_->left(); }
  ThreadContext& thread() const { return thread_; }
  RawCall& call() { return call_; }
  const RawCall& call() const { return call_; }

 private:
  void Handle();
  // Reads the message on a thread that has time for it.
  void DecodeElsewhere();
  // The message was read, with this status.
  void Decoded(absl::Status status);
  struct Deferred;  // an answer that is being copied

  void FinishWithError(const absl::Status& status, TimePoint now);
  static std::uint64_t BytesOf(Pieces pieces);
  // Whether the answer has to be copied and takes long to copy.
  bool MustDefer(Pieces pieces) const;
  void Defer(const Answer& answer, Pieces pieces);
  // A step of that; whether it was the last.
  bool CopySome();
  void SendNow(const Answer& answer, Pieces pieces);
  // Before an answer with a payload of `bytes`, which may leave by reference.
  void ListIfLarge(std::uint64_t bytes);
  void Account(const absl::Status& status, TimePoint now, const Answer* answer);
  // Whether the call's end tells more of it than its answer did: a large answer may not be read, and without a message
  // the client may have left.
  bool CountsAtEnd() const { return listed_ || call_.message() == nullptr; }
  void CountAtEnd();

  ThreadContext& thread_;
  RawCall call_;
  std::shared_ptr<Connection> connection_;  // null: it has gone
  const Method method_;
  enum class State : std::uint8_t { kWaiting, kRunning, kAnswering } state_ = State::kWaiting;
  TimePoint call_arrived_;
  TimePoint call_deadline_ = kNoDeadline;  // of its request, once that is complete
  TimePoint answered_at_;
  RequestSample sample_;  // CountsAtEnd: what is counted then
  bool counts_at_end_ = false;
  bool given_up_ = false;
  bool left_early_ = false;  // before the call was taken
  bool listed_ = false;
  std::list<UnaryCall*>::iterator place_;
  std::unique_ptr<Deferred> deferred_;
};

}  // namespace softmax::server

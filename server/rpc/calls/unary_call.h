#pragma once

#include <list>

#include "server/batching/pending_request.h"
#include "server/rpc/queue/message_view.h"
#include "server/rpc/queue/queue_thread.h"
#include "server/rpc/queue/raw_call.h"
#include "server/rpc/queue/tag.h"

namespace softmax::server {

// One Softmax call, from waiting to be matched to its last operation's end. Lives on its queue thread; only CopyInput
// and LendInput may run elsewhere.
class UnaryCall final : public Tag, public PendingRequest {
 public:
  // Offers the server one more call to match.
  static void Arm(QueueThread& thread);

  void Proceed(bool ok) override;

  void CopyInput(std::byte* destination) override;
  void LendInput(InputPieces* pieces) override {
    ListPieces(MessageView(call_.message()), request_.payload_offset, spec_.input_bytes(), pieces);
  }
  const std::uint32_t* lengths() const override { return request_.lengths.data(); }
  const std::int32_t* indices() const override { return request_.indices.data(); }
  bool CallerLeft() const override { return connection_ == nullptr ? left_early_ : connection_->left(); }
  void AnnounceCompletion() override {
    together_ = connection_ != nullptr && Cork::IsWorthIt(spec_.output_bytes());
    if (together_) connection_->cork().Announce();
  }
  void Complete(const Answer& answer) override;

  TimePoint answered_at() const { return answered_at_; }
  // Null: it has gone.
  Connection* connection() const { return connection_.get(); }
  // Gives the answer up: the transport drops what it still can.
  void GiveUp() {
    given_up_ = true;  // gRPC does not tell: to it, what waits for the socket is sent
    call_.Cancel();
  }

 private:
  explicit UnaryCall(QueueThread& thread) : thread_(thread), counted_(thread.calls()), call_(this) {}
  ~UnaryCall() override;

  void Handle();
  void FinishWithError(const absl::Status& status, TimePoint now);
  ConnectionShare* share() const { return connection_ == nullptr ? nullptr : &connection_->share(); }
  void Account(const absl::Status& status, TimePoint now, const Answer* answer);
  // Whether the call's end tells more of it than its answer did: a large answer may not be read, and without a message
  // the client may have left.
  bool CountsAtEnd() const { return listed_ || call_.message() == nullptr; }
  void CountAtEnd();

  QueueThread& thread_;
  const CallCount::Member counted_;
  RawCall call_;
  DecodedRequest request_;
  std::shared_ptr<Connection> connection_;  // null: it has gone
  enum class State : std::uint8_t { kWaiting, kRunning, kAnswering } state_ = State::kWaiting;
  TimePoint answered_at_;
  RequestSample sample_;  // CountsAtEnd: what is counted then
  bool counts_at_end_ = false;
  bool given_up_ = false;
  bool left_early_ = false;  // before the call was taken
  bool listed_ = false;
  bool together_ = false;  // with other answers of its batch
  std::list<UnaryCall*>::iterator place_;
};

}  // namespace softmax::server

#pragma once

#include "server/batching/pending_request.h"
#include "server/rpc/calls/unary_call.h"
#include "server/rpc/queue/message_view.h"

namespace softmax::server {

// One Softmax call. Lives on its queue thread; only CopyInput and LendInput may run elsewhere.
class SoftmaxCall final : public UnaryCall, public PendingRequest {
 public:
  // Offers the server one more call to match.
  static void Arm(ThreadContext& thread);

  void CopyInput(std::byte* destination) override;
  void LendInput(InputPieces* pieces) override {
    ListPieces(MessageView(call().message()), request_.payload_offset, spec_.input_bytes(), pieces);
  }
  const std::uint32_t* lengths() const override { return request_.lengths.data(); }
  const std::int32_t* indices() const override { return request_.indices.data(); }
  bool CallerLeft() const override { return caller_left(); }
  void AnnounceCompletion() override {
    together_ = connection() != nullptr && Cork::IsWorthIt(spec_.output_bytes());
    if (together_) connection()->cork().Announce();
  }
  void Complete(const Answer& answer) override;

 private:
  explicit SoftmaxCall(ThreadContext& thread) : UnaryCall(thread, Method::kSoftmax) {}

  void Rearm() override { Arm(thread()); }
  absl::Status Decode(const WireLimits& limits) override {
    return FrontDoor::Decode(call().message(), limits, &request_);
  }
  absl::Status FindPlaces() override { return thread().door.FindPlaces(request_, &regions_); }
  bool is_beyond_budget() const override { return request_.beyond_budget; }
  void Submit(TimePoint arrived, TimePoint deadline) override;
  std::uint64_t log_id() const override { return request_.id; }

  DecodedRequest request_;
  bool together_ = false;  // with other answers of its batch
};

}  // namespace softmax::server

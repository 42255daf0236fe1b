#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "server/rpc/calls/stream_call.h"
#include "server/rpc/oip/infer_group.h"

namespace softmax::server {

// One ModelStreamInfer call: a request in each message, and an answer in each, in the order of the requests, as Triton
// has it for models that answer once. An answer that is ready before its turn waits among outgoing_, and counts there
// like any that waits.
//
// With the metadata `triton_grpc_error: true` the first error, in that order, ends the call with its status instead of
// being an answer, and what comes behind it is dropped.
class InferStreamCall final : public StreamCall {
 public:
  static void Arm(InferGroup& group);

 private:
  class Request;

  explicit InferStreamCall(InferGroup& group) : StreamCall(group.thread(), /*joins=*/false), group_(group) {}

  void Rearm() override { Arm(group_); }
  void HandleMessage(const std::shared_ptr<Message>& message) override;
  // Reads a message on a thread that has time for it.
  void DecodeElsewhere(std::unique_ptr<Request> request);
  // A request that was read, with this status of its message.
  void Take(std::unique_ptr<Request> request, const absl::Status& read);
  bool MayWrite(const Outgoing& first) const override { return first.turn < next_; }
  void Completed(Request* request, const Answer& answer);

  // Turns are the requests' numbers, in the order in which they came.
  std::uint64_t TakeTurn();
  void EndTurn(std::uint64_t turn);
  // The status of a request that failed: its answer, or the call's end.
  void Fail(std::uint64_t turn, const std::string& id, const absl::Status& status);
  // Puts the last `count` of outgoing_ where their turn is.
  void MoveToTurn(std::uint64_t turn, std::size_t count);
  // Its answer is not wanted any more.
  bool IsDropped(std::uint64_t turn) const { return state_ == State::kBroken || turn > last_; }

  InferGroup& group_;
  std::uint64_t next_ = 0;           // the first turn whose request is unanswered
  std::deque<bool> answered_;        // from next_ on
  std::uint64_t last_ = UINT64_MAX;  // the turn at which the call ends with an error; its answer is the status
};

}  // namespace softmax::server

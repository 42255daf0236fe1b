#include "server/rpc/oip/infer_stream_call.h"

#include <string>
#include <utility>

#include "server/rpc/calls/call_deadline.h"
#include "server/rpc/oip/inference.h"

namespace softmax::server {
namespace {

std::string EncodedError(const std::string& id, const absl::Status& status) {
  std::string encoded;
  EncodeInferStreamError(id, status, &encoded);
  return encoded;
}

}  // namespace

// One request of a stream. Deletes itself when it is answered.
class InferStreamCall::Request final : public Inference::Owner {
 public:
  Request(InferStreamCall* call, std::shared_ptr<StreamCall::Message> message)
      : call_(call), message_(std::move(message)) {}

  MessageView Message() const override { return MessageView(&message_->buffer); }
  bool CallerLeft() const override { return call_->connection_ != nullptr && call_->connection_->left(); }
  SlicedWork& slices() override { return call_->thread_.slices(); }
  const Connection* connection_of() const override { return call_->connection_.get(); }
  void Completed(const Answer& answer) override {
    std::unique_ptr<Request> self(this);
    call_->Completed(this, answer);
  }
  Inference& inference() { return inference_; }

 private:
  InferStreamCall* const call_;
  const std::shared_ptr<StreamCall::Message> message_;  // stays as long as this
  Inference inference_{this};
};

void InferStreamCall::Arm(QueueThread& thread) {
  auto* call = new InferStreamCall(thread);
  thread.server().inference.RequestModelStreamInfer(&call->context_, &call->stream_, thread.queue(),
                                                    static_cast<Tag*>(&call->started_));
}

void InferStreamCall::HandleMessage(const std::shared_ptr<Message>& message) {
  const TimePoint now = SteadyClock::now();
  FrontDoor& door = thread_.door();
  auto request = std::make_unique<Request>(this, message);
  InferRequest& decoded = request->inference().request();
  absl::Status status = door.Decoded(FrontDoor::Decode(&message->buffer, thread_.state().limits, &decoded));
  if (!status.ok()) return End(std::move(status));
  if (!door.StreamedRequestArrived(Method::kModelStreamInfer, decoded.status, now)) {
    if (decoded.model != nullptr) {
      thread_.model_counts().Count(
          *decoded.model, SampleOf(Method::kModelStreamInfer, decoded.status, now, now, nullptr), 0, nullptr, now);
    }
    Refuse(EncodedError(decoded.id, decoded.status));
    return;
  }
  ++in_flight_;
  // A request that is complete at once does not write, read or end the call inside of this: the caller does.
  ++gathering_;
  request.release()->inference().Submit(thread_.admission(), share(), CallKind::kStreamed, now,
                                        DeadlineOf(context_.raw_deadline()));
  --gathering_;
}

void InferStreamCall::Completed(Request* request, const Answer& answer) {
  const TimePoint now = SteadyClock::now();
  Inference& inference = request->inference();
  const InferRequest& decoded = inference.request();
  absl::Status status = StatusOf(answer, inference.deadline(), now);
  const RequestSample sample = SampleOf(Method::kModelStreamInfer, status, inference.arrived(), now, &answer);
  thread_.model_counts().Count(*decoded.model, sample, inference.rows(), &answer, now);
  const Booked booked =
      Book(sample, std::move(status), inference.largest_output(), inference.copied_bytes(), inference.log_id(), answer);
  if (state_ == State::kBroken) {
    // Its answer has nowhere to go.
  } else if (!booked.status.ok()) {
    QueueError(EncodedError(decoded.id, booked.status));
  } else {
    std::string header;
    InferPieces pieces;
    EncodeInferHeader(decoded, /*in_stream=*/true, &header, &pieces);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      QueueOutput(std::string(pieces[i].HeaderIn(header)), pieces[i].parts, inference.places(i), &inference.span(i),
                  now);
      outgoing_.back().goes_on = i + 1 < pieces.size();
    }
    if (booked.counts_when_written) outgoing_.back().sample = booked.sample;
  }
  Continue();
}

}  // namespace softmax::server

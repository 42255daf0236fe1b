#include "server/rpc/oip/infer_stream_call.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "common/wire/oip_encode.h"
#include "server/rpc/calls/call_times.h"
#include "server/rpc/oip/inference.h"

namespace softmax::server {
namespace {

// An answer that waits for its turn up to this size leaves the arena at once: the answer before it may be waiting for
// just that memory. Larger ones get memory in the order of their requests.
constexpr std::uint64_t kHeldBytes = 1u << 20;

std::string EncodedError(const std::string& id, const absl::Status& status) {
  std::string encoded;
  EncodeInferStreamError(id, status, &encoded);
  return encoded;
}

bool EndsWithErrors(const grpc::ServerContext& context) {
  const auto it = context.client_metadata().find("triton_grpc_error");
  return it != context.client_metadata().end() && it->second == "true";
}

}  // namespace

// One request of a stream. Deletes itself when it is answered.
class InferStreamCall::Request final : public Inference::Owner {
 public:
  Request(InferStreamCall* call, std::shared_ptr<StreamCall::Message> message, std::uint64_t turn)
      : call_(call), message_(std::move(message)), turn_(turn) {}

  MessageView Message() const override { return MessageView(&message_->buffer); }
  grpc::ByteBuffer* buffer() { return &message_->buffer; }
  bool CallerLeft() const override { return call_->connection_ != nullptr && call_->connection_->left(); }
  SlicedWork& slices() override { return call_->thread_.slices; }
  const Connection* connection_of() const override { return call_->connection_.get(); }
  void Completed(const Answer& answer) override {
    std::unique_ptr<Request> self(this);
    call_->Completed(this, answer);
  }
  Inference& inference() { return inference_; }
  std::uint64_t turn() const { return turn_; }

 private:
  InferStreamCall* const call_;
  const std::shared_ptr<StreamCall::Message> message_;  // stays as long as this
  const std::uint64_t turn_;
  Inference inference_{this};
};

void InferStreamCall::Arm(InferGroup& group) {
  auto* call = new InferStreamCall(group);
  call->Offer(&group.service());
}

std::uint64_t InferStreamCall::TakeTurn() {
  answered_.push_back(false);
  return next_ + answered_.size() - 1;
}

void InferStreamCall::EndTurn(std::uint64_t turn) {
  answered_[turn - next_] = true;
  for (; !answered_.empty() && answered_.front(); ++next_) answered_.pop_front();
  if (turn < next_) return;
  for (Outgoing& out : outgoing_) {
    if (out.turn == turn && out.span && out.bytes() <= kHeldBytes) CopyOut(&out);
  }
}

void InferStreamCall::MoveToTurn(std::uint64_t turn, std::size_t count) {
  const auto moved = outgoing_.end() - static_cast<std::ptrdiff_t>(count);
  for (auto it = moved; it != outgoing_.end(); ++it) it->turn = turn;
  auto place = moved;
  while (place != outgoing_.begin() && std::prev(place)->turn > turn) --place;
  std::rotate(place, moved, outgoing_.end());
}

void InferStreamCall::Fail(std::uint64_t turn, const std::string& id, const absl::Status& status) {
  if (IsDropped(turn)) return;
  if (!EndsWithErrors(context_)) {
    QueueError(EncodedError(id, status));
    MoveToTurn(turn, 1);
    return;
  }
  last_ = turn;
  End(status);
  end_status_ = status;  // also where the client has said that it sends no more
  const auto is_later = [turn](const Outgoing& out) { return out.turn > turn; };
  DropOutgoing(std::find_if(outgoing_.begin(), outgoing_.end(), is_later));
}

void InferStreamCall::HandleMessage(const std::shared_ptr<Message>& message) {
  auto request = std::make_unique<Request>(this, message, TakeTurn());
  InferRequest& decoded = request->inference().request();
  const absl::Status status = FrontDoor::Decode(&message->buffer, thread_.door.LimitsAtOnce(), &decoded);
  if (decoded.beyond_budget) return DecodeElsewhere(std::move(request));
  Take(std::move(request), status);
}

void InferStreamCall::DecodeElsewhere(std::unique_ptr<Request> request) {
  const std::uint64_t bytes = request->Message().bytes();
  if (share() != nullptr) share()->in_flight_bytes += bytes;
  ++in_flight_;
  thread_.state.long_work.Add(connection_.get(), [this, bytes, request = request.release()] {
    const absl::Status status =
        FrontDoor::Decode(request->buffer(), thread_.state.limits, &request->inference().request());
    thread_.queue_thread.RunSoon([this, bytes, request, status] {
      if (share() != nullptr) share()->in_flight_bytes -= bytes;
      --in_flight_;
      Take(std::unique_ptr<Request>(request), status);
      Continue();
    });
  });
}

void InferStreamCall::Take(std::unique_ptr<Request> request, const absl::Status& read) {
  const TimePoint now = SteadyClock::now();
  if (read.ok()) (void)request->inference().FindFiles(group_.files());
  FrontDoor& door = thread_.door;
  const InferRequest& decoded = request->inference().request();
  if (absl::Status status = door.Decoded(read); !status.ok()) {
    EndTurn(request->turn());
    End(std::move(status));
    return;
  }
  if (!door.StreamedRequestArrived(Method::kModelStreamInfer, decoded.status, now)) {
    if (decoded.model != nullptr) {
      group_.counts().Count(*decoded.model, SampleOf(Method::kModelStreamInfer, decoded.status, now, now, nullptr), 0,
                            nullptr, now);
    }
    Fail(request->turn(), decoded.id, decoded.status);
    EndTurn(request->turn());
    if (connection_ != nullptr) connection_->account().RequestAnswered();
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
  const std::uint64_t turn = request->turn();
  absl::Status status = StatusOf(answer, inference.deadline(), now);
  const RequestSample sample = SampleOf(Method::kModelStreamInfer, status, inference.arrived(), now, &answer);
  group_.counts().Count(*decoded.model, sample, inference.rows(), &answer, now);
  const Booked booked =
      Book(sample, std::move(status), inference.largest_output(), inference.copied_bytes(), inference.log_id(), answer);
  if (!booked.status.ok()) {
    Fail(turn, decoded.id, booked.status);
  } else if (IsDropped(turn)) {
    // Its answer has nowhere to go; Book has counted it where the client does not read.
    if (state_ != State::kBroken && booked.counts_when_written) CountFinished(booked.sample, /*written=*/false);
  } else {
    std::string header;
    AnswerPieces pieces;
    EncodeInferHeader(decoded, /*in_stream=*/true, &header, &pieces);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      QueueOutput(std::string(pieces[i].HeaderIn(header)), pieces[i].parts, inference.places(i), &inference.span(i),
                  now);
      outgoing_.back().goes_on = i + 1 < pieces.size();
    }
    if (booked.counts_when_written) outgoing_.back().sample = booked.sample;
    MoveToTurn(turn, pieces.size());
  }
  EndTurn(turn);
  Continue();
}

}  // namespace softmax::server

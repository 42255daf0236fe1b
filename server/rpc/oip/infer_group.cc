#include "server/rpc/oip/infer_group.h"

#include <absl/container/inlined_vector.h>

#include <string>

#include "common/wire/oip_encode.h"
#include "server/rpc/calls/unary_call.h"
#include "server/rpc/oip/infer_control.h"
#include "server/rpc/oip/infer_stream_call.h"
#include "server/rpc/oip/inference.h"

namespace softmax::server {
namespace {

// One call of the Open Inference Protocol that brings no tensor.
class InferControlCall final : public ControlCall {
 public:
  // `method`: its place in InferControlMethods.
  static void Arm(InferGroup& group, std::size_t method) {
    auto* call = new InferControlCall(group, method);
    group.service().RequestControl(static_cast<int>(method), &call->context_, &call->request_, &call->responder_,
                                   group.thread().queue(), static_cast<Tag*>(call));
  }

  void TakeTurn(const absl::Status& entry) override {
    const TimePoint arrived = SteadyClock::now();
    FrontDoor& door = group_.thread().door;
    const ServiceState& state = group_.thread().state;
    door.RequestArrived();
    const absl::Status status = entry.ok() ? door.Authorize(context_) : entry;
    const auto read = [this](google::protobuf::MessageLite* to) { return place_.Parse(request_, context_.peer(), to); };
    const InferControlSources sources{state.health, group_.statistics(), state.info.version(), group_.files()};
    const absl::StatusOr<grpc::ByteBuffer> answer =
        status.ok() ? InferControlMethods()[method_].answer(sources, read) : status;
    const RequestSample sample = SampleOf(Method::kInferControl, answer.status(), arrived, SteadyClock::now(), nullptr);
    door.RequestFinished(sample, /*id=*/0, nullptr, context_);
    Finish(answer);
  }

 private:
  InferControlCall(InferGroup& group, std::size_t method)
      : ControlCall(group.thread().control, [&group, method] { Arm(group, method); }), group_(group), method_(method) {}

  InferGroup& group_;
  const std::size_t method_;
};

// One ModelInfer call. Lives on its queue thread.
class InferCall final : public UnaryCall, private Inference::Owner {
 public:
  // Offers the server one more call to match.
  static void Arm(InferGroup& group) {
    auto* call = new InferCall(group);
    call->Offer(group.service());
  }

 private:
  explicit InferCall(InferGroup& group)
      : UnaryCall(group.thread(), Method::kModelInfer), group_(group), inference_(this) {}

  void Rearm() override { Arm(group_); }
  absl::Status Decode(const WireLimits& limits) override {
    return FrontDoor::Decode(call().message(), limits, &inference_.request());
  }
  absl::Status FindPlaces() override { return inference_.FindFiles(group_.files()); }
  bool is_beyond_budget() const override { return inference_.request().beyond_budget; }
  void Submit(TimePoint arrived, TimePoint deadline) override {
    inference_.Submit(thread().admission(), share(), CallKind::kUnary, arrived, deadline);
  }
  std::uint64_t log_id() const override { return inference_.log_id(); }
  void OnCounted(const RequestSample& sample, const Answer* answer) override;

  MessageView Message() const override { return MessageView(call().message()); }
  void InputTaken() override { call().ClearMessage(); }
  bool CallerLeft() const override { return caller_left(); }
  SlicedWork& slices() override { return thread().slices; }
  const Connection* connection_of() const override { return connection(); }
  Cork* Announce(std::uint64_t bytes) override;
  void Completed(const Answer& answer) override;

  InferGroup& group_;
  Inference inference_;
};

Cork* InferCall::Announce(std::uint64_t bytes) {
  if (connection() == nullptr || !Cork::IsWorthIt(bytes)) return nullptr;
  connection()->cork().Announce();
  return &connection()->cork();
}

void InferCall::Completed(const Answer& answer) {
  if (!CanAnswer(answer, inference_.deadline())) return;
  static thread_local std::string header;
  header.clear();
  AnswerPieces pieces;
  EncodeInferHeader(inference_.request(), /*in_stream=*/false, &header, &pieces);
  absl::InlinedVector<Piece, 1> sent;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    sent.push_back({pieces[i].HeaderIn(header), pieces[i].parts, inference_.places(i), {&inference_.span(i)}});
  }
  thread().recorder.Add(Counter::kCopiedIn, inference_.copied_bytes());
  Send(answer, sent);
  for (std::size_t i = 0; i < pieces.size(); ++i) inference_.span(i).Reset();  // who needs one has its own
}

void InferCall::OnCounted(const RequestSample& sample, const Answer* answer) {
  const InferModel* const model = inference_.request().model;
  if (model == nullptr) return;
  group_.counts().Count(*model, sample, inference_.rows(), answer, SteadyClock::now());
}

}  // namespace

void InferGroup::Register(grpc::ServerBuilder* builder) {
  for (const InferControlMethod& method : InferControlMethods()) service_.AddControl(method.name);
  builder->RegisterService(&service_);
}

void InferGroup::Arm() {
  for (int i = 0; i < kArmedUnaryCalls; ++i) InferCall::Arm(*this);
  for (int i = 0; i < kArmedStreamCalls; ++i) InferStreamCall::Arm(*this);
  for (int i = 0; i < kArmedControlCalls; ++i) {
    for (std::size_t method = 0; method < InferControlMethods().size(); ++method) InferControlCall::Arm(*this, method);
  }
}

}  // namespace softmax::server

#include "server/rpc/calls/softmax_group.h"

#include <algorithm>
#include <string>

#include "server/batching/pending_request.h"
#include "server/rpc/calls/call_times.h"
#include "server/rpc/calls/reflection_call.h"
#include "server/rpc/calls/stream_call.h"
#include "server/rpc/calls/unary_call.h"
#include "server/rpc/queue/message_view.h"

namespace softmax::server {
namespace {

// One GetServerInfo call.
class InfoCall final : public ControlCall {
 public:
  static void Arm(ThreadContext& thread) {
    auto* call = new InfoCall(thread);
    thread.softmax.RequestControl(/*method=*/0, &call->context_, &call->request_, &call->responder_, thread.queue(),
                                  static_cast<Tag*>(call));
  }

  void TakeTurn(const absl::Status& entry) override {
    const TimePoint arrived = SteadyClock::now();
    FrontDoor& door = thread_.door;
    door.RequestArrived();
    v1::GetServerInfoRequest request;
    absl::Status status = entry;
    if (status.ok()) status = door.Authorize(context_);
    if (status.ok()) status = place_.Parse(request_, context_.peer(), &request);
    const RequestSample sample = SampleOf(Method::kGetServerInfo, status, arrived, SteadyClock::now(), nullptr);
    door.RequestFinished(sample, /*id=*/0, nullptr, context_);
    if (!status.ok()) return Finish(status);
    v1::GetServerInfoResponse info = thread_.state.info;
    thread_.state.describe_devices(&info);
    Finish(SerializeControl(info));
  }

 private:
  explicit InfoCall(ThreadContext& thread) : ControlCall(thread.control, [&thread] { Arm(thread); }), thread_(thread) {}

  ThreadContext& thread_;
};

// One Softmax call. Lives on its queue thread; only CopyInput and LendInput may run elsewhere.
class SoftmaxCall final : public UnaryCall, public PendingRequest {
 public:
  // Offers the server one more call to match.
  static void Arm(ThreadContext& thread) {
    auto* call = new SoftmaxCall(thread);
    call->Offer(thread.softmax);
  }

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

void SoftmaxCall::Submit(TimePoint arrived, TimePoint deadline) {
  spec_ = request_.spec;
  message_bytes_ = request_.encoded_bytes;
  arrived_ = arrived;
  deadline_ = std::min(deadline, DeadlineAfter(arrived, request_.timeout_us));
  thread().admission().Submit(this, share(), CallKind::kUnary, arrived);
}

void SoftmaxCall::CopyInput(std::byte* destination) {
  CopyFromSlices(MessageView(call().message()).slices(), request_.payload_offset, spec_.input_bytes(), destination);
  call().ClearMessage();
}

void SoftmaxCall::Complete(const Answer& answer) {
  const CorkScope together(together_ ? &connection()->cork() : nullptr);
  if (!CanAnswer(answer, deadline_)) return;
  static thread_local std::string header;
  header.clear();
  Piece piece{.places = answer, .memory = {answer.span}};
  EncodeAnswerHeader(request_, TimingOf(answer), /*in_stream=*/false, &header, &piece.parts);
  piece.header = header;
  thread().recorder.Add(Counter::kCopiedIn, copied_bytes());
  Send(answer, {&piece, 1});
}

}  // namespace

void SoftmaxGroup::Register(grpc::ServerBuilder* builder) {
  context_.softmax.AddControl("/softmax.v1.SoftmaxService/GetServerInfo");
  builder->RegisterService(&context_.softmax);
  context_.control.Register(builder);
  if (reflects_) builder->RegisterService(&context_.reflection);
}

void SoftmaxGroup::Arm() {
  for (int i = 0; i < kArmedUnaryCalls; ++i) SoftmaxCall::Arm(context_);
  for (int i = 0; i < kArmedStreamCalls; ++i) StreamCall::Arm(context_);
  for (int i = 0; i < kArmedControlCalls; ++i) {
    InfoCall::Arm(context_);
    if (reflects_) ArmReflection(context_);
  }
  context_.control.Arm(kArmedControlCalls);
}

void SoftmaxGroup::Attend(TimePoint now) {
  const ServiceState& state = context_.state;
  const Connections& connections = state.connections;
  const bool memory_is_short = state.backlog.memory_is_short();
  const auto overdue = [&](Connection* connection, TimePoint sent) {
    return connections.OverdueAt(connection, sent, memory_is_short, now) <= now;
  };
  for (UnaryCall* call : context_.answering) {
    if (now - call->answered_at() < connections.look_after()) break;
    if (overdue(call->connection(), call->answered_at())) call->GiveUp();
  }
  const bool draining = state.draining.load();
  for (auto it = context_.streams.begin(); it != context_.streams.end();) {
    StreamCall* const stream = *it++;  // Drain may end the stream
    if (stream->writing() && overdue(stream->connection(), stream->writing_since())) stream->GiveUp();
    stream->CopyOutOlderThan(now - connections.options().answer_timeout);
    if (draining) stream->Drain();
  }
  context_.control.UpdateWatches();
}

}  // namespace softmax::server

#include "server/rpc/calls/control_context.h"

#include <absl/strings/str_cat.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/slice.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/safe_text.h"
#include "server/rpc/guard/cut_message.h"
#include "server/rpc/queue/status.h"

namespace softmax::server {
namespace {

using grpc::health::v1::HealthCheckResponse;

HealthCheckResponse::ServingStatus ToWire(Health::Status status) {
  switch (status) {
    case Health::Status::kServing:
      return HealthCheckResponse::SERVING;
    case Health::Status::kNotServing:
      return HealthCheckResponse::NOT_SERVING;
    case Health::Status::kUnknownService:
      return HealthCheckResponse::SERVICE_UNKNOWN;
  }
  return HealthCheckResponse::UNKNOWN;
}

class CheckCall final : public ControlCall {
 public:
  static void Arm(ControlContext& place) {
    auto* call = new CheckCall(place);
    place.service.RequestCheck(&call->context_, &call->request_, &call->responder_, place.queue, place.queue,
                               static_cast<Tag*>(call));
  }

  void TakeTurn(const absl::Status& entry) override {
    grpc::health::v1::HealthCheckRequest request;
    absl::Status status = entry;
    if (status.ok()) status = place_.Parse(request_, context_.peer(), &request);
    if (!status.ok()) return Finish(status);
    const Health::Status health = place_.health.Check(request.service());
    if (health == Health::Status::kUnknownService) {
      return Finish(absl::NotFoundError(absl::StrCat(
          "service: \"", SafeText(request.service(), TextFor::kPeople, kExcerptBytes), "\" is not known here")));
    }
    HealthCheckResponse response;
    response.set_status(ToWire(health));
    Finish(SerializeControl(response));
  }

 private:
  explicit CheckCall(ControlContext& place) : ControlCall(place, [&place] { Arm(place); }) {}
};

// A call of a method that is not here: UNIMPLEMENTED, naming it. gRPC's own answer has no words. It earns its
// connection nothing (ReadGuard), so a flood of them ends it.
class UnknownCall final : public Call, public PacedWork {
 public:
  static void Arm(ControlContext& place) {
    auto* const call = new UnknownCall(place);
    place.unknown.RequestCall(&call->context_, &call->stream_, place.queue, place.queue, static_cast<Tag*>(call));
  }

  void Proceed(bool ok) override {
    if (matched_ || !ok) return Free();
    matched_ = true;
    place_.pace.Offer([&place = place_] { Arm(place); });
    place_.WaitForTurn(context_.peer(), this);
  }

  void TakeTurn(const absl::Status& entry) override {
    absl::Status status = entry;
    if (status.ok()) {
      status = absl::UnimplementedError(
          absl::StrCat("method: ", SafeText(context_.method(), TextFor::kPeople, kExcerptBytes), " is not known here; ",
                       place_.known_services));
    }
    stream_.Finish(ToGrpcStatus(status), static_cast<Tag*>(this));
  }

 private:
  explicit UnknownCall(ControlContext& place) : Call(place.calls), place_(place), stream_(&context_) {}

  ControlContext& place_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_;
  bool matched_ = false;
};

absl::Status CheckSize(std::size_t bytes) {
  if (bytes <= kMaxControlBytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the message has ", bytes, " bytes; this method takes at most ", kMaxControlBytes));
}

}  // namespace

absl::Status ParseControl(const grpc::ByteBuffer& bytes, google::protobuf::MessageLite* message) {
  if (absl::Status status = CheckSize(bytes.Length()); !status.ok()) return status;
  std::vector<grpc::Slice> slices;
  std::string text;
  if (bytes.Dump(&slices).ok()) {
    for (const grpc::Slice& slice : slices) text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  const std::span<const std::uint8_t> whole(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  if (const std::optional<std::uint32_t> claimed = ClaimOfCut({&whole, 1})) {
    if (absl::Status status = CheckSize(*claimed); !status.ok()) return status;
  }
  if (message->ParseFromString(text)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the message is no ", message->GetTypeName()));
}

grpc::ByteBuffer SerializeControl(const google::protobuf::MessageLite& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

// Tells the status at once, then every change, until the client leaves or the server drains.
class WatchCall final : public Call, public PacedWork {
 public:
  static void Arm(ControlContext& place);
  void Proceed(bool ok) override;
  void TakeTurn(const absl::Status& entry) override;
  // The status may have changed, or the server ends its watches.
  void Update();

 private:
  // Notes that the client left; a tag of its own, since it may come while a write is under way.
  class Gone final : public Tag {
   public:
    explicit Gone(WatchCall* call) : call_(call) {}
    void Proceed(bool ok) override;

   private:
    WatchCall* const call_;
  };
  enum class State { kWaiting, kPaced, kIdle, kWriting, kFinishing, kFinished };

  explicit WatchCall(ControlContext& place);
  void Finish(const grpc::Status& status);
  ~WatchCall() override;
  void FreeIfDone();

  ControlContext& place_;
  grpc::ServerContext context_;
  grpc::ByteBuffer request_;
  std::string service_;
  grpc::ServerAsyncWriter<grpc::ByteBuffer> writer_;
  Gone gone_{this};
  State state_ = State::kWaiting;
  bool client_gone_ = false;
  int last_sent_ = -1;
  std::list<WatchCall*>::iterator watching_;
};

WatchCall::WatchCall(ControlContext& place) : Call(place.calls), place_(place), writer_(&context_) {}

WatchCall::~WatchCall() {
  if (state_ == State::kFinished) place_.watches.erase(watching_);
}

void WatchCall::Arm(ControlContext& place) {
  auto* call = new WatchCall(place);
  call->context_.AsyncNotifyWhenDone(static_cast<Tag*>(&call->gone_));
  place.service.RequestWatch(&call->context_, &call->request_, &call->writer_, place.queue, place.queue,
                             static_cast<Tag*>(call));
}

void WatchCall::Gone::Proceed(bool /*ok*/) {
  call_->client_gone_ = true;
  call_->Update();
  call_->FreeIfDone();
}

void WatchCall::Proceed(bool ok) {
  switch (state_) {
    case State::kWaiting: {
      if (!ok) return Free();  // never matched: the notice of its end does not come either
      state_ = State::kPaced;
      place_.pace.Offer([&place = place_] { Arm(place); });
      place_.WaitForTurn(context_.peer(), this);
      return;
    }
    case State::kWriting:
      state_ = State::kIdle;
      Update();
      return;
    case State::kFinishing:
      state_ = State::kFinished;
      FreeIfDone();
      return;
    case State::kPaced:
    case State::kIdle:
    case State::kFinished:
      return;
  }
}

void WatchCall::TakeTurn(const absl::Status& entry) {
  watching_ = place_.watches.insert(place_.watches.end(), this);
  state_ = State::kIdle;
  grpc::health::v1::HealthCheckRequest request;
  absl::Status status = entry;
  if (status.ok()) status = place_.Parse(request_, context_.peer(), &request);
  if (!status.ok()) return Finish(ToGrpcStatus(status));
  service_ = request.service();
  Update();
}

void WatchCall::Update() {
  if (state_ != State::kIdle) return;  // looked at again when the operation under way ends
  if (client_gone_ || place_.ending.load()) {
    return Finish(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the server is shutting down"));
  }
  HealthCheckResponse response;
  response.set_status(ToWire(place_.health.Check(service_)));
  if (response.status() == last_sent_) return;
  last_sent_ = response.status();
  state_ = State::kWriting;
  writer_.Write(SerializeControl(response), static_cast<Tag*>(this));
}

void WatchCall::Finish(const grpc::Status& status) {
  state_ = State::kFinishing;
  writer_.Finish(status, static_cast<Tag*>(this));
}

void WatchCall::FreeIfDone() {
  if (state_ == State::kFinished && client_gone_) Free();
}

void ControlContext::Register(grpc::ServerBuilder* builder) {
  builder->RegisterService(&service);
  builder->RegisterAsyncGenericService(&unknown);
}

void ControlContext::Arm(int count) {
  for (int i = 0; i < count; ++i) {
    CheckCall::Arm(*this);
    WatchCall::Arm(*this);
    UnknownCall::Arm(*this);
  }
}

void ControlContext::UpdateWatches() {
  for (WatchCall* watch : watches) watch->Update();
}

void ControlCall::Proceed(bool ok) {
  if (matched_) {
    place_.CallFinished(context_.peer());
    return Free();
  }
  if (!ok) return Free();
  matched_ = true;
  place_.pace.Offer(std::move(arm_));
  place_.WaitForTurn(context_.peer(), this);
}

void ControlCall::Finish(const absl::StatusOr<grpc::ByteBuffer>& answer) {
  if (answer.ok()) {
    responder_.Finish(*answer, grpc::Status::OK, static_cast<Tag*>(this));
  } else {
    responder_.FinishWithError(ToGrpcStatus(answer.status()), static_cast<Tag*>(this));
  }
}

}  // namespace softmax::server

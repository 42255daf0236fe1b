#include "server/rpc/calls/health_calls.h"

#include <absl/strings/str_cat.h>

#include "common/base/safe_text.h"
#include "server/rpc/calls/control_message.h"
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

}  // namespace

void CheckCall::Arm(ControlContext& place) {
  auto* call = new CheckCall(place);
  place.service.RequestCheck(&call->context_, &call->request_, &call->responder_, place.queue, place.queue,
                             static_cast<Tag*>(call));
}

void CheckCall::TakeTurn(const absl::Status& entry) {
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
  if (!status.ok()) {
    Finish(ToGrpcStatus(status));
    return;
  }
  service_ = request.service();
  Update();
}

void WatchCall::Update() {
  if (state_ != State::kIdle) return;  // looked at again when the operation under way ends
  if (client_gone_ || place_.ending.load()) {
    Finish(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the server is shutting down"));
    return;
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

}  // namespace softmax::server

#include "server/rpc/calls/health_calls.h"

#include <absl/strings/str_cat.h>

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

void CheckCall::Arm(HealthContext& health) {
  auto* call = new CheckCall(health);
  health.service.RequestCheck(&call->context_, &call->request_, &call->responder_, health.queue, health.queue,
                              static_cast<Tag*>(call));
}

void CheckCall::Proceed(bool ok) {
  if (answering_ || !ok) {
    delete this;
    return;
  }
  Arm(health_);
  answering_ = true;
  const Health::Status status = health_.health.Check(request_.service());
  if (status == Health::Status::kUnknownService) {
    responder_.FinishWithError(grpc::Status(grpc::StatusCode::NOT_FOUND,
                                            absl::StrCat("service: \"", request_.service(), "\" is not known here")),
                               static_cast<Tag*>(this));
    return;
  }
  HealthCheckResponse response;
  response.set_status(ToWire(status));
  responder_.Finish(response, grpc::Status::OK, static_cast<Tag*>(this));
}

WatchCall::WatchCall(HealthContext& health) : health_(health), counted_(health.calls), writer_(&context_) {}

WatchCall::~WatchCall() {
  if (state_ != State::kWaiting) health_.watches.erase(place_);
}

void WatchCall::Arm(HealthContext& health) {
  auto* call = new WatchCall(health);
  call->context_.AsyncNotifyWhenDone(static_cast<Tag*>(&call->gone_));
  health.service.RequestWatch(&call->context_, &call->request_, &call->writer_, health.queue, health.queue,
                              static_cast<Tag*>(call));
}

void WatchCall::Gone::Proceed(bool /*ok*/) {
  call_->client_gone_ = true;
  call_->Update();
  call_->DeleteIfDone();
}

void WatchCall::Proceed(bool ok) {
  switch (state_) {
    case State::kWaiting:
      if (!ok) {
        delete this;  // never matched: the notice of its end does not come either
        return;
      }
      Arm(health_);
      place_ = health_.watches.insert(health_.watches.end(), this);
      state_ = State::kIdle;
      Update();
      return;
    case State::kWriting:
      state_ = State::kIdle;
      Update();
      return;
    case State::kFinishing:
      state_ = State::kFinished;
      DeleteIfDone();
      return;
    case State::kIdle:
    case State::kFinished:
      return;
  }
}

void WatchCall::Update() {
  if (state_ != State::kIdle) return;  // looked at again when the operation under way ends
  if (client_gone_ || health_.ending.load()) {
    state_ = State::kFinishing;
    writer_.Finish(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the server is shutting down"), static_cast<Tag*>(this));
    return;
  }
  HealthCheckResponse response;
  response.set_status(ToWire(health_.health.Check(request_.service())));
  if (response.status() == last_sent_) return;
  last_sent_ = response.status();
  state_ = State::kWriting;
  writer_.Write(response, static_cast<Tag*>(this));
}

void WatchCall::DeleteIfDone() {
  if (state_ == State::kFinished && client_gone_) delete this;
}

}  // namespace softmax::server

#include "server/rpc/calls/control_context.h"

#include "server/rpc/calls/health_calls.h"
#include "server/rpc/calls/unknown_call.h"

namespace softmax::server {

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

}  // namespace softmax::server

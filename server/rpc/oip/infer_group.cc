#include "server/rpc/oip/infer_group.h"

#include "server/rpc/oip/infer_call.h"
#include "server/rpc/oip/infer_control.h"
#include "server/rpc/oip/infer_control_call.h"
#include "server/rpc/oip/infer_stream_call.h"

namespace softmax::server {

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

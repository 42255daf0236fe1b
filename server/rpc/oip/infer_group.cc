#include "server/rpc/oip/infer_group.h"

#include "server/rpc/oip/infer_call.h"
#include "server/rpc/oip/infer_control_call.h"
#include "server/rpc/oip/infer_stream_call.h"

namespace softmax::server {

void InferGroup::Register(grpc::ServerBuilder* builder) { builder->RegisterService(&methods_); }

void InferGroup::Arm() {
  for (int i = 0; i < kArmedUnaryCalls; ++i) InferCall::Arm(*this);
  for (int i = 0; i < kArmedStreamCalls; ++i) InferStreamCall::Arm(*this);
  for (int i = 0; i < kArmedControlCalls; ++i) {
    for (std::size_t method = 0; method < InferMethods::kControlMethods; ++method) InferControlCall::Arm(*this, method);
  }
}

}  // namespace softmax::server

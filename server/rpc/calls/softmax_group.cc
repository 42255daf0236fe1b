#include "server/rpc/calls/softmax_group.h"

#include "server/rpc/calls/info_call.h"
#include "server/rpc/calls/reflection_call.h"
#include "server/rpc/calls/softmax_call.h"
#include "server/rpc/calls/stream_call.h"

namespace softmax::server {
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
    if (reflects_) ReflectionCall::Arm(context_);
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

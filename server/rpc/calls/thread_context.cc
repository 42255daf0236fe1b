#include "server/rpc/calls/thread_context.h"

namespace softmax::server {
namespace {

constexpr char kKnownServices[] =
    "softmax.v1.SoftmaxService, inference.GRPCInferenceService, grpc.health.v1.Health and "
    "grpc.reflection.v1alpha.ServerReflection are";

}  // namespace

ThreadContext::ThreadContext(QueueThread& queue_thread_in, ServiceState& state_in, Recorder& recorder_in)
    : queue_thread(queue_thread_in),
      state(state_in),
      recorder(recorder_in),
      slices(queue_thread.slices()),
      calls(queue_thread.calls()),
      door(state, recorder, queue_thread.index()),
      sender(state.arena, state.backlog, state.connections, recorder),
      control{state.health,         kKnownServices,     queue(), state.ending_watches, calls, state.connections,
              queue_thread.index(), queue_thread.pace()} {}

}  // namespace softmax::server

#pragma once

#include <list>

#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "server/metrics/metrics.h"
#include "server/rpc/calls/control_context.h"
#include "server/rpc/calls/front_door.h"
#include "server/rpc/calls/service_state.h"
#include "server/rpc/calls/tensor_service.h"
#include "server/rpc/guard/tensor_methods.h"
#include "server/rpc/queue/answer_sender.h"
#include "server/rpc/queue/queue_thread.h"

namespace softmax::server {

class StreamCall;
class UnaryCall;

// Messages as bytes (calls/control_context.h).
using ReflectionService = grpc::reflection::v1alpha::ServerReflection::WithRawMethod_ServerReflectionInfo<
    grpc::reflection::v1alpha::ServerReflection::Service>;

// What the calls of one queue thread share, of every contract. On the thread.
struct ThreadContext {
  // All of them outlive this.
  ThreadContext(QueueThread& queue_thread_in, ServiceState& state_in, Recorder& recorder_in)
      : queue_thread(queue_thread_in), state(state_in), recorder(recorder_in) {}

  AdmissionQueue& admission() { return queue_thread.admission(); }
  grpc::ServerCompletionQueue* queue() { return queue_thread.server().queue(); }

  QueueThread& queue_thread;
  ServiceState& state;
  Recorder& recorder;
  SlicedWork& slices = queue_thread.slices();
  CallCount& calls = queue_thread.calls();
  FrontDoor door{state, recorder, queue_thread.index()};
  AnswerSender sender{state.arena, state.backlog, state.connections, recorder};
  ControlContext control{.health = state.health,
                         .known_services =
                             "softmax.v1.SoftmaxService, inference.GRPCInferenceService, "
                             "grpc.health.v1.Health and grpc.reflection.v1alpha.ServerReflection are",
                         .queue = queue(),
                         .ending = state.ending_watches,
                         .calls = calls,
                         .connections = state.connections,
                         .server = queue_thread.index(),
                         .pace = queue_thread.pace()};
  TensorService softmax{kSoftmaxMethod, kSoftmaxStreamMethod};
  ReflectionService reflection;
  std::list<UnaryCall*> answering;  // calls whose answer gRPC has not taken yet, oldest first
  std::list<StreamCall*> streams;
};

}  // namespace softmax::server

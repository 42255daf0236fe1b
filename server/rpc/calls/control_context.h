#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <google/protobuf/message_lite.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/async_unary_call.h>
#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <string>

#include "grpc/health/v1/health.grpc.pb.h"
#include "server/rpc/accept/connections.h"
#include "server/rpc/health/health.h"
#include "server/rpc/queue/call.h"
#include "server/rpc/queue/control_pace.h"

namespace softmax::server {

// Messages of calls that bring no tensor: health checks, GetServerInfo, reflection. gRPC has one limit for a server's
// messages, which tensors need, so these are received as bytes and looked at before they are parsed.
constexpr std::size_t kMaxControlBytes = 4096;

// RESOURCE_EXHAUSTED: longer than kMaxControlBytes. INVALID_ARGUMENT: no message of this type.
absl::Status ParseControl(const grpc::ByteBuffer& bytes, google::protobuf::MessageLite* message);
grpc::ByteBuffer SerializeControl(const google::protobuf::MessageLite& message);

// Of a client's own text, in an answer.
constexpr std::size_t kExcerptBytes = 100;

class WatchCall;

// Messages as bytes (calls/control_context.h).
using HealthService = grpc::health::v1::Health::WithRawMethod_Check<
    grpc::health::v1::Health::WithRawMethod_Watch<grpc::health::v1::Health::Service>>;

// Where calls that bring no tensor are answered: a queue thread, or the health server. Those of health and of unknown
// methods are the same at both, and are armed here. Everything on one thread but `health` and `ending`.
//
// Like GetServerInfo and reflection they have no thread of their own, on purpose: all completion queues of a process
// share one epoll set, and a thread that sleeps in a queue of its own would become the one that polls and reads for all
// the others while these only look in (docs/measurements/service.md has what that costs). Queue threads never block, so
// these are answered whatever the load.
struct ControlContext {
  Health& health;
  const char* known_services;  // what an answer to unknown methods says that there is
  grpc::ServerCompletionQueue* queue;
  const std::atomic<bool>& ending;  // watches end
  CallCount& calls;
  Connections& connections;
  std::size_t server;  // as connections are handed out to it
  ControlPace& pace;
  HealthService service{};
  grpc::AsyncGenericService unknown{};  // calls of methods that are not here
  std::list<WatchCall*> watches{};

  // As CallGroup has it; `count`: of each kind.
  void Register(grpc::ServerBuilder* builder);
  void Arm(int count);
  // The status may have changed, or watches end.
  void UpdateWatches();

  // As ControlPace::Wait, for a call of this peer.
  void WaitForTurn(const std::string& peer, PacedWork* work) { pace.Wait(connections.Find(peer, server), work); }
  // As ParseControl; whoever sends too much again and again is ended.
  absl::Status Parse(const grpc::ByteBuffer& bytes, const std::string& peer, google::protobuf::MessageLite* message) {
    absl::Status status = ParseControl(bytes, message);
    if (absl::IsResourceExhausted(status)) {
      if (const auto connection = connections.Find(peer, server)) connection->SentTooMuch();
    }
    return status;
  }
  // Tells the connection of a call that it has finished.
  void CallFinished(const std::string& peer) {
    if (const auto connection = connections.Find(peer, server)) connection->account().CallFinished();
  }
};

// One unary call that brings no tensor: it waits for its turn, and is answered then.
class ControlCall : public Call, public PacedWork {
 public:
  void Proceed(bool ok) final;

 protected:
  // `arm` offers one more call of the same kind; this one may be gone by then.
  ControlCall(ControlContext& place, std::function<void()> arm)
      : Call(place.calls), place_(place), responder_(&context_), arm_(std::move(arm)) {}

  // The answer, or the error; once, in TakeTurn.
  void Finish(const absl::StatusOr<grpc::ByteBuffer>& answer);

  ControlContext& place_;
  grpc::ServerContext context_;
  grpc::ByteBuffer request_;
  grpc::ServerAsyncResponseWriter<grpc::ByteBuffer> responder_;

 private:
  std::function<void()> arm_;
  bool matched_ = false;
};

}  // namespace softmax::server

#pragma once

#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server_builder.h>

#include <atomic>
#include <list>
#include <memory>
#include <string>

#include "grpc/health/v1/health.grpc.pb.h"
#include "server/rpc/accept/connections.h"
#include "server/rpc/calls/control_message.h"
#include "server/rpc/health/health.h"
#include "server/rpc/queue/call.h"
#include "server/rpc/queue/control_pace.h"

namespace softmax::server {

class WatchCall;

// Messages as bytes (calls/control_message.h).
using HealthService = grpc::health::v1::Health::WithRawMethod_Check<
    grpc::health::v1::Health::WithRawMethod_Watch<grpc::health::v1::Health::Service>>;

// Where calls that bring no tensor are answered: a queue thread, or the health server. Those of health and of unknown
// methods are the same at both, and are armed here. Everything on one thread but `health` and `ending`.
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

}  // namespace softmax::server

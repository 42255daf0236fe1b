#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>

#include <list>

#include "server/rpc/calls/control_call.h"

// The calls of health: small ones, armed on every queue thread and on the health server. Like GetServerInfo and
// reflection they have no thread of their own, on purpose: all completion queues of a process share one epoll set, and
// a thread that sleeps in a queue of its own would become the one that polls and reads for all the others while these
// only look in (docs/measurements/service.md has what that costs). Queue threads never block, so these are answered
// whatever the load.
namespace softmax::server {

class CheckCall final : public ControlCall {
 public:
  static void Arm(ControlContext& place);
  void TakeTurn(const absl::Status& entry) override;

 private:
  explicit CheckCall(ControlContext& place) : ControlCall(place, [&place] { Arm(place); }) {}
};

// Tells the status at once, then every change, until the client leaves or the server drains.
class WatchCall final : public Call, public PacedWork {
 public:
  static void Arm(ControlContext& place);
  void Proceed(bool ok) override;
  void TakeTurn(const absl::Status& entry) override;
  // The status may have changed, or the server ends its watches.
  void Update();

 private:
  // Notes that the client left; a tag of its own, since it may come while a write is under way.
  class Gone final : public Tag {
   public:
    explicit Gone(WatchCall* call) : call_(call) {}
    void Proceed(bool ok) override;

   private:
    WatchCall* const call_;
  };
  enum class State { kWaiting, kPaced, kIdle, kWriting, kFinishing, kFinished };

  explicit WatchCall(ControlContext& place);
  void Finish(const grpc::Status& status);
  ~WatchCall() override;
  void FreeIfDone();

  ControlContext& place_;
  grpc::ServerContext context_;
  grpc::ByteBuffer request_;
  std::string service_;
  grpc::ServerAsyncWriter<grpc::ByteBuffer> writer_;
  Gone gone_{this};
  State state_ = State::kWaiting;
  bool client_gone_ = false;
  int last_sent_ = -1;
  std::list<WatchCall*>::iterator watching_;
};

}  // namespace softmax::server

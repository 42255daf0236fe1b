#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/async_unary_call.h>

#include <list>

#include "server/rpc/control_thread.h"
#include "server/rpc/tag.h"

// The calls of the control thread. Each lives on that thread, from waiting to be matched to its last operation's end.
namespace softmax::server {

class InfoCall final : public Tag {
 public:
  static void Arm(ControlThread& thread);
  void Proceed(bool ok) override;

 private:
  explicit InfoCall(ControlThread& thread) : thread_(thread), responder_(&context_) {}

  ControlThread& thread_;
  grpc::ServerContext context_;
  v1::GetServerInfoRequest request_;
  grpc::ServerAsyncResponseWriter<v1::GetServerInfoResponse> responder_;
  bool answering_ = false;
};

class CheckCall final : public Tag {
 public:
  static void Arm(ControlThread& thread);
  void Proceed(bool ok) override;

 private:
  explicit CheckCall(ControlThread& thread) : thread_(thread), responder_(&context_) {}

  ControlThread& thread_;
  grpc::ServerContext context_;
  grpc::health::v1::HealthCheckRequest request_;
  grpc::ServerAsyncResponseWriter<grpc::health::v1::HealthCheckResponse> responder_;
  bool answering_ = false;
};

// Tells the status at once, then every change, until the client leaves or the server ends its watches.
class WatchCall final : public Tag {
 public:
  static void Arm(ControlThread& thread);
  void Proceed(bool ok) override;
  // The status may have changed, or the watches end.
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
  enum class State { kWaiting, kIdle, kWriting, kFinishing, kFinished };

  explicit WatchCall(ControlThread& thread);
  ~WatchCall() override;
  void DeleteIfDone();

  ControlThread& thread_;
  grpc::ServerContext context_;
  grpc::health::v1::HealthCheckRequest request_;
  grpc::ServerAsyncWriter<grpc::health::v1::HealthCheckResponse> writer_;
  Gone gone_{this};
  State state_ = State::kWaiting;
  bool client_gone_ = false;
  int last_sent_ = -1;
  std::list<WatchCall*>::iterator place_;
};

}  // namespace softmax::server

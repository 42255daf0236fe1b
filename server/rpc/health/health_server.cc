#include "server/rpc/health/health_server.h"

#include <grpcpp/resource_quota.h>
#include <grpcpp/server_builder.h>

#include <chrono>

#include "server/rpc/calls/health_calls.h"
#include "server/rpc/queue/tag.h"

namespace softmax::server {
namespace {

constexpr int kArmedCalls = 16;
// A question has some 30 bytes.
constexpr int kMaxMessageBytes = 4096;
constexpr int kMaxStreams = 16;
constexpr std::size_t kMemoryQuota = 16u << 20;
// A prober that has gone away silently does not keep its place.
constexpr int kKeepaliveMs = 20000;
constexpr int kIdleMs = 60000;

}  // namespace

HealthServer::~HealthServer() { Shutdown(); }

absl::Status HealthServer::Start() {
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreams);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleMs);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, 0);
  grpc::ResourceQuota quota("health");
  quota.Resize(kMemoryQuota);
  builder.SetResourceQuota(quota);
  builder.RegisterService(&service_);
  queue_ = builder.AddCompletionQueue();
  grpc_ = builder.BuildAndStart();
  if (grpc_ == nullptr) return absl::InternalError("gRPC could not start the health server");
  context_ = std::make_unique<HealthContext>(HealthContext{health_, service_, queue_.get(), ending_, calls_});
  for (int i = 0; i < kArmedCalls; ++i) {
    CheckCall::Arm(*context_);
    WatchCall::Arm(*context_);
  }
  return absl::OkStatus();
}

void HealthServer::Poll() {
  if (attention_.exchange(false)) {
    for (WatchCall* watch : context_->watches) watch->Update();
  }
  void* tag = nullptr;
  bool ok = false;
  while (queue_->AsyncNext(&tag, &ok, gpr_inf_past(GPR_CLOCK_MONOTONIC)) == grpc::CompletionQueue::GOT_EVENT) {
    static_cast<Tag*>(tag)->Proceed(ok);
  }
}

void HealthServer::Shutdown() {
  if (grpc_ == nullptr || ending_.exchange(true)) return;
  for (WatchCall* watch : context_->watches) watch->Update();
  grpc_->Shutdown(std::chrono::system_clock::now());
  void* tag = nullptr;
  bool ok = false;
  while (calls_.calls() > 0 && queue_->Next(&tag, &ok)) static_cast<Tag*>(tag)->Proceed(ok);
  queue_->Shutdown();
  while (queue_->Next(&tag, &ok)) {
  }
}

}  // namespace softmax::server

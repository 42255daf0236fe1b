#include "server/rpc/calls/health_server.h"

#include <grpcpp/resource_quota.h>
#include <grpcpp/server_builder.h>

#include <chrono>

#include "server/rpc/queue/call.h"

namespace softmax::server {
namespace {

constexpr int kArmedCalls = 16;
// A question has some 30 bytes; longer ones get our answer rather than gRPC's.
constexpr int kMaxMessageBytes = 65536;
constexpr std::size_t kMemoryQuota = 16u << 20;
// A prober that has gone away silently does not keep its place.
constexpr int kKeepaliveMs = 20000;
constexpr int kIdleMs = 60000;
// How often the thread looks in while a connection is open, and how many events it takes then.
constexpr auto kPollInterval = std::chrono::milliseconds(5);
constexpr int kEventsAPoll = 64;

}  // namespace

HealthServer::~HealthServer() { Shutdown(); }

absl::Status HealthServer::Start() {
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, static_cast<int>(kMaxStreams));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleMs);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, 0);
  grpc::ResourceQuota quota("health");
  quota.Resize(kMemoryQuota);
  builder.SetResourceQuota(quota);
  queue_ = builder.AddCompletionQueue();
  context_.reset(new ControlContext{health_, "grpc.health.v1.Health is", queue_.get(), ending_, calls_, connections_,
                                    /*server=*/0, pace_});
  context_->Register(&builder);
  grpc_ = builder.BuildAndStart();
  if (grpc_ == nullptr) return absl::InternalError("gRPC could not start the health server");
  context_->Arm(kArmedCalls);
  thread_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

void HealthServer::RunSoon(std::function<void()> job) {
  {
    MutexLock lock(mu_);
    jobs_.push_back(std::move(job));
  }
  changed_.notify_all();
}

void HealthServer::Run() {
  while (!ending_.load()) {
    std::vector<std::function<void()>> jobs;
    {
      MutexLock lock(mu_);
      if (connections_.size() == 0) {
        while (jobs_.empty() && !ending_.load()) changed_.wait(mu_);
      } else if (jobs_.empty()) {
        changed_.wait_until(mu_, SteadyClock::now() + kPollInterval);
      }
      jobs.swap(jobs_);
    }
    for (const std::function<void()>& job : jobs) job();
    Poll();
  }
}

void HealthServer::Poll() {
  if (attention_.exchange(false)) context_->UpdateWatches();
  void* tag = nullptr;
  bool ok = false;
  for (int events = 0; events < kEventsAPoll; ++events) {
    if (queue_->AsyncNext(&tag, &ok, gpr_inf_past(GPR_CLOCK_MONOTONIC)) != grpc::CompletionQueue::GOT_EVENT) break;
    static_cast<Tag*>(tag)->Proceed(ok);
  }
  pace_.Advance(SteadyClock::now());
}

void HealthServer::Shutdown() {
  if (grpc_ == nullptr || ending_.load()) return;
  {
    MutexLock lock(mu_);
    ending_.store(true);
  }
  changed_.notify_all();
  thread_.join();
  pace_.Close();
  context_->UpdateWatches();
  grpc_->Shutdown(std::chrono::system_clock::now());
  void* tag = nullptr;
  bool ok = false;
  while (calls_.calls() > 0 && queue_->Next(&tag, &ok)) static_cast<Tag*>(tag)->Proceed(ok);
  queue_->Shutdown();
  while (queue_->Next(&tag, &ok)) {
  }
}

}  // namespace softmax::server

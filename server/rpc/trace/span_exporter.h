#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "server/rpc/trace/otlp.h"
#include "server/rpc/trace/span_queue.h"

namespace softmax::server {

// Sends traced requests to a collector, by OTLP over gRPC, from a thread of its own: no call ever waits for it. Looks
// into the queues ten times a second, so that its work is bounded whatever the load is. What the collector does not
// take within the timeout, tried again with growing pauses where it is away or busy, is counted and dropped.
class SpanExporter {
 public:
  struct Options {
    std::string target;  // host:port
    bool tls = false;
    std::string root_certificates;  // PEM; empty: the machine's own list
    std::vector<std::pair<std::string, std::string>> headers;
    std::chrono::milliseconds timeout{10000};  // of a batch of spans, all its attempts together
    double ratio = 0;                          // of requests without a traceparent, as SpanQueue has it
    OtlpEncoder::Attributes resource;
    std::string version;
  };
  // What became of traced requests.
  enum class Outcome : std::uint8_t { kSent, kQueueFull, kFailed };

  explicit SpanExporter(const Options& options);
  // Sends what is there, for at most a second; nothing is recorded any more.
  ~SpanExporter();

  // Of one queue thread. Before there are calls; stays here.
  SpanQueue* AddQueue() ABSL_LOCKS_EXCLUDED(mu_);
  // Any thread.
  std::uint64_t requests(Outcome outcome) const ABSL_LOCKS_EXCLUDED(mu_);
  // Spans of requests that were sent, which the collector says that it did not want.
  std::uint64_t rejected_spans() const { return rejected_spans_.load(); }

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mu_);
  void Export(const std::vector<TracedRequest>& requests);
  grpc::Status Attempt(const OtlpRequest& request, TimePoint until, std::int64_t* rejected) ABSL_LOCKS_EXCLUDED(mu_);
  bool ending() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return end_by_ != kNoDeadline; }
  // Whether another attempt may be made after a pause.
  bool Pause(std::chrono::milliseconds pause, TimePoint until) ABSL_LOCKS_EXCLUDED(mu_);

  const Options options_;
  OtlpEncoder encoder_;
  const std::shared_ptr<grpc::Channel> channel_;
  std::atomic<std::uint64_t> sent_{0}, failed_{0}, rejected_spans_{0};

  mutable Mutex mu_;
  ConditionVariable changed_;
  TimePoint end_by_ ABSL_GUARDED_BY(mu_) = kNoDeadline;
  bool done_ ABSL_GUARDED_BY(mu_) = false;
  grpc::ClientContext* attempt_ ABSL_GUARDED_BY(mu_) = nullptr;  // the one under way
  std::vector<std::unique_ptr<SpanQueue>> queues_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;  // last
};

}  // namespace softmax::server

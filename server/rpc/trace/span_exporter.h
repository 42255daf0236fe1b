#pragma once

#include <grpcpp/client_context.h>

#include <chrono>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "opentelemetry/proto/collector/trace/v1/trace_service.grpc.pb.h"
#include "server/rpc/trace/span_queue.h"

namespace softmax::server {

// Sends traced requests to a collector, by OTLP over gRPC, from a thread of its own: no call ever waits for it. Looks
// into the queues ten times a second, so that its work is bounded whatever the load is. What the collector does not
// take within the timeout, tried again with growing pauses where it is away or busy, is counted and dropped.
class SpanExporter {
 public:
  using Texts = std::map<std::string, std::string>;
  struct Options {
    std::string target;  // host:port
    bool tls = false;
    std::string root_certificates;  // PEM; empty: the machine's own list
    Texts headers;
    std::chrono::milliseconds timeout{10000};  // of a batch of spans, all its attempts together
    double ratio = 0;                          // of requests without a traceparent, as SpanQueue has it
    Texts resource;                            // attributes
    std::string version;
  };

  explicit SpanExporter(const Options& options);
  // Sends what is there, for at most a second; nothing is recorded any more.
  ~SpanExporter();

  // Of one queue thread. Before there are calls; stays here.
  SpanQueue* AddQueue() ABSL_LOCKS_EXCLUDED(mu_);
  // What became of traced requests ("sent", "queue_full" or "failed"), and how many. Any thread.
  std::vector<std::pair<std::string, double>> Outcomes() const ABSL_LOCKS_EXCLUDED(mu_);
  // Spans of requests that were sent, which the collector says that it did not want. Any thread.
  double rejected_spans() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mu_);
  void Export(std::span<const TracedRequest> requests) ABSL_LOCKS_EXCLUDED(mu_);
  bool ending() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return end_by_ != kNoDeadline; }

  const Options options_;
  const std::unique_ptr<opentelemetry::proto::collector::trace::v1::TraceService::StubInterface> collector_;

  mutable Mutex mu_;
  ConditionVariable changed_;
  std::uint64_t sent_ ABSL_GUARDED_BY(mu_) = 0, failed_ ABSL_GUARDED_BY(mu_) = 0, rejected_ ABSL_GUARDED_BY(mu_) = 0;
  TimePoint end_by_ ABSL_GUARDED_BY(mu_) = kNoDeadline;
  bool done_ ABSL_GUARDED_BY(mu_) = false;
  grpc::ClientContext* call_ ABSL_GUARDED_BY(mu_) = nullptr;  // the one under way
  std::vector<std::unique_ptr<SpanQueue>> queues_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;  // last
};

}  // namespace softmax::server

#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "opentelemetry/proto/collector/trace/v1/trace_service.pb.h"
#include "server/rpc/trace/span_queue.h"

namespace softmax::server {

using OtlpRequest = opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest;

// Makes OpenTelemetry's spans of traced requests, by its conventions for RPC: of each the request's own, below it one
// each for the stages queue, batch, execution and answer, and of each batch that a traced request ran in a span that
// begins a trace of its own, to which the request's spans are linked. One thread's.
class OtlpEncoder {
 public:
  using Attributes = std::vector<std::pair<std::string, std::string>>;

  OtlpEncoder(Attributes resource, std::string version)
      : resource_(std::move(resource)), version_(std::move(version)), batches_(kBatches) {}

  // Into `encoded`, which is empty and may be on an arena.
  void Encode(const std::vector<TracedRequest>& requests, OtlpRequest* encoded);

 private:
  // Requests of a batch come close together; a batch that was forgotten in between is told of twice, in equal words.
  static constexpr std::size_t kBatches = 256;
  bool IsNewBatch(const SpanId& span);

  const Attributes resource_;
  const std::string version_;
  std::vector<SpanId> batches_;  // the last ones
  std::size_t next_batch_ = 0;
};

}  // namespace softmax::server

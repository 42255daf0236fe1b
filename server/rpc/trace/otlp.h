#pragma once

#include <map>
#include <span>
#include <string>

#include "opentelemetry/proto/collector/trace/v1/trace_service.pb.h"
#include "server/rpc/trace/span_queue.h"

namespace softmax::server {

using OtlpRequest = opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest;
using Texts = std::map<std::string, std::string>;

// Makes OpenTelemetry's spans of traced requests, by its conventions for RPC: of each the request's own, below it one
// each for the stages queue, batch, execution and answer, and of each batch that a traced request ran in a span that
// begins a trace of its own, to which the request's spans are linked. `encoded` is empty and may be on an arena.
void EncodeSpans(std::span<const TracedRequest> requests, const Texts& resource, const std::string& version,
                 OtlpRequest* encoded);

}  // namespace softmax::server

#include "server/rpc/trace/otlp.h"

#include <grpcpp/support/status.h>

#include <algorithm>
#include <optional>
#include <type_traits>

#include "common/base/address.h"

namespace softmax::server {
namespace {

using opentelemetry::proto::trace::v1::ScopeSpans;
using opentelemetry::proto::trace::v1::Span;
using opentelemetry::proto::trace::v1::Status;

// The version of the conventions that names and attributes are of.
constexpr char kSchema[] = "https://opentelemetry.io/schemas/1.37.0";
constexpr std::uint32_t kSampled = 1;
constexpr std::uint32_t kRemoteIsKnown = 1u << 8;
constexpr std::uint32_t kRemoteParent = 1u << 9;
// As the conventions have it for servers: what went wrong here, and not what the caller did wrong.
constexpr int kErrors[] = {grpc::UNKNOWN,  grpc::DEADLINE_EXCEEDED, grpc::UNIMPLEMENTED,
                           grpc::INTERNAL, grpc::UNAVAILABLE,       grpc::DATA_LOSS};

template <typename Has, typename Value>
void Add(Has* has, const char* key, Value value) {
  auto* const attribute = has->add_attributes();
  attribute->set_key(key);
  if constexpr (std::is_integral_v<Value>) {
    attribute->mutable_value()->set_int_value(static_cast<std::int64_t>(value));
  } else {
    attribute->mutable_value()->set_string_value(std::move(value));
  }
}

void AddAttributes(const TracedRequest& request, const std::string& service, const std::string& method, Span* span) {
  Add(span, "rpc.system", "grpc");
  Add(span, "rpc.service", service);
  Add(span, "rpc.method", method);
  Add(span, "rpc.grpc.status_code", request.sample.code);
  if (!request.peer.empty()) {
    const auto address = SplitHostPort(request.peer);
    const auto port = address ? ParsePort(address->port) : std::nullopt;
    Add(span, "network.peer.address", address ? std::string(address->host) : request.peer);
    if (port) Add(span, "network.peer.port", *port);
  }
  if (request.request_id != 0) Add(span, "softmax.request.id", request.request_id);
}

// The spans of one request.
void AddSpans(const TracedRequest& request, ScopeSpans* spans) {
  const auto unix_time = [&](TimePoint time) {
    return static_cast<std::uint64_t>(request.end_unix_ns - (request.end - time).count());
  };
  const auto add = [&](const SpanPlace& place, std::string name, TimePoint begin, TimePoint end) {
    Span* const span = spans->add_spans();
    span->set_trace_id(place.trace_id.data(), place.trace_id.size());
    span->set_span_id(place.span_id.data(), place.span_id.size());
    span->set_name(std::move(name));
    span->set_kind(Span::SPAN_KIND_INTERNAL);
    span->set_start_time_unix_nano(unix_time(begin));
    span->set_end_time_unix_nano(unix_time(end));
    span->set_flags(kSampled | kRemoteIsKnown);
    return span;
  };
  const auto set_parent = [&](const SpanId& parent, Span* span) {
    if (parent != SpanId{}) span->set_parent_span_id(parent.data(), parent.size());
    span->set_trace_state(request.trace_state);
  };
  const RequestSample& sample = request.sample;
  const std::string method = NameOf(sample.method);
  const std::string service =
      sample.method >= Method::kModelInfer ? "inference.GRPCInferenceService" : "softmax.v1.SoftmaxService";
  Span* const whole = add(request.place, service + "/" + method, sample.arrived, request.end);
  whole->set_kind(Span::SPAN_KIND_SERVER);
  set_parent(request.parent_span_id, whole);
  if (request.parent_span_id != SpanId{}) whole->set_flags(kSampled | kRemoteIsKnown | kRemoteParent);
  AddAttributes(request, service, method, whole);
  if (std::count(std::begin(kErrors), std::end(kErrors), sample.code) > 0) {
    whole->mutable_status()->set_code(Status::STATUS_CODE_ERROR);
  }
  if (!sample.ran) return;
  SpanPlace stage = request.place;
  TimePoint at = sample.arrived;
  const auto add_stage = [&](const char* name, TimePoint end) {
    // The request's id but for its last byte: an id of its own in this trace, at no cost for the queue thread.
    stage.span_id.back() = static_cast<char>(request.place.span_id.back() ^ *name);
    // Of an answer that several requests of batching make, the longest times: they may not reach beyond it.
    end = std::min(end, request.end);
    Span* const span = add(stage, name, std::exchange(at, end), end);
    set_parent(request.place.span_id, span);
    return span;
  };
  add_stage("queue", at + sample.queue);
  add_stage("batch", at + sample.batch);
  const TimePoint launched = at;
  Span* const execution = add_stage("execution", at + request.execution);
  const TimePoint ran = at;
  add_stage("answer", request.end);
  if (request.batch_rows == 0) return;  // of no elements: it was in no batch
  for (Span* span : {whole, execution}) {
    Span::Link* const link = span->add_links();
    link->set_trace_id(request.batch.trace_id.data(), request.batch.trace_id.size());
    link->set_span_id(request.batch.span_id.data(), request.batch.span_id.size());
    link->set_flags(kSampled | kRemoteIsKnown);
  }
  if (request.begins_batch) {
    Add(add(request.batch, "softmax batch", launched, ran), "softmax.batch.rows", request.batch_rows);
  }
}

}  // namespace

void EncodeSpans(std::span<const TracedRequest> requests, const Texts& resource, const std::string& version,
                 OtlpRequest* encoded) {
  auto* const of_resource = encoded->add_resource_spans();
  of_resource->set_schema_url(kSchema);
  for (const auto& [key, value] : resource) Add(of_resource->mutable_resource(), key.c_str(), value);
  ScopeSpans* const spans = of_resource->add_scope_spans();
  spans->set_schema_url(kSchema);
  spans->mutable_scope()->set_name("softmax-server");
  spans->mutable_scope()->set_version(version);
  for (const TracedRequest& request : requests) AddSpans(request, spans);
}

}  // namespace softmax::server

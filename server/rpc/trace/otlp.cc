#include "server/rpc/trace/otlp.h"

#include <grpcpp/support/status.h>

#include <algorithm>
#include <optional>

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

template <typename Id>
std::string BytesOf(const Id& id) {
  return {id.data(), id.size()};
}

template <typename Has>
void AddText(Has* has, const char* key, std::string value) {
  auto* const attribute = has->add_attributes();
  attribute->set_key(key);
  attribute->mutable_value()->set_string_value(std::move(value));
}

void AddNumber(Span* span, const char* key, std::int64_t value) {
  auto* const attribute = span->add_attributes();
  attribute->set_key(key);
  attribute->mutable_value()->set_int_value(value);
}

// As the conventions have it for servers: what went wrong here, and not what the caller did wrong.
bool IsError(int code) {
  switch (static_cast<grpc::StatusCode>(code)) {
    case grpc::StatusCode::UNKNOWN:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::UNIMPLEMENTED:
    case grpc::StatusCode::INTERNAL:
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DATA_LOSS:
      return true;
    default:
      return false;
  }
}

std::string ServiceOf(Method method) {
  return method >= Method::kModelInfer ? "inference.GRPCInferenceService" : "softmax.v1.SoftmaxService";
}

void AddPeer(const std::string& peer, Span* span) {
  const auto address = SplitHostPort(peer);
  AddText(span, "network.peer.address", address ? std::string(address->host) : peer);
  if (const auto port = address ? ParsePort(address->port) : std::nullopt) AddNumber(span, "network.peer.port", *port);
}

// Adds the spans of one request.
class RequestSpans {
 public:
  RequestSpans(const TracedRequest& request, ScopeSpans* spans)
      : request_(request), spans_(spans), trace_id_(BytesOf(request.trace_id)) {}

  void Add(bool is_new_batch) {
    Span* const whole = AddOwn();
    if (!request_.sample.ran) return;
    // Of an answer that several requests of batching make, the longest times: they may not reach beyond it.
    const TimePoint placed = Within(request_.sample.arrived + request_.sample.queue);
    const TimePoint launched = Within(placed + request_.sample.batch);
    const TimePoint ran = Within(launched + request_.execution);
    AddStage("queue", request_.sample.arrived, placed);
    AddStage("batch", placed, launched);
    Span* const execution = AddStage("execution", launched, ran);
    AddStage("answer", ran, request_.end);
    if (request_.batch_rows == 0) return;  // of no elements: it was in no batch
    for (Span* span : {whole, execution}) {
      Span::Link* const link = span->add_links();
      link->set_trace_id(BytesOf(request_.batch_trace_id));
      link->set_span_id(BytesOf(request_.batch_span_id));
      link->set_flags(kSampled | kRemoteIsKnown);
    }
    if (!is_new_batch) return;
    Span* const batch = AddSpan(BytesOf(request_.batch_trace_id), BytesOf(request_.batch_span_id), "softmax batch",
                                Span::SPAN_KIND_INTERNAL, launched, ran);
    AddNumber(batch, "softmax.batch.rows", static_cast<std::int64_t>(request_.batch_rows));
  }

 private:
  TimePoint Within(TimePoint time) const { return std::min(time, request_.end); }
  std::uint64_t UnixTime(TimePoint time) const {
    return static_cast<std::uint64_t>(request_.end_unix_ns - (request_.end - time).count());
  }

  Span* AddSpan(std::string trace_id, std::string span_id, std::string name, Span::SpanKind kind, TimePoint begin,
                TimePoint end) {
    Span* const span = spans_->add_spans();
    span->set_trace_id(std::move(trace_id));
    span->set_span_id(std::move(span_id));
    span->set_name(std::move(name));
    span->set_kind(kind);
    span->set_start_time_unix_nano(UnixTime(begin));
    span->set_end_time_unix_nano(UnixTime(end));
    span->set_flags(kSampled | kRemoteIsKnown);
    return span;
  }

  Span* AddOwn() {
    const std::string service = ServiceOf(request_.sample.method);
    const std::string method = NameOf(request_.sample.method);
    Span* const span = AddSpan(trace_id_, BytesOf(request_.span_id), service + "/" + method, Span::SPAN_KIND_SERVER,
                               request_.sample.arrived, request_.end);
    if (request_.parent_span_id != SpanId{}) {
      span->set_parent_span_id(BytesOf(request_.parent_span_id));
      span->set_flags(kSampled | kRemoteIsKnown | kRemoteParent);
    }
    span->set_trace_state(request_.trace_state);
    AddText(span, "rpc.system", "grpc");
    AddText(span, "rpc.service", service);
    AddText(span, "rpc.method", method);
    AddNumber(span, "rpc.grpc.status_code", request_.sample.code);
    if (!request_.peer.empty()) AddPeer(request_.peer, span);
    if (request_.request_id != 0) {
      AddNumber(span, "softmax.request.id", static_cast<std::int64_t>(request_.request_id));
    }
    if (IsError(request_.sample.code)) span->mutable_status()->set_code(Status::STATUS_CODE_ERROR);
    return span;
  }

  Span* AddStage(const char* name, TimePoint begin, TimePoint end) {
    // The request's id but for its last byte: an id of its own in this trace, at no cost for the queue thread.
    SpanId id = request_.span_id;
    id.back() = static_cast<char>(id.back() ^ ++stages_);
    Span* const span = AddSpan(trace_id_, BytesOf(id), name, Span::SPAN_KIND_INTERNAL, begin, end);
    span->set_parent_span_id(BytesOf(request_.span_id));
    span->set_trace_state(request_.trace_state);
    return span;
  }

  const TracedRequest& request_;
  ScopeSpans* const spans_;
  const std::string trace_id_;
  int stages_ = 0;
};

}  // namespace

bool OtlpEncoder::IsNewBatch(const SpanId& span) {
  if (std::find(batches_.begin(), batches_.end(), span) != batches_.end()) return false;
  batches_[next_batch_++ % kBatches] = span;
  return true;
}

void OtlpEncoder::Encode(const std::vector<TracedRequest>& requests, OtlpRequest* encoded) {
  auto* const of_resource = encoded->add_resource_spans();
  of_resource->set_schema_url(kSchema);
  for (const auto& [key, value] : resource_) AddText(of_resource->mutable_resource(), key.c_str(), value);
  ScopeSpans* const spans = of_resource->add_scope_spans();
  spans->set_schema_url(kSchema);
  spans->mutable_scope()->set_name("softmax-server");
  spans->mutable_scope()->set_version(version_);
  for (const TracedRequest& request : requests) {
    RequestSpans(request, spans).Add(request.batch_rows > 0 && IsNewBatch(request.batch_span_id));
  }
}

}  // namespace softmax::server

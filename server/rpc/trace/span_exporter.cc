#include "server/rpc/trace/span_exporter.h"

#include <google/protobuf/arena.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/status.h>

#include <algorithm>
#include <optional>
#include <span>
#include <type_traits>

#include "common/base/address.h"
#include "server/base/log.h"

namespace softmax::server {
namespace {

using opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest;
using opentelemetry::proto::collector::trace::v1::ExportTraceServiceResponse;
using opentelemetry::proto::collector::trace::v1::TraceService;
using opentelemetry::proto::trace::v1::ScopeSpans;
using opentelemetry::proto::trace::v1::Span;
using opentelemetry::proto::trace::v1::Status;

constexpr std::chrono::milliseconds kInterval(100);
// For what is there at the end.
constexpr std::chrono::seconds kLast(1);
// The size of a message: some 400 KiB.
constexpr std::size_t kRequestsAtOnce = 512;
// Which codes may be tried again is OTLP's.
constexpr char kServiceConfig[] = R"({"methodConfig": [{"name": [{}], "retryPolicy": {
    "maxAttempts": 5, "initialBackoff": "0.2s", "maxBackoff": "5s", "backoffMultiplier": 3,
    "retryableStatusCodes": ["CANCELLED", "DEADLINE_EXCEEDED", "ABORTED", "OUT_OF_RANGE", "UNAVAILABLE",
                             "DATA_LOSS"]}}]})";

// The version of the conventions that names and attributes are of.
constexpr char kSchema[] = "https://opentelemetry.io/schemas/1.37.0";
constexpr std::uint32_t kSampled = 1;
constexpr std::uint32_t kRemoteIsKnown = 1u << 8;
constexpr std::uint32_t kRemoteParent = 1u << 9;
// As the conventions have it for servers: what went wrong here, and not what the caller did wrong.
constexpr int kErrors[] = {grpc::UNKNOWN,  grpc::DEADLINE_EXCEEDED, grpc::UNIMPLEMENTED,
                           grpc::INTERNAL, grpc::UNAVAILABLE,       grpc::DATA_LOSS};

std::shared_ptr<grpc::Channel> ChannelOf(const SpanExporter::Options& options) {
  grpc::ChannelArguments arguments;
  arguments.SetServiceConfigJSON(kServiceConfig);
  arguments.SetInt(GRPC_ARG_PER_RPC_RETRY_BUFFER_SIZE, 16 << 20);  // whole messages
  // A collector that comes back is found soon.
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 5000);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = options.root_certificates;
  return grpc::CreateCustomChannel(
      options.target, options.tls ? grpc::SslCredentials(tls) : grpc::InsecureChannelCredentials(), arguments);
}

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

// Makes OpenTelemetry's spans of traced requests, by its conventions for RPC: of each the request's own, below it one
// each for the stages queue, batch, execution and answer, and of each batch that a traced request ran in a span that
// begins a trace of its own, to which the request's spans are linked. `encoded` is empty and may be on an arena.
void EncodeSpans(std::span<const TracedRequest> requests, const SpanExporter::Texts& resource,
                 const std::string& version, ExportTraceServiceRequest* encoded) {
  auto* const of_resource = encoded->add_resource_spans();
  of_resource->set_schema_url(kSchema);
  for (const auto& [key, value] : resource) Add(of_resource->mutable_resource(), key.c_str(), value);
  ScopeSpans* const spans = of_resource->add_scope_spans();
  spans->set_schema_url(kSchema);
  spans->mutable_scope()->set_name("softmax-server");
  spans->mutable_scope()->set_version(version);
  for (const TracedRequest& request : requests) AddSpans(request, spans);
}

}  // namespace

SpanExporter::SpanExporter(const Options& options)
    : options_(options), collector_(TraceService::NewStub(ChannelOf(options))), thread_([this] { Run(); }) {}

SpanExporter::~SpanExporter() {
  {
    MutexLock lock(mu_);
    end_by_ = SteadyClock::now() + kLast;
    changed_.notify_all();
    while (!done_ && SteadyClock::now() < end_by_) changed_.wait_until(mu_, end_by_);
    if (call_ != nullptr) call_->TryCancel();
  }
  thread_.join();
}

SpanQueue* SpanExporter::AddQueue() {
  MutexLock lock(mu_);
  return queues_.emplace_back(std::make_unique<SpanQueue>(options_.ratio)).get();
}

std::vector<std::pair<std::string, double>> SpanExporter::Outcomes() const {
  MutexLock lock(mu_);
  std::uint64_t dropped = 0;
  for (const auto& queue : queues_) dropped += queue->dropped();
  return {{"sent", sent_}, {"queue_full", dropped}, {"failed", failed_}};
}

double SpanExporter::rejected_spans() const {
  MutexLock lock(mu_);
  return static_cast<double>(rejected_);
}

void SpanExporter::Run() {
  std::vector<TracedRequest> requests;
  for (bool is_last = false; !is_last;) {
    {
      MutexLock lock(mu_);
      const TimePoint next = SteadyClock::now() + kInterval;
      while (!ending() && SteadyClock::now() < next) changed_.wait_until(mu_, next);
      is_last = ending();
      for (const auto& queue : queues_) queue->Take(&requests);
    }
    for (std::span<const TracedRequest> rest(requests); !rest.empty();) {
      const auto some = rest.first(std::min(kRequestsAtOnce, rest.size()));
      Export(some);
      rest = rest.subspan(some.size());
    }
    requests.clear();
  }
  MutexLock lock(mu_);
  done_ = true;
  changed_.notify_all();
}

void SpanExporter::Export(std::span<const TracedRequest> requests) {
  google::protobuf::Arena arena;
  auto* const request = google::protobuf::Arena::CreateMessage<ExportTraceServiceRequest>(&arena);
  EncodeSpans(requests, options_.resource, options_.version, request);
  grpc::ClientContext context;
  for (const auto& [key, value] : options_.headers) context.AddMetadata(key, value);
  {
    MutexLock lock(mu_);
    const Nanoseconds left = std::min<Nanoseconds>(options_.timeout, end_by_ - SteadyClock::now());
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::duration_cast<std::chrono::microseconds>(left));
    call_ = &context;
  }
  ExportTraceServiceResponse response;
  const grpc::Status status = collector_->Export(&context, *request, &response);
  MutexLock lock(mu_);
  call_ = nullptr;
  if (status.ok()) {
    sent_ += requests.size();
    rejected_ += static_cast<std::uint64_t>(std::max<std::int64_t>(0, response.partial_success().rejected_spans()));
    return;
  }
  if (failed_ == 0) {
    LogWarning("trace-endpoint: ", options_.target,
               " does not take spans; what it does not take is dropped and counted: ", status.error_message());
  }
  failed_ += requests.size();
}

}  // namespace softmax::server

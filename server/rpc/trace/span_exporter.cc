#include "server/rpc/trace/span_exporter.h"

#include <google/protobuf/arena.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>

#include "server/base/log.h"

namespace softmax::server {
namespace {

using opentelemetry::proto::collector::trace::v1::ExportTraceServiceResponse;
using opentelemetry::proto::collector::trace::v1::TraceService;

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
  auto* const request = google::protobuf::Arena::CreateMessage<OtlpRequest>(&arena);
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

#include "server/rpc/trace/span_exporter.h"

#include <google/protobuf/arena.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>

#include "opentelemetry/proto/collector/trace/v1/trace_service.grpc.pb.h"
#include "server/base/log.h"

namespace softmax::server {
namespace {

using opentelemetry::proto::collector::trace::v1::ExportTraceServiceResponse;
using opentelemetry::proto::collector::trace::v1::TraceService;

constexpr std::chrono::milliseconds kInterval(100);
constexpr std::chrono::milliseconds kFirstPause(100);
constexpr std::chrono::milliseconds kLongestPause(5000);
// For what is there at the end.
constexpr std::chrono::seconds kLast(1);
// The size of a message: some 400 KiB.
constexpr std::size_t kRequestsAtOnce = 512;

std::shared_ptr<grpc::Channel> ChannelOf(const SpanExporter::Options& options) {
  grpc::ChannelArguments arguments;
  // A collector that comes back is found soon.
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, static_cast<int>(kLongestPause.count()));
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = options.root_certificates;
  return grpc::CreateCustomChannel(
      options.target, options.tls ? grpc::SslCredentials(tls) : grpc::InsecureChannelCredentials(), arguments);
}

// As OTLP has it.
bool MayTryAgain(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::ABORTED:
    case grpc::StatusCode::OUT_OF_RANGE:
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DATA_LOSS:
      return true;
    default:
      return false;
  }
}

}  // namespace

SpanExporter::SpanExporter(const Options& options)
    : options_(options),
      encoder_(options.resource, options.version),
      channel_(ChannelOf(options)),
      thread_([this] { Run(); }) {}

SpanExporter::~SpanExporter() {
  {
    MutexLock lock(mu_);
    end_by_ = SteadyClock::now() + kLast;
    changed_.notify_all();
    while (!done_ && SteadyClock::now() < end_by_) changed_.wait_until(mu_, end_by_);
    if (attempt_ != nullptr) attempt_->TryCancel();
  }
  thread_.join();
}

SpanQueue* SpanExporter::AddQueue() {
  MutexLock lock(mu_);
  return queues_.emplace_back(std::make_unique<SpanQueue>(options_.ratio)).get();
}

std::uint64_t SpanExporter::requests(Outcome outcome) const {
  if (outcome == Outcome::kSent) return sent_.load();
  if (outcome == Outcome::kFailed) return failed_.load();
  MutexLock lock(mu_);
  std::uint64_t dropped = 0;
  for (const auto& queue : queues_) dropped += queue->dropped();
  return dropped;
}

void SpanExporter::Run() {
  std::vector<TracedRequest> requests;
  std::vector<TracedRequest> some;
  for (bool is_last = false; !is_last;) {
    {
      MutexLock lock(mu_);
      const TimePoint next = SteadyClock::now() + kInterval;
      while (!ending() && SteadyClock::now() < next) changed_.wait_until(mu_, next);
      is_last = ending();
      for (const auto& queue : queues_) queue->Take(&requests);
    }
    for (std::size_t at = 0; at < requests.size(); at += some.size()) {
      const auto begin = requests.begin() + static_cast<std::ptrdiff_t>(at);
      const auto count = static_cast<std::ptrdiff_t>(std::min(kRequestsAtOnce, requests.size() - at));
      some.assign(std::make_move_iterator(begin), std::make_move_iterator(begin + count));
      Export(some);
    }
    requests.clear();
  }
  MutexLock lock(mu_);
  done_ = true;
  changed_.notify_all();
}

bool SpanExporter::Pause(std::chrono::milliseconds pause, TimePoint until) {
  MutexLock lock(mu_);
  const TimePoint next = SteadyClock::now() + pause;
  while (!ending() && SteadyClock::now() < next) changed_.wait_until(mu_, next);
  return !ending() && next < until;
}

grpc::Status SpanExporter::Attempt(const OtlpRequest& request, TimePoint until, std::int64_t* rejected) {
  grpc::ClientContext context;
  for (const auto& [key, value] : options_.headers) context.AddMetadata(key, value);
  {
    MutexLock lock(mu_);
    const Nanoseconds left = std::min(until, end_by_) - SteadyClock::now();
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::duration_cast<std::chrono::microseconds>(left));
    attempt_ = &context;
  }
  ExportTraceServiceResponse response;
  grpc::Status status = TraceService::NewStub(channel_)->Export(&context, request, &response);
  *rejected = response.partial_success().rejected_spans();
  MutexLock lock(mu_);
  attempt_ = nullptr;
  return status;
}

void SpanExporter::Export(const std::vector<TracedRequest>& requests) {
  google::protobuf::Arena arena;
  auto* const request = google::protobuf::Arena::CreateMessage<OtlpRequest>(&arena);
  encoder_.Encode(requests, request);
  const TimePoint until = SteadyClock::now() + options_.timeout;
  grpc::Status status;
  for (std::chrono::milliseconds pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    std::int64_t rejected = 0;
    status = Attempt(*request, until, &rejected);
    if (status.ok()) {
      sent_ += requests.size();
      rejected_spans_ += static_cast<std::uint64_t>(std::max<std::int64_t>(0, rejected));
      return;
    }
    if (!MayTryAgain(status.error_code()) || !Pause(pause, until)) break;
  }
  if (failed_.fetch_add(requests.size()) > 0) return;
  LogWarning("trace-endpoint: ", options_.target,
             " does not take spans; what it does not take is dropped and counted: ", status.error_message());
}

}  // namespace softmax::server

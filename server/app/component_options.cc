#include "server/app/component_options.h"

#include <algorithm>
#include <climits>

#include "common/base/shortage.h"
#include "common/base/text_file.h"
#include "common/base/usable_cores.h"
#include "server/config/check.h"
#include "server/config/trace_settings.h"
#include "server/rpc/calls/control_context.h"
#include "server/rpc/guard/read_guard.h"

namespace softmax::server {
namespace {

unsigned Cores() { return CoresOfThisProcess().count; }

Batcher::Options BatcherOptions(const Config& config, std::uint32_t home) {
  return {.batch = {.bytes = config.max_batch_bytes, .requests = To32(config.max_batch_requests)},
          .max_in_flight = To32(config.max_in_flight_batches),
          .max_queue_delay = config.max_queue_delay,
          .inline_copy_bytes = std::min<std::uint64_t>(1u << 20, config.max_batch_bytes),
          .gather_bytes = config.receive_bytes > 0 ? config.gather_bytes : 0,
          .home = home};
}

}  // namespace

std::uint32_t To32(std::uint64_t value) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(value, UINT32_MAX));
}

WireLimits WireLimitsFor(const Config& config) {
  return {.max_request_bytes = config.max_request_bytes,
          .max_response_bytes = config.max_response_bytes,
          .max_rank = To32(config.max_rank),
          .max_rows = config.max_rows,
          .max_columns = config.max_columns,
          .max_top_k = To32(config.max_top_k),
          .max_requests_per_stream_message = To32(config.max_requests_per_stream_message),
          .has_files = IsSet(config.oip_shared_memory),
          .max_message_bytes = MaxMessageBytes(config.max_request_bytes)};
}

std::uint64_t RegionTensorBytes(const Config& config, bool has_devices) {
  // What the kernels of summaries can number.
  constexpr std::uint64_t kMost = (4ull << 30) - 1;
  if (!IsSet(config.regions_socket)) return 0;
  const std::uint64_t device = has_devices ? EffectiveRegionDeviceBytes(config) : 0;
  return std::min(kMost, std::max(EffectiveRegionBytes(config), device));
}

void SetGuardLimits(const Config& config) {
  ReadGuard::SetLimits(
      {.tensor_message_bytes = MaxMessageBytes(config.max_request_bytes), .control_message_bytes = kMaxControlBytes},
      {.max = static_cast<std::int64_t>(config.max_waiting_calls),
       .share =
           static_cast<std::int64_t>(std::max<std::uint64_t>(1, config.max_waiting_calls / config.max_connections)),
       .timeout = config.first_message_timeout});
}

ExecutorOptions ExecutorOptionsFor(const Config& config) {
  ExecutorOptions options;
  options.backend = config.backend;
  options.devices.assign(config.devices.begin(), config.devices.end());
  options.cpu_threads = To32(EffectiveCpuThreads(config, Cores()));
  options.arena_bytes = config.arena_bytes;
  options.receive_bytes = config.receive_bytes;
  options.queue_threads = QueueThreadsFor(config);
  options.home_bytes = Arena::kHomeSlabs * config.slab_bytes;
  options.max_in_flight = To32(config.max_in_flight_batches);
  options.max_batch_requests = To32(config.max_batch_requests);
  options.max_input_bytes =
      std::max({config.max_request_bytes, config.max_batch_bytes, RegionTensorBytes(config, /*has_devices=*/true)});
  return options;
}

std::uint32_t QueueThreadsFor(const Config& config) {
  return static_cast<std::uint32_t>(EffectiveThreads(config, Cores()));
}

std::size_t ThreadsFor(const Config& config) {
  // Log, metrics, health, acceptor, sweeper, tester of devices, sampler of GPUs, long work, and one for the drain.
  constexpr std::size_t kOthers = 9;
  const std::size_t regions = IsSet(config.regions_socket) ? 1 : 0;
  const absl::StatusOr<TraceSettings> traces = TraceSettingsOf(config);
  const std::size_t spans = traces.ok() && !traces->target.empty() ? 1 : 0;
  return QueueThreadsFor(config) + EffectiveFillerThreads(config, Cores()) + EffectiveCpuThreads(config, Cores()) +
         kOthers + regions + spans + GrpcThreads();
}

ChannelSettings ChannelSettingsFor(const Config& config) {
  const auto ms = [](Config::Duration duration) {
    return static_cast<int>(std::min<std::int64_t>(duration / std::chrono::milliseconds(1), INT_MAX));
  };
  return {.max_concurrent_streams = static_cast<int>(To32(config.max_concurrent_streams)),
          .keepalive_time_ms = ms(config.keepalive_time),
          .keepalive_timeout_ms = ms(config.keepalive_timeout),
          .min_ping_interval_ms = ms(config.min_ping_interval),
          .max_connection_idle_ms = ms(config.max_connection_idle),
          .max_connection_age_ms = ms(config.max_connection_age),
          .max_connection_age_grace_ms = ms(config.drain_timeout)};
}

QueueThread::Options QueueThreadOptionsFor(const Config& config, std::uint32_t index, const Prices& prices,
                                           const CoreSet& cores) {
  return {.index = index,
          .cores = cores,
          .batcher = BatcherOptions(config, /*home=*/index),
          .admission = {.requests = To32(config.max_batched_per_connection),
                        .in_flight_bytes = EffectiveInFlightBytes(config),
                        .unread_bytes = config.max_unread_bytes_per_connection,
                        .prices = prices},
          .most_waiting_calls = config.max_concurrent_streams};
}

DeviceGroup::Options DeviceGroupOptionsFor(const Config& config) {
  return {.batch_timeout = config.device_timeout,
          .degraded_limit = config.degraded_limit,
          .arena_bytes = config.arena_bytes,
          // Reserved in one step: the request, and its answer where that lies apart.
          .largest_request_bytes = config.max_request_bytes + config.max_response_bytes};
}

Backlog::Options BacklogOptionsFor(const Config& config) {
  // Whoever holds memory has to give it back by then: a hanging device, an answer that waits to be sent, one that is
  // not read. What is not free after it is kept for a lost device, or a mistake.
  const Config::Duration device = config.device_timeout.count() > 0 ? config.device_timeout : Config().device_timeout;
  return {.threads = To32(EffectiveFillerThreads(config, Cores())),
          .max_requests = config.max_queued_requests,
          .max_bytes = config.max_queued_bytes,
          .max_wait = device + 2 * config.answer_timeout};
}

Connections::Options ConnectionsOptionsFor(const Config& config) {
  return {.max_unread_bytes = config.max_unread_bytes_per_connection,
          .max_unread_bytes_all = config.max_unread_bytes,
          .answer_timeout = config.answer_timeout};
}

absl::StatusOr<RegionServer::Options> RegionServerOptionsFor(const Config& config, std::size_t devices) {
  RegionServer::Options options;
  options.socket = config.regions_socket;
  if (absl::Status status = ParseSocketMode(config.unix_socket_mode, &options.mode); !status.ok()) return status;
  if (absl::Status status = ParseRegionUids(config.regions_uids, &options.uids); !status.ok()) return status;
  options.connections = config.regions_connections;
  options.host = {config.regions_bytes, EffectiveRegionBytes(config)};
  options.device = {config.regions_device_bytes, EffectiveRegionDeviceBytes(config)};
  options.devices = static_cast<std::uint32_t>(devices);
  options.queue_threads = QueueThreadsFor(config);
  return options;
}

absl::StatusOr<SpanExporter::Options> SpanExporterOptionsFor(const Config& config) {
  absl::StatusOr<TraceSettings> settings = TraceSettingsOf(config);
  if (!settings.ok()) return settings.status();
  SpanExporter::Options options{.target = settings->target,
                                .tls = settings->tls,
                                .headers = std::move(settings->headers),
                                .timeout = settings->timeout,
                                .ratio = settings->ratio,
                                .resource = std::move(settings->resource),
                                .version = Version()};
  if (settings->certificate.empty()) return options;
  if (const std::string problem = ReadTextFile(settings->certificate, 1 << 20, &options.root_certificates);
      !problem.empty()) {
    return absl::InvalidArgumentError("OTEL_EXPORTER_OTLP_CERTIFICATE=" + settings->certificate + ": " + problem);
  }
  return options;
}

absl::StatusOr<Acceptor::Options> AcceptorOptionsFor(const Config& config) {
  Acceptor::Options options;
  for (const std::string& text : config.address) {
    const absl::StatusOr<Address> address = ParseAddress(text);
    // A unix socket's callers are told apart by its file's mode, and nobody listens in between.
    const bool tls = IsSet(config.tls_cert) && !(address.ok() && address->is_unix());
    options.places.push_back({text, tls ? kTlsDestination : kPlainDestination});
  }
  if (IsSet(config.health_address)) options.places.push_back({config.health_address, kHealthDestination});
  if (absl::Status status = ParseSocketMode(config.unix_socket_mode, &options.unix_socket_mode); !status.ok()) {
    return status;
  }
  return options;
}

}  // namespace softmax::server

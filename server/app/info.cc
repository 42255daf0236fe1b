#include <absl/strings/str_cat.h>

#include <chrono>

#include "kernels/operations.h"
#include "server/app/component_options.h"
#include "server/app/parts.h"

namespace softmax::server {
namespace {

// As the parts are told, so that nothing is said that does not hold.
void FillLimits(const Config& config, v1::Limits* limits) {
  const WireLimits wire = WireLimitsFor(config);
  limits->set_max_request_bytes(wire.max_request_bytes);
  limits->set_max_response_bytes(wire.max_response_bytes + kHeaderAllowanceBytes);
  limits->set_max_rank(wire.max_rank);
  limits->set_max_rows(wire.max_rows);
  limits->set_max_columns(wire.max_columns);
  limits->set_max_top_k(wire.max_top_k);
  limits->set_max_requests_per_stream_message(wire.max_requests_per_stream_message);
  limits->set_max_in_flight_per_stream(To32(config.max_in_flight_per_stream));
  limits->set_max_concurrent_streams_per_connection(
      static_cast<std::uint32_t>(ChannelSettingsFor(config).max_concurrent_streams));
  limits->set_max_connections(To32(config.max_connections));
  const Backlog::Options backlog = BacklogOptionsFor(config);
  limits->set_max_queued_bytes(backlog.max_bytes);
  limits->set_max_queued_requests(To32(backlog.max_requests));
  const QueueThread::Options queue = QueueThreadOptionsFor(config, 0, {});
  limits->set_max_unread_bytes_per_connection(queue.admission.unread_bytes);
  limits->set_max_batch_bytes(queue.batcher.batch.bytes);
  limits->set_max_batch_requests(queue.batcher.batch.requests);
  limits->set_max_queue_delay_us(
      static_cast<std::uint64_t>(queue.batcher.max_queue_delay / std::chrono::microseconds(1)));
  limits->set_arena_bytes(ExecutorOptionsFor(config).arena_bytes);
  limits->set_answer_timeout_ms(
      static_cast<std::uint64_t>(ConnectionsOptionsFor(config).answer_timeout / std::chrono::milliseconds(1)));
}

void FillRegionLimits(const Config& config, const std::string& backend, v1::RegionLimits* limits) {
  limits->set_socket(config.regions_socket);
  limits->set_max_bytes(config.regions_bytes);
  limits->set_max_bytes_per_connection(EffectiveRegionBytes(config));
  if (backend == "cuda") {
    limits->set_max_device_bytes(config.regions_device_bytes);
    limits->set_max_device_bytes_per_connection(EffectiveRegionDeviceBytes(config));
  }
  limits->set_max_tensor_bytes(RegionTensorBytes(config, backend == "cuda"));
}

}  // namespace

v1::GetServerInfoResponse ServerInfoFor(const Config& config, const std::string& backend,
                                        const std::vector<std::string>& devices) {
  v1::GetServerInfoResponse info;
  info.set_version(Version());
  info.set_build(Commit());
  info.set_backend(backend);
  for (const std::string& device : devices) info.add_devices(device);
  for (v1::DataType type :
       {v1::DATA_TYPE_FLOAT32, v1::DATA_TYPE_FLOAT16, v1::DATA_TYPE_BFLOAT16, v1::DATA_TYPE_FLOAT64}) {
    info.add_dtypes(type);
  }
  for (const kernels::OperationTraits& traits : kernels::kOperations) {
    info.add_operations(static_cast<v1::Operation>(traits.operation));
  }
  FillLimits(config, info.mutable_limits());
  if (IsSet(config.regions_socket)) FillRegionLimits(config, backend, info.mutable_regions());
  info.set_unsafe_testing(config.unsafe_testing);
  return info;
}

void DescribeDevices(const Devices& devices, v1::GetServerInfoResponse* info) {
  if (devices.lost() == 0) return;
  info->set_degraded(true);
  const std::vector<Devices::View> views = devices.views();
  for (std::size_t device = 0; device < views.size(); ++device) {
    if (views[device].state != Devices::State::kLost) continue;
    info->add_lost_devices(absl::StrCat(device, ": ", views[device].name, ": ", views[device].reason));
  }
}

}  // namespace softmax::server

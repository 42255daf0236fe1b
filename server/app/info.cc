#include "server/app/info.h"

#include <absl/strings/str_cat.h>

#include <chrono>

#include "kernels/operations.h"
#include "server/app/component_options.h"

namespace softmax::server {
namespace {

void FillLimits(const Config& config, v1::Limits* limits) {
  limits->set_max_request_bytes(config.max_request_bytes);
  limits->set_max_response_bytes(config.max_response_bytes + kHeaderAllowanceBytes);
  limits->set_max_rank(To32(config.max_rank));
  limits->set_max_rows(config.max_rows);
  limits->set_max_columns(config.max_columns);
  limits->set_max_top_k(static_cast<std::uint32_t>(config.max_top_k));
  limits->set_max_requests_per_stream_message(To32(config.max_requests_per_stream_message));
  limits->set_max_in_flight_per_stream(To32(config.max_in_flight_per_stream));
  limits->set_max_concurrent_streams_per_connection(To32(config.max_concurrent_streams));
  limits->set_max_connections(To32(config.max_connections));
  limits->set_max_unread_bytes_per_connection(config.max_unread_bytes_per_connection);
  limits->set_max_queued_bytes(config.max_queued_bytes);
  limits->set_max_queued_requests(To32(config.max_queued_requests));
  limits->set_max_batch_bytes(config.max_batch_bytes);
  limits->set_max_batch_requests(To32(config.max_batch_requests));
  limits->set_arena_bytes(config.arena_bytes);
  limits->set_max_queue_delay_us(static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(config.max_queue_delay).count()));
  limits->set_answer_timeout_ms(
      static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(config.answer_timeout).count()));
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

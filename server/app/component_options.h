#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>

#include "common/wire/decode.h"
#include "server/batching/backlog.h"
#include "server/config/config.h"
#include "server/execution/device_group.h"
#include "server/execution/executor.h"
#include "server/regions/region_server.h"
#include "server/rpc/accept/acceptor.h"
#include "server/rpc/accept/channel_settings.h"
#include "server/rpc/accept/connections.h"
#include "server/rpc/queue/queue_thread.h"
#include "server/rpc/trace/span_exporter.h"

// What the parts of the server are told of the configuration.
namespace softmax::server {

WireLimits WireLimitsFor(const Config& config);
// Largest part of a request that lies in a region; 0: there are none. `has_devices`: there may be regions of theirs.
std::uint64_t RegionTensorBytes(const Config& config, bool has_devices);
// What the guard holds every connection of the process to.
void SetGuardLimits(const Config& config);
ExecutorOptions ExecutorOptionsFor(const Config& config);
DeviceGroup::Options DeviceGroupOptionsFor(const Config& config);
Backlog::Options BacklogOptionsFor(const Config& config);
std::uint32_t QueueThreadsFor(const Config& config);
// All that the server will start, those of gRPC among them.
std::size_t ThreadsFor(const Config& config);
ChannelSettings ChannelSettingsFor(const Config& config);
QueueThread::Options QueueThreadOptionsFor(const Config& config, std::uint32_t index, const Prices& prices,
                                           const CoreSet& cores = {});
Connections::Options ConnectionsOptionsFor(const Config& config);
// keeps_memory is the caller's to set.
absl::StatusOr<RegionServer::Options> RegionServerOptionsFor(const Config& config, std::size_t devices);
// Its target is empty: no spans are sent.
absl::StatusOr<SpanExporter::Options> SpanExporterOptionsFor(const Config& config);

// Indices of the acceptor's destinations.
constexpr std::size_t kPlainDestination = 0;
constexpr std::size_t kHealthDestination = 1;
constexpr std::size_t kTlsDestination = 2;
constexpr std::size_t kDestinations = 3;
// The health address, where there is one, is the last place.
absl::StatusOr<Acceptor::Options> AcceptorOptionsFor(const Config& config);

// UINT32_MAX for what is larger.
std::uint32_t To32(std::uint64_t value);

}  // namespace softmax::server

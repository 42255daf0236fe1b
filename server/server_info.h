#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "server/config.h"
#include "server/execution/executor.h"
#include "server/execution/lane_faults.h"
#include "server/rpc/channel_settings.h"
#include "server/rpc/wire.h"
#include "softmax/v1/softmax.pb.h"

// What the parts of the server are told of the configuration.
namespace softmax::server {

WireLimits WireLimitsFor(const Config& config);
ExecutorOptions ExecutorOptionsFor(const Config& config);
// INVALID_ARGUMENT: --fault is none that is known.
absl::StatusOr<LaneFaults> LaneFaultsFor(const Config& config);
ChannelSettings ChannelSettingsFor(const Config& config);
v1::GetServerInfoResponse ServerInfoFor(const Config& config, const std::string& backend,
                                        const std::vector<std::string>& devices);

}  // namespace softmax::server

#pragma once

#include <string>
#include <vector>

#include "server/config/config.h"
#include "server/execution/devices.h"
#include "server/execution/executor.h"
#include "server/metrics/metrics.h"
#include "server/rpc/accept/channel_settings.h"
#include "server/wire/wire.h"
#include "softmax/v1/softmax.pb.h"

// What the parts of the server are told of the configuration.
namespace softmax::server {

WireLimits WireLimitsFor(const Config& config);
ExecutorOptions ExecutorOptionsFor(const Config& config);
ChannelSettings ChannelSettingsFor(const Config& config);
v1::GetServerInfoResponse ServerInfoFor(const Config& config, const std::string& backend,
                                        const std::vector<std::string>& devices);

// What a running server adds: what was lost, and why.
void DescribeDevices(const Devices& devices, v1::GetServerInfoResponse* info);
std::vector<DeviceGauges> DeviceGaugesOf(const Devices& devices);

}  // namespace softmax::server

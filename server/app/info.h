#pragma once

#include <string>
#include <vector>

#include "server/config/config.h"
#include "server/execution/devices.h"
#include "softmax/v1/softmax.pb.h"

namespace softmax::server {

// What GetServerInfo answers.
v1::GetServerInfoResponse ServerInfoFor(const Config& config, const std::string& backend,
                                        const std::vector<std::string>& devices);

// What a running server adds: what was lost, and why.
void DescribeDevices(const Devices& devices, v1::GetServerInfoResponse* info);

}  // namespace softmax::server

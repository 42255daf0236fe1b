#pragma once

#include <string>
#include <utility>
#include <vector>

#include "server/config/config.h"

namespace softmax::server {

// `config` as a config file that sets every key; reading it back gives the same config.
std::string PrintConfig(const Config& config);

// Every number in `config` in bytes, seconds, counts or 0/1, named as the flag with underscores
// ("max_batch_bytes", "drain_timeout_seconds").
std::vector<std::pair<std::string, double>> ConfigSettings(const Config& config);

}  // namespace softmax::server

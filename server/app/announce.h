#pragma once

#include <string>
#include <vector>

#include "server/app/secrets.h"
#include "server/config/config.h"
#include "server/execution/executor.h"

namespace softmax::server {

// What a server listens on, as clients write it, with the ports that were chosen.
struct ListenAddresses {
  std::vector<std::string> service;
  std::string metrics;  // empty: none, as with health
  std::string health;
};

// What starts here: version, commit, backend, devices, threads and memory, in one line.
void Introduce(const Config& config, const Executor& executor);

// The log lines of a server that has started.
void Announce(const Config& config, const Secrets& secrets, const ListenAddresses& addresses);

}  // namespace softmax::server

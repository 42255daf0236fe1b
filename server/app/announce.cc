#include "server/app/announce.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>

#include "server/app/component_options.h"
#include "server/base/log.h"
#include "server/config/config.h"

namespace softmax::server {

void Introduce(const Config& config, const Executor& executor) {
  const std::string places = executor.topology().Describe(QueueThreadsFor(config));
  LogInfo("softmax-server ", Version(), " (", Commit(), "): backend ", executor.name(), ", ",
          absl::StrJoin(executor.devices(), "; "), "; ", DescribeThreads(config, CoresOfThisProcess()), ", of at most ",
          ThreadsFor(config), " threads", places.empty() ? "" : absl::StrCat(", of these ", places),
          "; memory: arena-bytes ", config.arena_bytes >> 20, " MiB, memory-quota ", config.memory_quota >> 20, " MiB");
}

void Announce(const Config& config, const Secrets& secrets, const ListenAddresses& addresses) {
  for (const std::string& address : addresses.service) {
    const bool tls = secrets.tls() != nullptr && address.rfind("unix:", 0) != 0;
    LogInfo("listening on ", address);
    LogInfo(address, ": ",
            !tls                                         ? "plain text"
            : secrets.tls()->wants_client_certificates() ? "TLS, clients show certificates"
                                                         : "TLS",
            ", ", secrets.tokens() != nullptr ? "with tokens" : "without tokens");
  }
  if (IsSet(config.regions_socket)) {
    LogInfo("regions on ", config.regions_socket, ": regions-bytes ", config.regions_bytes >> 20, " MiB, ",
            "regions-device-bytes ", config.regions_device_bytes >> 20, " MiB, for uids ", config.regions_uids);
  }
  if (!addresses.health.empty()) LogInfo("health on ", addresses.health);
  if (!addresses.metrics.empty()) LogInfo("metrics on ", addresses.metrics);
  const double most = static_cast<double>(config.max_connections) * static_cast<double>(config.max_concurrent_streams) *
                      static_cast<double>(config.max_request_bytes);
  // Nothing to worry about: the default settings have it, too.
  LogDebug("max-connections ", config.max_connections, " x max-concurrent-streams ", config.max_concurrent_streams,
           " x max-request-bytes are ", absl::StrFormat("%.0f", most / static_cast<double>(config.memory_quota)),
           " times the memory-quota, at which gRPC cancels calls");
}

}  // namespace softmax::server

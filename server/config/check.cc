#include "server/config/check.h"

#include <absl/strings/numbers.h>
#include <arpa/inet.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <utility>
#include <vector>

#include "common/base/address.h"
#include "server/base/file_mode.h"
#include "server/config/trace_settings.h"
#include "server/config/values.h"

namespace softmax::server {
namespace {

constexpr std::uint64_t kSmallestSlab = 4096;  // a page: slabs are handed to devices
// Listeners, epoll sets, devices, the scrape port's workers and log files.
constexpr std::uint64_t kReservedFiles = 256;
// The connection itself, and the accept loop's own copy of it.
constexpr std::uint64_t kFilesPerConnection = 2;
// gRPC counts messages in int; the header of one is far below 16 MiB.
constexpr std::uint64_t kLargestMessage = std::numeric_limits<std::int32_t>::max() - (16u << 20);

absl::Status Refuse(const std::string& text) { return absl::InvalidArgumentError(text); }

std::string Bytes(const char* flag, std::uint64_t value) { return std::string(flag) + "=" + FormatBytes(value); }

std::string Count(const char* flag, std::uint64_t value) { return std::string(flag) + "=" + std::to_string(value); }

// The first that is not OK.
absl::Status First(std::initializer_list<absl::Status> statuses) {
  for (const absl::Status& status : statuses) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Positive(std::initializer_list<std::pair<const char*, std::uint64_t>> values) {
  for (const auto& [flag, value] : values) {
    if (value == 0) return Refuse(Count(flag, value) + ": must be above 0");
  }
  return absl::OkStatus();
}

// What a count may be stands in fields.h, and is checked where it is read.
absl::Status CheckSizes(const Config& c) {
  return Positive({{"--max-batch-bytes", c.max_batch_bytes},
                   {"--max-request-bytes", c.max_request_bytes},
                   {"--max-response-bytes", c.max_response_bytes},
                   {"--max-queued-bytes", c.max_queued_bytes},
                   {"--arena-bytes", c.arena_bytes},
                   {"--slab-bytes", c.slab_bytes},
                   {"--gather-bytes", c.gather_bytes},
                   {"--max-unread-bytes-per-connection", c.max_unread_bytes_per_connection},
                   {"--max-unread-bytes", c.max_unread_bytes},
                   {"--memory-quota", c.memory_quota}});
}

absl::Status CheckDurations(const Config& c) {
  const std::pair<const char*, Config::Duration> positive[] = {
      {"--answer-timeout", c.answer_timeout},       {"--first-message-timeout", c.first_message_timeout},
      {"--drain-timeout", c.drain_timeout},         {"--keepalive-time", c.keepalive_time},
      {"--keepalive-timeout", c.keepalive_timeout}, {"--min-ping-interval", c.min_ping_interval}};
  for (const auto& [flag, value] : positive) {
    if (value < std::chrono::milliseconds(1)) {
      return Refuse(std::string(flag) + "=" + FormatDuration(value) + ": must be at least 1ms");
    }
  }
  const std::pair<const char*, Config::Duration> optional[] = {{"--max-connection-idle", c.max_connection_idle},
                                                               {"--max-connection-age", c.max_connection_age},
                                                               {"--device-timeout", c.device_timeout}};
  for (const auto& [flag, value] : optional) {
    if (value.count() != 0 && value < std::chrono::seconds(1)) {
      return Refuse(std::string(flag) + "=" + FormatDuration(value) + ": must be 0s (never) or at least 1s");
    }
  }
  if (c.max_queue_delay > std::chrono::seconds(1)) {
    return Refuse("--max-queue-delay=" + FormatDuration(c.max_queue_delay) +
                  ": at most 1s, or callers time out while their batch waits for company");
  }
  return absl::OkStatus();
}

// `part` may be at most half of the arena: a request's input and answer are reserved together, in
// one step.
absl::Status AtMostHalfOfArena(const char* flag, std::uint64_t part, const Config& c) {
  if (part > c.arena_bytes / 2) {
    return Refuse(Bytes(flag, part) + " is more than half of " + Bytes("--arena-bytes", c.arena_bytes));
  }
  return absl::OkStatus();
}

absl::Status AtMost(const char* small_flag, std::uint64_t small, const char* large_flag, std::uint64_t large) {
  if (small > large) return Refuse(Bytes(small_flag, small) + " is more than " + Bytes(large_flag, large));
  return absl::OkStatus();
}

absl::Status AtMostMessage(const char* flag, std::uint64_t value) {
  return value > kLargestMessage ? Refuse(Bytes(flag, value) + ": gRPC carries at most " +
                                          std::to_string(kLargestMessage) + " bytes in a message")
                                 : absl::OkStatus();
}

absl::Status CheckMemory(const Config& c) {
  if (c.slab_bytes < kSmallestSlab || (c.slab_bytes & (c.slab_bytes - 1)) != 0) {
    return Refuse(Bytes("--slab-bytes", c.slab_bytes) + ": must be a power of two, at least 4KiB");
  }
  if (c.arena_bytes % c.slab_bytes != 0) {
    return Refuse(Bytes("--arena-bytes", c.arena_bytes) + " is not a whole number of slabs of " +
                  Bytes("--slab-bytes", c.slab_bytes));
  }
  return First({
      AtMostMessage("--max-request-bytes", c.max_request_bytes),
      AtMostMessage("--max-response-bytes", c.max_response_bytes),
      AtMostHalfOfArena("--max-request-bytes", c.max_request_bytes, c),
      AtMostHalfOfArena("--max-response-bytes", c.max_response_bytes, c),
      AtMostHalfOfArena("--max-batch-bytes", c.max_batch_bytes, c),
      AtMost("--max-request-bytes", c.max_request_bytes, "--memory-quota", c.memory_quota),
      AtMost("--max-response-bytes", c.max_response_bytes, "--memory-quota", c.memory_quota),
      AtMost("--max-request-bytes", c.max_request_bytes, "--max-queued-bytes", c.max_queued_bytes),
      AtMost("--max-request-bytes", c.max_request_bytes, "--max-in-flight-bytes-per-connection",
             EffectiveInFlightBytes(c)),
      AtMost("--max-unread-bytes-per-connection", c.max_unread_bytes_per_connection, "--arena-bytes", c.arena_bytes),
      AtMost("--max-response-bytes", c.max_response_bytes, "--max-unread-bytes", c.max_unread_bytes),
  });
}

absl::Status CheckFiles(const Config& c, std::uint64_t limit) {
  // One that asks for a region has its descriptor, too.
  const std::uint64_t kept =
      kReservedFiles + (IsSet(c.regions_socket) ? c.regions_connections * kFilesPerConnection : 0);
  if (c.max_connections > (std::uint64_t{1} << 32) || c.max_connections * kFilesPerConnection + kept > limit) {
    return Refuse(Count("--max-connections", c.max_connections) + " does not fit under the limit of open files, " +
                  std::to_string(limit) + ": each takes 2, and " + std::to_string(kept) +
                  " are kept for the server and the connections of --regions-socket, so that " +
                  std::to_string((std::max(limit, kept) - kept) / kFilesPerConnection) + " fit (ulimit -Hn)");
  }
  return absl::OkStatus();
}

absl::Status CheckUnixPath(const std::string& text, const std::string& path) {
  if (path.front() != '/') return Refuse(text + ": the path of a unix socket must be absolute");
  if (path.size() >= sizeof(sockaddr_un::sun_path)) {
    return Refuse(text + ": the path of a unix socket has at most " +
                  std::to_string(sizeof(sockaddr_un::sun_path) - 1) + " bytes");
  }
  const auto slash = path.rfind('/');
  const std::string folder = slash == 0 ? "/" : path.substr(0, slash);
  struct stat info {};
  if (stat(folder.c_str(), &info) != 0) return Refuse(text + ": folder " + folder + ": " + std::strerror(errno));
  if (!S_ISDIR(info.st_mode)) return Refuse(text + ": " + folder + " is not a folder");
  if ((info.st_mode & S_IWOTH) != 0 && (info.st_mode & S_ISVTX) == 0) {
    return Refuse(text + ": anybody may replace a socket in " + folder +
                  ", which is writable by all and has no sticky bit");
  }
  return absl::OkStatus();
}

absl::Status CheckSharedFolder(const std::string& folder) {
  if (!IsSet(folder)) return absl::OkStatus();
  const std::string shown = "--oip-shared-memory=" + folder;
  struct stat info {};
  if (stat(folder.c_str(), &info) != 0) return Refuse(shown + ": " + std::strerror(errno));
  return S_ISDIR(info.st_mode) ? absl::OkStatus() : Refuse(shown + ": is not a folder");
}

absl::Status CheckRegions(const Config& c) {
  std::optional<std::vector<std::uint32_t>> uids;
  if (absl::Status status = ParseRegionUids(c.regions_uids, &uids); !status.ok()) return status;
  if (!IsSet(c.regions_socket)) return absl::OkStatus();
  if (c.regions_bytes == 0 && c.regions_device_bytes == 0) {
    return Refuse("--regions-socket=" + c.regions_socket +
                  " has nothing to give: --regions-bytes and --regions-device-bytes are 0");
  }
  if (c.regions_device_bytes > 0 && (c.backend == Backend::kCpu || c.backend == Backend::kNull)) {
    return Refuse(Bytes("--regions-device-bytes", c.regions_device_bytes) +
                  " with --backend=" + BackendName(c.backend) + ", which uses no CUDA device");
  }
  return First({AtMost("--regions-connection-bytes", EffectiveRegionBytes(c), "--regions-bytes", c.regions_bytes),
                AtMost("--regions-device-connection-bytes", EffectiveRegionDeviceBytes(c), "--regions-device-bytes",
                       c.regions_device_bytes)});
}

struct Listener {
  std::string flag_and_value;
  Address address;
};

absl::Status AddUnlessThere(const Listener& listener, std::vector<Listener>* out) {
  for (const Listener& other : *out) {
    const bool same = other.address.host == listener.address.host && other.address.port == listener.address.port &&
                      other.address.unix_path == listener.address.unix_path;
    if (same && (listener.address.port != 0 || listener.address.is_unix())) {
      return Refuse(listener.flag_and_value + " and " + other.flag_and_value + " are the same address");
    }
  }
  out->push_back(listener);
  return absl::OkStatus();
}

absl::Status AddListener(const char* flag, const std::string& text, std::vector<Listener>* out) {
  const std::string shown = std::string(flag) + "=" + text;
  const auto address = ParseAddress(text);
  if (!address.ok()) return Refuse(shown + ": " + std::string(address.status().message()));
  if (address->is_unix()) {
    if (absl::Status status = CheckUnixPath(shown, address->unix_path); !status.ok()) return status;
  }
  return AddUnlessThere({shown, *address}, out);
}

absl::Status CollectListeners(const Config& c, std::vector<Listener>* out) {
  if (c.address.empty()) return Refuse("--address: at least one is needed");
  for (const std::string& text : c.address) {
    if (absl::Status status = AddListener("--address", text, out); !status.ok()) return status;
  }
  if (IsSet(c.health_address)) {
    if (absl::Status status = AddListener("--health-address", c.health_address, out); !status.ok()) return status;
  }
  if (IsSet(c.metrics_address)) {
    if (absl::Status status = AddListener("--metrics-address", c.metrics_address, out); !status.ok()) return status;
    if (out->back().address.is_unix()) return Refuse(out->back().flag_and_value + ": must be host:port, or none");
  }
  if (IsSet(c.regions_socket)) {
    const std::string shown = "--regions-socket=" + c.regions_socket;
    if (absl::Status status = CheckUnixPath(shown, c.regions_socket); !status.ok()) return status;
    Address address;
    address.unix_path = c.regions_socket;
    return AddUnlessThere({shown, address}, out);
  }
  return absl::OkStatus();
}

absl::Status CheckTesting(const Config& c, const std::vector<Listener>& listeners) {
  if (c.backend == Backend::kNull && !c.unsafe_testing) {
    return Refuse("--backend=null answers rubbish and needs --unsafe-testing");
  }
  if (IsSet(c.fault) && !c.unsafe_testing) {
    return Refuse("--fault=" + c.fault + " breaks the server on purpose and needs --unsafe-testing");
  }
  for (const Listener& listener : listeners) {
    if (c.unsafe_testing && !listener.address.is_unix() && !listener.address.IsLoopback()) {
      return Refuse("--unsafe-testing with " + listener.flag_and_value +
                    ": every address must be loopback (127.0.0.1, [::1]), unix: or none");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckBackend(const Config& c) {
  if (!c.devices.empty() && (c.backend == Backend::kCpu || c.backend == Backend::kNull)) {
    return Refuse("--devices=" + FormatOrdinals(c.devices) + " with --backend=" + BackendName(c.backend) +
                  ", which uses no CUDA device");
  }
  return absl::OkStatus();
}

absl::Status CheckReadable(const std::string& flag, const std::string& path, bool secret) {
  if (!IsSet(path)) return absl::OkStatus();
  const std::string shown = flag + "=" + path;
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return Refuse(shown + ": " + std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return Refuse(shown + ": is not a file");
  if (access(path.c_str(), R_OK) != 0) return Refuse(shown + ": " + std::strerror(errno));
  if (const std::string problem = OthersProblem(path, info.st_mode); secret && !problem.empty()) {
    return Refuse(shown + ": " + problem);
  }
  return absl::OkStatus();
}

absl::Status CheckTls(const Config& c) {
  if (IsSet(c.tls_cert) != IsSet(c.tls_key)) {
    return Refuse("--tls-cert=" + c.tls_cert + " and --tls-key=" + c.tls_key +
                  ": a certificate needs its key, and a key its certificate");
  }
  if (IsSet(c.tls_client_ca) && !IsSet(c.tls_cert)) {
    return Refuse("--tls-client-ca=" + c.tls_client_ca +
                  " without --tls-cert and --tls-key: clients show certificates "
                  "only inside TLS");
  }
  if (!IsSet(c.tls_cert)) return absl::OkStatus();
  for (const std::string& text : c.address) {
    const auto address = ParseAddress(text);
    if (address.ok() && !address->is_unix()) return absl::OkStatus();
  }
  return Refuse("--tls-cert=" + c.tls_cert + ": every --address is a unix socket, which does not speak TLS");
}

absl::Status CheckTokens(const Config& c) {
  if (!IsSet(c.token_file) || IsSet(c.tls_cert)) return absl::OkStatus();
  for (const std::string& text : c.address) {
    const auto address = ParseAddress(text);
    if (address.ok() && !address->is_unix() && !address->IsLoopback()) {
      return Refuse("--token-file=" + c.token_file + " with --address=" + text +
                    " and without --tls-cert: tokens would cross the network in the clear");
    }
  }
  return absl::OkStatus();
}

}  // namespace

bool Address::IsLoopback() const {
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  return host == "localhost" || host == "::1";
}

absl::StatusOr<Address> ParseAddress(const std::string& text) {
  constexpr char kWant[] = "want host:port, [v6]:port or unix:/path";
  Address address;
  if (const auto path = UnixPath(text)) {
    if (path->empty()) return absl::InvalidArgumentError(kWant);
    address.unix_path = *path;
    return address;
  }
  const auto pieces = SplitHostPort(text);
  if (!pieces) return absl::InvalidArgumentError(kWant);
  address.host = pieces->host;
  if (pieces->in_brackets) {
    in6_addr v6{};
    if (inet_pton(AF_INET6, address.host.c_str(), &v6) != 1) {
      return absl::InvalidArgumentError("no IPv6 address in the brackets");
    }
  } else if (address.host.find_first_of(":[]/ ") != std::string::npos) {
    return absl::InvalidArgumentError(kWant);
  }
  const auto port = ParsePort(pieces->port);
  if (!port) return absl::InvalidArgumentError("the port must be a number from 0 to 65535");
  address.port = *port;
  return address;
}

std::uint64_t OpenFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  return limit.rlim_max;
}

absl::Status ParseRegionUids(const std::string& text, std::optional<std::vector<std::uint32_t>>* uids) {
  uids->reset();
  if (text == "any") return absl::OkStatus();
  uids->emplace();
  for (const std::string& word : SplitAtCommas(text)) {
    std::uint32_t uid = 0;
    if (word == "own") {
      uid = geteuid();
    } else if (!absl::SimpleAtoi(word, &uid)) {
      return Refuse("--regions-uids=" + text + ": want own, any, or user ids such as 0,1000");
    }
    (*uids)->push_back(uid);
  }
  if (const std::string problem = ListProblem((*uids)->size()); !problem.empty()) {
    return Refuse("--regions-uids " + problem);
  }
  return absl::OkStatus();
}

absl::Status ParseSocketMode(const std::string& text, unsigned* mode) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *mode, 8);
  if (error != std::errc() || end != text.data() + text.size() || *mode > 0777 || (*mode & 0600) != 0600) {
    return Refuse("--unix-socket-mode=" + text + ": expected octal permissions such as 0600, 0660 or 0666");
  }
  return absl::OkStatus();
}

absl::Status CheckSecurity(const Config& config) {
  unsigned mode = 0;
  return First({ParseSocketMode(config.unix_socket_mode, &mode), CheckTls(config), CheckTokens(config),
                CheckReadable("--tls-cert", config.tls_cert, false), CheckReadable("--tls-key", config.tls_key, true),
                CheckReadable("--tls-client-ca", config.tls_client_ca, false),
                CheckReadable("--token-file", config.token_file, true)});
}

absl::Status CheckConfig(const Config& config, std::uint64_t open_file_limit) {
  std::vector<Listener> listeners;
  return First({CheckSizes(config), CheckDurations(config), CheckMemory(config), CheckFiles(config, open_file_limit),
                CheckBackend(config), CheckSharedFolder(config.oip_shared_memory), CheckRegions(config),
                CollectListeners(config, &listeners), CheckTesting(config, listeners), CheckSecurity(config),
                TraceSettingsOf(config).status()});
}

}  // namespace softmax::server

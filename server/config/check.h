#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/config/config.h"

namespace softmax::server {

struct Address {
  std::string host;       // without brackets; empty for a unix socket
  int port = 0;           // 0: any free one
  std::string unix_path;  // empty for TCP

  bool is_unix() const { return !unix_path.empty(); }
  // True for 127.0.0.0/8, ::1 and localhost. Any other name counts as public, whatever it resolves
  // to.
  bool IsLoopback() const;
};

// "host:port", "[v6]:port" or "unix:/path".
absl::StatusOr<Address> ParseAddress(const std::string& text);

// The hard limit of RLIMIT_NOFILE, which the server raises itself to.
std::uint64_t OpenFileLimit();

// Of --regions-uids; nullopt: any. INVALID_ARGUMENT when it is no such list.
absl::Status ParseRegionUids(const std::string& text, std::optional<std::vector<std::uint32_t>>* uids);

// Refuses keys and tokens that do not go together, that others could read, or that would travel in the clear:
// INVALID_ARGUMENT that names the flags and their values. Looks at the files' permissions, not into them.
absl::Status CheckSecurity(const Config& config);

// The permissions of --unix-socket-mode; INVALID_ARGUMENT when they are none.
absl::Status ParseSocketMode(const std::string& text, unsigned* mode);

// Refuses what contradicts itself or is unsafe: INVALID_ARGUMENT that names the flags and their
// values.
absl::Status CheckConfig(const Config& config, std::uint64_t open_file_limit = OpenFileLimit());

}  // namespace softmax::server

#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace softmax::server {

// Why a client of the regions' socket does not get what it asks for.
struct RegionRefusal {
  enum Reason : std::uint8_t {
    kUser,               // not one of --regions-uids
    kConnections,        // as many as may be
    kConnectionBytes,    // the connection's share is given out
    kConnectionRegions,  // as is its number of regions
    kAllBytes,           // everything is
    kNoMemory,           // the system or the driver refused
    kUnavailable,        // the server drains, or has lost a device
    kUnsupported,        // there is no such memory
    kNotFound,           // nor such a region
    kInvalid,            // a field outside its rules
    kMalformed,          // no message at all; ends the connection
  };
  static constexpr std::size_t kReasons = 11;

  Reason reason;
  std::string message;  // names field, value and limit
};

// Of each reason: its name, as the label of metrics has it, and the reply's status.
struct RegionRefusalKind {
  const char* name;
  absl::StatusCode code;
};
inline constexpr RegionRefusalKind kRegionRefusals[RegionRefusal::kReasons] = {
    {"user", absl::StatusCode::kPermissionDenied},
    {"connections", absl::StatusCode::kResourceExhausted},
    {"connection_bytes", absl::StatusCode::kResourceExhausted},
    {"connection_regions", absl::StatusCode::kResourceExhausted},
    {"all_bytes", absl::StatusCode::kResourceExhausted},
    {"no_memory", absl::StatusCode::kResourceExhausted},
    {"unavailable", absl::StatusCode::kUnavailable},
    {"unsupported", absl::StatusCode::kUnimplemented},
    {"not_found", absl::StatusCode::kNotFound},
    {"invalid", absl::StatusCode::kInvalidArgument},
    {"malformed", absl::StatusCode::kInvalidArgument},
};

}  // namespace softmax::server

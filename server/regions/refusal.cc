#include "server/regions/refusal.h"

namespace softmax::server {
namespace {

struct Kind {
  const char* name;
  absl::StatusCode code;
};
constexpr Kind kKinds[RegionRefusal::kReasons] = {
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

}  // namespace

absl::StatusCode CodeOf(RegionRefusal::Reason reason) { return kKinds[reason].code; }
const char* NameOf(RegionRefusal::Reason reason) { return kKinds[reason].name; }

}  // namespace softmax::server

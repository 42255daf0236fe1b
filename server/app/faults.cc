#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <optional>
#include <vector>

#include "server/app/parts.h"
#include "server/config/values.h"

namespace softmax::server {
namespace {

constexpr char kKinds[] =
    "is none of devices:N, error:N[@DEVICE], sticky:N[@DEVICE], hang:N[@DEVICE], late:TIME[@DEVICE], alloc:N, slabs:N, "
    "gather and cuda:CALL:N[:CODE]";
constexpr int kUnknownCudaError = 999;

// These read one item of the list, KIND:VALUE, and say what is wrong with it; empty: nothing.

std::string ParseLaunch(LaunchFault::Kind kind, const std::string& value, Faults* faults) {
  LaunchFault fault;
  fault.kind = kind;
  const std::vector<std::string> parts = absl::StrSplit(value, absl::MaxSplits('@', 1));
  if (parts.size() == 2) {
    std::uint64_t device = 0;
    if (std::string wrong = ParseCount(parts[1], {0, FaultPlan::kMaxDevices - 1}, &device); !wrong.empty())
      return wrong;
    fault.device = static_cast<std::int64_t>(device);
  }
  std::string wrong = kind == LaunchFault::Kind::kLate ? ParseDuration(parts[0], &fault.delay)
                                                       : ParseCount(parts[0], {}, &fault.launch);
  if (wrong.empty()) faults->launches.push_back(fault);
  return wrong;
}

std::string ParseCall(const std::string& value, Faults* faults) {
  const std::vector<std::string> parts = absl::StrSplit(value, ':');
  if (parts.size() < 2 || parts.size() > 3 || parts[0].empty()) return kKinds;
  CallFault fault;
  fault.call = parts[0];
  fault.error = kUnknownCudaError;
  std::string wrong = ParseCount(parts[1], {}, &fault.number);
  if (wrong.empty() && parts.size() == 3) {
    std::uint64_t error = 0;
    wrong = ParseCount(parts[2], {1, 10000}, &error);
    fault.error = static_cast<int>(error);
  }
  if (wrong.empty()) faults->calls.push_back(fault);
  return wrong;
}

std::optional<LaunchFault::Kind> LaunchKind(const std::string& kind) {
  if (kind == "error") return LaunchFault::Kind::kError;
  if (kind == "sticky") return LaunchFault::Kind::kSticky;
  if (kind == "hang") return LaunchFault::Kind::kHang;
  if (kind == "late") return LaunchFault::Kind::kLate;
  return std::nullopt;
}

std::string ParseOne(const std::string& text, Faults* faults) {
  if (text == "gather") {
    faults->gather = true;
    return "";
  }
  const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits(':', 1));
  if (parts.size() != 2) return kKinds;
  const std::string& kind = parts[0];
  const std::string& value = parts[1];
  if (const auto launch = LaunchKind(kind)) return ParseLaunch(*launch, value, faults);
  if (kind == "devices") return ParseCount(value, {1, FaultPlan::kMaxDevices}, &faults->devices);
  if (kind == "alloc") return ParseCount(value, {}, &faults->allocation);
  if (kind == "slabs") return ParseCount(value, {}, &faults->slabs_left);
  if (kind == "cuda") return ParseCall(value, faults);
  return kKinds;
}

}  // namespace

absl::StatusOr<Faults> ParseFaults(const std::string& text) {
  Faults faults;
  if (!IsSet(text)) return faults;
  for (const std::string& item : std::vector<std::string>(absl::StrSplit(text, ','))) {
    if (const std::string wrong = ParseOne(item, &faults); !wrong.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("--fault=", text, ": ", item, ": ", wrong));
    }
  }
  return faults;
}

}  // namespace softmax::server

#include "server/rpc/trace/trace_context.h"

#include <absl/strings/ascii.h>
#include <absl/strings/escaping.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "common/base/traceparent.h"

namespace softmax::server {
namespace {

constexpr std::size_t kMostTraceStateBytes = 512;
constexpr std::size_t kMostTraceStateMembers = 32;

bool IsTraceStateKey(absl::string_view key) {
  const auto allowed = [](char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) || std::strchr("_-*/@", c) != nullptr;
  };
  return !key.empty() && key.size() <= 256 && (absl::ascii_islower(key[0]) || absl::ascii_isdigit(key[0])) &&
         std::all_of(key.begin(), key.end(), allowed) && std::count(key.begin(), key.end(), '@') <= 1;
}

bool IsTraceStateValue(absl::string_view value) {
  const auto allowed = [](char c) { return c >= ' ' && c <= '~' && c != ',' && c != '='; };
  return !value.empty() && value.size() <= 256 && std::all_of(value.begin(), value.end(), allowed);
}

}  // namespace

std::optional<TraceContext> ParseTraceparent(std::string_view value) {
  const std::string_view text = CheckedTraceparent(value);
  if (text.empty()) return std::nullopt;
  TraceContext context;
  const auto read = [&](std::size_t at, auto* id) {
    const std::string bytes = absl::HexStringToBytes({text.data() + at, 2 * id->size()});
    std::copy(bytes.begin(), bytes.end(), id->begin());
  };
  read(kTraceIdAt, &context.place.trace_id);
  read(kParentIdAt, &context.place.span_id);
  context.sampled = (absl::HexStringToBytes({text.data() + kTraceparentLength - 2, 2})[0] & 1) != 0;
  return context;
}

std::string TraceStateOf(const ClientMetadata& metadata) {
  std::string joined;
  const auto [begin, end] = metadata.equal_range("tracestate");
  for (auto it = begin; it != end; ++it) {
    if (joined.size() + it->second.size() > kMostTraceStateBytes) return {};
    joined.append(joined.empty() ? "" : ",").append(it->second.data(), it->second.size());
  }
  std::string kept;
  std::set<absl::string_view> keys;
  for (absl::string_view member : absl::StrSplit(joined, ',')) {
    member = absl::StripAsciiWhitespace(member);
    if (member.empty()) continue;
    const std::size_t equals = member.find('=');
    if (equals == absl::string_view::npos || !IsTraceStateKey(member.substr(0, equals)) ||
        !IsTraceStateValue(member.substr(equals + 1)) || !keys.insert(member.substr(0, equals)).second) {
      return {};
    }
    kept.append(kept.empty() ? "" : ",").append(member.data(), member.size());
  }
  return keys.size() <= kMostTraceStateMembers ? kept : std::string();
}

}  // namespace softmax::server

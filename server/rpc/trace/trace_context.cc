#include "server/rpc/trace/trace_context.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "common/base/traceparent.h"

namespace softmax::server {
namespace {

constexpr std::size_t kMostTraceStateBytes = 512;
constexpr std::size_t kMostTraceStateMembers = 32;

int Digit(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

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
  const auto byte = [&](std::size_t at) { return static_cast<char>(Digit(text[at]) << 4 | Digit(text[at + 1])); };
  for (std::size_t i = 0; i < context.trace_id.size(); ++i) context.trace_id[i] = byte(kTraceIdAt + 2 * i);
  for (std::size_t i = 0; i < context.span_id.size(); ++i) context.span_id[i] = byte(kParentIdAt + 2 * i);
  context.sampled = (Digit(text[kTraceparentLength - 1]) & 1) != 0;
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

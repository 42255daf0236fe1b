#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "server/rpc/security/client_metadata.h"

namespace softmax::server {

using TraceId = std::array<char, 16>;  // bytes
using SpanId = std::array<char, 8>;

struct SpanPlace {
  TraceId trace_id{};
  SpanId span_id{};
};

// A place in somebody's trace, as a traceparent names it.
struct TraceContext {
  SpanPlace place;
  bool sampled = false;
};

// The one value of a key; empty: there is none, or there are several. A `Call` has client_metadata() and perhaps a
// quicker OnlyValue of its own.
template <typename Call>
std::string_view OnlyValue(const Call& call, const char* key) {
  if constexpr (requires { call.OnlyValue(key); }) {
    return call.OnlyValue(key);
  } else {
    const auto& metadata = call.client_metadata();
    if (metadata.count(key) != 1) return {};
    const grpc::string_ref value = metadata.find(key)->second;
    return {value.data(), value.size()};
  }
}

// What a traceparent says. Nothing: it is not valid (CheckedTraceparent).
std::optional<TraceContext> ParseTraceparent(std::string_view value);

// All tracestates of a call as one list. Empty: there is none, or one that is not valid, which W3C has dropped.
std::string TraceStateOf(const ClientMetadata& metadata);

}  // namespace softmax::server

#pragma once

#include <absl/status/status.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "client/softmax_client/connection_pool.h"

// From how gRPC says that an attempt failed to how the library says it. Internal.
namespace softmax::client {

// An attempt that did not end well, as gRPC saw it.
struct Ended {
  const grpc::Status& status;
  const grpc::ClientContext& context;
  const Connection& connection;
};

// In words that say what is wrong, where gRPC's do not: the message of an attempt that is UNAVAILABLE. Where one
// symptom has several causes, all of them.
std::string WhyUnavailable(const std::string& text, const Security& ours);

// The status with the server's address before the message, and in words that say what went wrong where gRPC's do not;
// with the server's advice when to come back, and whether no server has seen the attempt.
// `timeout`: the call's, as the caller gave it.
absl::Status Explain(const ConnectionPool& pool, const Ended& ended, std::optional<std::chrono::nanoseconds> timeout);

// Whether no server has seen the call that failed so: it was not sent, or refused before it was looked at.
bool IsUnseen(const grpc::Status& status);

// When the server of a call that has ended wants to be asked again (grpc-retry-pushback-ms), in milliseconds. Negative:
// not at all.
std::optional<std::int64_t> RetryAdviceIn(const grpc::ClientContext& context);

}  // namespace softmax::client

#pragma once

#include <absl/status/status.h>

#include <chrono>
#include <optional>
#include <string>

#include "client/softmax_client/options.h"
#include "common/base/mutex.h"

namespace softmax::client {

// Which tensors of a request go in messages; the others lie in regions.
struct Travelling {
  bool input = true;
  bool output = true;
};

// Of the whole answer to this input.
std::uint64_t AnswerBytes(const TensorView& input, DataType output_dtype);

// What the client has learnt from GetServerInfo, to refuse with a clear message, before they are sent, requests that
// the server does not take. Thread-safe. No gRPC here.
class KnownServer {
 public:
  using Clock = std::chrono::steady_clock;

  void Learn(const std::string& address, const ServerInfo& info, Clock::time_point now);
  // There is a server that does not say.
  void CannotTell();

  // What is known against this request. Nothing: the server has to be asked first, which is worth a round trip for
  // large tensors, and before refusing one for what was learnt long ago.
  std::optional<absl::Status> CheckLimits(const TensorView& input, const SoftmaxOptions& options, Clock::time_point now,
                                          const Travelling& travelling = {}) const;

 private:
  absl::Status Check(const TensorView& input, const SoftmaxOptions& options, const Travelling& travelling) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable Mutex mu_;
  bool cannot_tell_ ABSL_GUARDED_BY(mu_) = false;
  std::string address_ ABSL_GUARDED_BY(mu_);
  std::optional<ServerInfo> info_ ABSL_GUARDED_BY(mu_);
  Clock::time_point learnt_ ABSL_GUARDED_BY(mu_);
};

}  // namespace softmax::client

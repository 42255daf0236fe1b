#pragma once

#include <absl/status/status.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "client/softmax_client/options.h"

// When to try again. No gRPC here, and no clock: times are passed in.
namespace softmax::client {

// What is left for retries, shared by all calls of a client (the "retry throttling" of gRFC A6). Thread-safe.
class RetryBudget {
 public:
  explicit RetryBudget(const RetryOptions& options);

  void OnSuccess();
  // Takes the failure's token. Whether there is enough left to try again.
  bool OnFailure();
  double tokens() const { return static_cast<double>(thousandths_.load(std::memory_order_relaxed)) / 1000; }

 private:
  const std::int64_t max_;
  const std::int64_t per_success_;
  std::atomic<std::int64_t> thousandths_;
};

// How one attempt went wrong.
struct AttemptFailure {
  absl::StatusCode code = absl::StatusCode::kUnknown;
  // The server's advice when to come back; negative: not at all.
  std::optional<std::int64_t> pushback_ms;
  // The attempt found no server to talk to, and the caller would rather wait for one.
  bool waits_for_server = false;
};

// What no server has seen is sent again, however few attempts a call may have: it met a connection that was being
// closed. It counts as no attempt and takes nothing from the budget. One for each call; not thread-safe.
class Resends {
 public:
  // After an attempt that no server has seen: how long to wait before it is sent again. Nothing: that has been done too
  // often, and it is a failure like others. `random` is evenly distributed in [0, 1).
  std::optional<std::chrono::nanoseconds> Next(double random);

 private:
  int count_ = 0;
};

// The attempts of one call. Not thread-safe.
class RetryPlan {
 public:
  using Clock = std::chrono::steady_clock;

  // The options and the budget outlive it.
  RetryPlan(const RetryOptions& options, RetryBudget& budget, Clock::time_point deadline)
      : options_(options), budget_(budget), deadline_(deadline) {}

  // After an attempt that failed: how long to wait before the next. Nothing: that was the last.
  // `random` is evenly distributed in [0, 1).
  std::optional<std::chrono::nanoseconds> NextDelay(const AttemptFailure& failure, Clock::time_point now,
                                                    double random);

  // Counts attempts anew, as for another call with the same deadline.
  void Restart() { attempts_ = counted_ = backoffs_ = 0; }

  // The last attempt's status with the number of attempts, if there were several.
  absl::Status WithAttemptCount(const absl::Status& status) const;

  int attempts() const { return attempts_; }     // that have failed
  bool throttled() const { return throttled_; }  // the budget forbade the one that would have come

 private:
  std::chrono::nanoseconds Backoff(double random);

  const RetryOptions& options_;
  RetryBudget& budget_;
  const Clock::time_point deadline_;
  int attempts_ = 0;
  int counted_ = 0;   // attempts that reached a server
  int backoffs_ = 0;  // since the server last gave advice
  bool throttled_ = false;
};

// The server's advice, carried by the status of a failed attempt. Negative: do not come back.
void SetRetryAdvice(std::int64_t ms, absl::Status* status);
std::optional<std::int64_t> RetryAdviceOf(const absl::Status& status);

// That no server has seen a failed attempt, carried by its status.
void SetUnseen(absl::Status* status);
bool IsUnseen(const absl::Status& status);

// The same code and advice, other words.
absl::Status Reworded(const absl::Status& status, std::string_view message);

// Evenly distributed in [0, 1); a generator for each thread.
double RandomFraction();

}  // namespace softmax::client

#include "client/softmax_client/retry.h"

#include <absl/strings/cord.h>
#include <absl/strings/numbers.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

#include "client/softmax_client/softmax_client.h"

namespace softmax::client {
namespace {

// Keys of a status's payloads.
constexpr char kAdvice[] = "softmax.retry_after_ms";
constexpr char kUnseen[] = "softmax.unseen";
// At a connection that closes a second time is rare; more often, something in between refuses everything.
constexpr int kMostResends = 10;
constexpr std::chrono::nanoseconds kLongestBeforeResend = std::chrono::milliseconds(10);
// Who waits for a server asks for it at least so often: a connection attempt costs little.
constexpr std::chrono::nanoseconds kLongestWaitForServer = std::chrono::milliseconds(100);

bool MayRetry(const AttemptFailure& failure) {
  if (failure.pushback_ms && *failure.pushback_ms < 0) return false;
  if (failure.code == absl::StatusCode::kUnavailable) return true;
  return failure.code == absl::StatusCode::kResourceExhausted && failure.pushback_ms;
}

}  // namespace

RetryBudget::RetryBudget(const RetryOptions& options)
    : max_(std::llround(options.max_tokens * 1000)),
      per_success_(std::llround(options.token_ratio * 1000)),
      thousandths_(max_) {}

void RetryBudget::OnSuccess() {
  std::int64_t now = thousandths_.load(std::memory_order_relaxed);
  // Nearly always full: then nothing is written, and threads do not fight for the cache line.
  while (now < max_ &&
         !thousandths_.compare_exchange_weak(now, std::min(max_, now + per_success_), std::memory_order_relaxed)) {
  }
}

bool RetryBudget::OnFailure() {
  std::int64_t now = thousandths_.load(std::memory_order_relaxed);
  std::int64_t next = 0;
  do {
    next = std::max<std::int64_t>(0, now - 1000);
  } while (!thousandths_.compare_exchange_weak(now, next, std::memory_order_relaxed));
  return next > max_ / 2;
}

std::optional<std::chrono::nanoseconds> Resends::Next(double random) {
  if (++count_ > kMostResends) return std::nullopt;
  if (count_ == 1) return std::chrono::nanoseconds(0);
  return std::chrono::nanoseconds(
      static_cast<std::int64_t>(static_cast<double>(kLongestBeforeResend.count()) * random));
}

std::optional<std::chrono::nanoseconds> RetryPlan::NextDelay(const AttemptFailure& failure, Clock::time_point now,
                                                             double random) {
  ++attempts_;
  if (!MayRetry(failure)) return std::nullopt;
  std::chrono::nanoseconds delay{};
  if (failure.waits_for_server) {
    delay = std::min(Backoff(random), kLongestWaitForServer);
  } else {
    const bool affordable = budget_.OnFailure();
    if (++counted_ >= options_.max_attempts) return std::nullopt;
    if (!affordable) {
      throttled_ = true;
      return std::nullopt;
    }
    if (failure.pushback_ms) {
      // More than a day is past every deadline.
      delay = std::chrono::milliseconds(std::min<std::int64_t>(*failure.pushback_ms, 86400000));
      backoffs_ = 0;
    } else {
      delay = Backoff(random);
    }
  }
  if (deadline_ - now <= delay) return std::nullopt;
  return delay;
}

absl::Status RetryPlan::WithAttemptCount(const absl::Status& status) const {
  if (attempts_ <= 1) return status;
  return Reworded(status, std::string(status.message()) + " (after " + std::to_string(attempts_) + " attempts" +
                              (throttled_ ? ", no budget for more)" : ")"));
}

std::chrono::nanoseconds RetryPlan::Backoff(double random) {
  const double most = static_cast<double>(std::chrono::nanoseconds(options_.max_backoff).count());
  const double initial = static_cast<double>(std::chrono::nanoseconds(options_.initial_backoff).count());
  const double window = std::min(most, initial * std::pow(options_.multiplier, backoffs_));
  ++backoffs_;
  return std::chrono::nanoseconds(static_cast<std::int64_t>(window * random));
}

void SetRetryAdvice(std::int64_t ms, absl::Status* status) {
  status->SetPayload(kAdvice, absl::Cord(std::to_string(ms)));
}

std::optional<std::int64_t> RetryAdviceOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kAdvice);
  std::int64_t ms = 0;
  if (!payload || !absl::SimpleAtoi(std::string(*payload), &ms)) return std::nullopt;
  return ms;
}

void SetUnseen(absl::Status* status) { status->SetPayload(kUnseen, absl::Cord()); }

bool IsUnseen(const absl::Status& status) { return status.GetPayload(kUnseen).has_value(); }

absl::Status Reworded(const absl::Status& status, std::string_view message) {
  absl::Status reworded(status.code(), absl::string_view(message.data(), message.size()));
  if (const auto payload = status.GetPayload(kAdvice)) reworded.SetPayload(kAdvice, *payload);
  return reworded;
}

std::optional<std::chrono::milliseconds> RetryAfter(const absl::Status& status) {
  const auto ms = RetryAdviceOf(status);
  if (!ms || *ms < 0) return std::nullopt;
  return std::chrono::milliseconds(*ms);
}

double RandomFraction() {
  thread_local std::minstd_rand generator(std::random_device{}());
  return std::uniform_real_distribution<double>(0, 1)(generator);
}

}  // namespace softmax::client

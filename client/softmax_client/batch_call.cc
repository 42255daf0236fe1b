#include <algorithm>
#include <stop_token>
#include <utility>

#include "client/softmax_client/request.h"
#include "client/softmax_client/stream.h"
#include "common/base/mutex.h"

namespace softmax::client {
namespace {

constexpr std::chrono::milliseconds kQuestionPatience(500);

// The rounds of one batch: each opens a stream, sends what has no final answer yet, and waits. Lives on the caller's
// thread; OnAnswer runs on the callback thread.
class BatchCall {
 public:
  BatchCall(ClientCore& core, CallbackQueue& queue, std::span<const BatchItem> items, const BatchOptions& options)
      : core_(core),
        queue_(queue),
        items_(items),
        options_(options),
        timeout_(options.timeout.value_or(core.options.deadline)),
        deadline_(RetryPlan::Clock::now() + timeout_),
        results_(items.size()) {}

  std::vector<absl::StatusOr<Tensor>> Run() {
    CheckItems();
    while (!open_.empty()) {
      const Connection connection = core_.pool.Next(last_address_);
      last_address_ = connection.address;
      RunRound(connection);
      const auto delay = EndRound();
      if (!delay) {
        for (const std::size_t i : open_) results_[i] = plan_.WithAttemptCount(results_[i].status());
        break;
      }
      Wait(*delay);
    }
    for (const std::size_t i : sent_) core_.counters.CallEnded(results_[i].status().code(), plan_.throttled());
    return std::move(results_);
  }

 private:
  // What is wrong in itself keeps its status and is not sent.
  void CheckItems() {
    bool asked = false;
    for (std::size_t i = 0; i < items_.size(); ++i) {
      absl::Status status = CheckRequest(items_[i].input, items_[i].options, core_.regions);
      if (status.ok()) {
        auto known = KnownLimits(i);
        const auto patience =
            std::min<std::chrono::nanoseconds>(kQuestionPatience, deadline_ - RetryPlan::Clock::now());
        if (!known && !std::exchange(asked, true) && core_.AskServer(patience, {.max_attempts = 1}).ok()) {
          known = KnownLimits(i);
        }
        status = known.value_or(absl::OkStatus());
      }
      if (status.ok()) {
        open_.push_back(i);
      } else {
        results_[i] = status;
      }
    }
    sent_ = open_;
  }

  std::optional<absl::Status> KnownLimits(std::size_t i) const {
    return core_.server.CheckLimits(items_[i].input, items_[i].options, RetryPlan::Clock::now(),
                                    Callers(i).travelling());
  }

  Placement Callers(std::size_t i) const { return CallersPlacement(core_.regions, items_[i].input, items_[i].options); }

  void RunRound(const Connection& connection) {
    StreamOptions stream_options{options_.max_in_flight, options_.max_requests_per_message,
                                 deadline_ - RetryPlan::Clock::now(), options_.trace};
    const auto opened =
        MakeStream(core_, connection, queue_, stream_options, [this](std::uint64_t id, absl::StatusOr<Tensor> answer) {
          OnAnswer(static_cast<std::size_t>(id), std::move(answer));
        });
    if (!opened.ok()) {
      for (const std::size_t i : open_) results_[i] = opened.status();
      return;
    }
    const std::unique_ptr<Stream>& stream = *opened;
    const std::stop_callback cancel(options_.cancel, [&stream] { stream->Cancel(); });
    std::vector<std::size_t> refused;
    for (const std::size_t i : open_) {
      if (!refused.empty()) {
        refused.push_back(i);
        continue;
      }
      AwaitRoom();
      SoftmaxOptions request = items_[i].options;
      request.timeout.reset();
      if (stream->Send(i, items_[i].input, request).ok()) continue;
      refused.push_back(i);  // the stream has broken
      Returned();
    }
    const absl::Status ended = stream->Finish();
    for (const std::size_t i : refused) {
      results_[i] =
          ended.ok() ? absl::UnavailableError(core_.pool.AddressOf(connection) + ": the stream has ended") : ended;
    }
  }

  void AwaitRoom() {
    MutexLock lock(mu_);
    while (in_flight_ >= options_.max_in_flight) room_.wait(mu_);
    ++in_flight_;
  }

  void Returned() {
    MutexLock lock(mu_);
    --in_flight_;
    room_.notify_one();
  }

  void OnAnswer(std::size_t i, absl::StatusOr<Tensor> answer) {
    results_[i] = std::move(answer);
    Returned();
  }

  // How long to wait before the next round, for what is left in open_; nothing: there is none.
  std::optional<std::chrono::nanoseconds> EndRound() {
    const bool unseen =
        std::all_of(open_.begin(), open_.end(), [&](std::size_t i) { return IsUnseen(results_[i].status()); });
    if (unseen) {
      if (const auto delay = resends_.Next(RandomFraction())) return delay;
    }
    std::vector<std::size_t> left;
    absl::StatusCode code = absl::StatusCode::kUnknown;
    std::optional<std::int64_t> pushback_ms;
    bool progress = false;
    for (const std::size_t i : open_) {
      const absl::Status status = WithAttemptCount(i);
      core_.counters.AttemptEnded(status.code(), round_ > 0);
      if (status.ok()) core_.budget.OnSuccess();
      progress = progress || status.ok();
      const auto advice = RetryAdviceOf(status);
      const bool again = (!advice || *advice >= 0) &&
                         (status.code() == absl::StatusCode::kUnavailable ||
                          (status.code() == absl::StatusCode::kResourceExhausted && advice)) &&
                         Callers(i).MayRepeat(status);
      if (!again) continue;
      left.push_back(i);
      code = status.code();
      if (advice) pushback_ms = std::max(*advice, pushback_ms.value_or(0));
    }
    ++round_;
    open_ = std::move(left);
    if (open_.empty()) return std::nullopt;
    if (progress) plan_.Restart();
    return plan_.NextDelay(core_.FailureOf(code, pushback_ms), RetryPlan::Clock::now(), RandomFraction());
  }

  // The item's status, in the words of a call that the caller has cancelled if so.
  absl::Status WithAttemptCount(std::size_t i) {
    if (results_[i].status().code() == absl::StatusCode::kCancelled && options_.cancel.stop_requested()) {
      results_[i] = absl::CancelledError(core_.options.target + ": cancelled by the caller");
    }
    return results_[i].status();
  }

  void Wait(std::chrono::nanoseconds time) {
    if (PauseInGrpc(time, options_.cancel)) return;
    // What was refused before waits no longer.
    for (const std::size_t i : open_) {
      results_[i] = absl::CancelledError(core_.options.target + ": cancelled by the caller");
    }
    open_.clear();
  }

  ClientCore& core_;
  CallbackQueue& queue_;
  const std::span<const BatchItem> items_;
  const BatchOptions& options_;
  const std::chrono::nanoseconds timeout_;
  const RetryPlan::Clock::time_point deadline_;
  RetryPlan plan_{core_.options.retry, core_.budget, deadline_};
  Resends resends_;
  std::size_t last_address_ = kAvoidNone;
  std::vector<std::size_t> sent_;  // items that were sent at least once
  std::vector<std::size_t> open_;  // items of this round, in order
  int round_ = 0;
  // Written on the callback thread while a stream is open, read after its end.
  std::vector<absl::StatusOr<Tensor>> results_;

  Mutex mu_;
  ConditionVariable room_;
  std::size_t in_flight_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace

std::vector<absl::StatusOr<Tensor>> RunBatch(ClientCore& core, CallbackQueue& queue, std::span<const BatchItem> items,
                                             const BatchOptions& options) {
  BatchCall call(core, queue, items, options);
  return call.Run();
}

}  // namespace softmax::client

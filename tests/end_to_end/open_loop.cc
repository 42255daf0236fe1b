#include "tests/end_to_end/open_loop.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tests/support/eventually.h"

namespace softmax::testing {
namespace {

constexpr std::size_t kQuestions = 60;
constexpr std::size_t kBatchItems = 16;

}  // namespace

bool IsClear(const absl::Status& status) {
  const bool known =
      absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsResourceExhausted(status);
  return known && !status.message().empty();
}

OpenLoop::OpenLoop(const OpenLoopOptions& options) : options_(options) {
  for (std::size_t i = 0; i < kQuestions; ++i) {
    // Most are small; some have up to 80 KB, so that faults meet messages of several frames.
    asked_.push_back({RandomQuestion(options.seed * 1000 + i, i % 10 == 0 ? 20000 : 300), {}});
  }
  absl::StatusOr<std::unique_ptr<client::Client>> client = client::Client::Create(options.client);
  if (!client.ok()) std::abort();  // only the test's own slip
  client_ = std::move(*client);
  pacer_ = std::jthread([this] { Pace(); });
  if (options.batch_every.count() > 0) batcher_ = std::jthread([this] { SendBatches(); });
}

OpenLoop::~OpenLoop() { Stop(); }

OpenLoop::Clock::duration OpenLoop::MustEndWithin() const {
  if (options_.must_end_within.count() > 0) return options_.must_end_within;
  return std::chrono::duration_cast<Clock::duration>(options_.client.deadline) + kGrace;
}

void OpenLoop::Pace() {
  const auto gap = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(1 / options_.rate));
  Clock::time_point due = Clock::now();
  for (std::size_t i = 0; !stop_; ++i, due += gap) {
    LetPass(due - Clock::now());
    Call(i % asked_.size(), due);
  }
}

void OpenLoop::Call(std::size_t asked, Clock::time_point due) {
  {
    const std::lock_guard lock(mu_);
    if (counts_.started - counts_.ended >= options_.max_in_flight) {
      ++counts_.held_back;
      return;
    }
    ++counts_.started;
  }
  const Question& question = asked_[asked].question;
  client_->SoftmaxAsync(
      question.view(), question.options(),
      [this, asked, due](const absl::StatusOr<client::Tensor>& answer) { Ended(asked, due, answer); });
}

void OpenLoop::SendBatches() {
  for (std::uint64_t number = 0; !stop_; ++number) {
    LetPass(options_.batch_every);
    if (!stop_) Batch(number);
  }
}

void OpenLoop::Batch(std::uint64_t number) {
  std::vector<std::size_t> chosen;
  std::vector<client::BatchItem> items;
  for (std::size_t i = 0; i < kBatchItems; ++i) {
    chosen.push_back((number * kBatchItems + i) % asked_.size());
    items.push_back({asked_[chosen.back()].question.view(), asked_[chosen.back()].question.options()});
  }
  Started(items.size());
  const Clock::time_point due = Clock::now();
  const std::vector<absl::StatusOr<client::Tensor>> answers =
      client_->SoftmaxBatch(items, {.cancel = cancel_batch_.get_token()});
  for (std::size_t i = 0; i < answers.size(); ++i) Ended(chosen[i], due, answers[i]);
}

void OpenLoop::Started(std::uint64_t calls) {
  const std::lock_guard lock(mu_);
  counts_.started += calls;
}

void OpenLoop::Ended(std::size_t asked, Clock::time_point due, const absl::StatusOr<client::Tensor>& answer) {
  const Clock::duration took = Clock::now() - due;
  const std::lock_guard lock(mu_);
  ++counts_.ended;
  counts_.longest = std::max<std::chrono::nanoseconds>(counts_.longest, took);
  if (took > MustEndWithin()) {
    ++counts_.overdue;
    Bad(absl::StrCat("ended after ", took / std::chrono::milliseconds(1), " ms: ", answer.status().ToString()));
  }
  if (answer.ok()) {
    ++counts_.ok;
    if (const std::string problem = Judge(asked_[asked], answer->data()); !problem.empty()) {
      ++counts_.wrong;
      Bad("wrong: " + problem);
    }
    return;
  }
  ++counts_.failed[absl::StatusCodeToString(answer.status().code())];
  if (!IsClear(answer.status())) {
    ++counts_.unclear;
    Bad("unclear: " + answer.status().ToString());
  }
}

std::string OpenLoop::Judge(Asked& asked, std::span<const std::byte> answer) {
  if (asked.answer.empty()) {
    const kernels::Judgement judgement = JudgeAnswer(asked.question, answer);
    if (!judgement.ok) return judgement.message;
    asked.answer.assign(answer.begin(), answer.end());
    return "";
  }
  const bool same =
      answer.size() == asked.answer.size() && std::memcmp(answer.data(), asked.answer.data(), answer.size()) == 0;
  return same ? "" : "not the bits of the answer before";
}

void OpenLoop::Bad(const std::string& what) {
  if (counts_.first_bad.empty()) counts_.first_bad = what;
}

void OpenLoop::Stop() {
  stop_ = true;
  if (pacer_.joinable()) pacer_.join();
  AwaitEnds();
  cancel_batch_.request_stop();
  if (batcher_.joinable()) batcher_.join();
}

void OpenLoop::AwaitEnds() {
  const auto all_ended = [this] {
    const std::lock_guard lock(mu_);
    return counts_.started == counts_.ended;
  };
  Eventually(all_ended, MustEndWithin());
}

OpenLoopCounts OpenLoop::Look() {
  const std::lock_guard lock(mu_);
  OpenLoopCounts counts = counts_;
  counts_.longest = std::chrono::nanoseconds(0);
  return counts;
}

}  // namespace softmax::testing

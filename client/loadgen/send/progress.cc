#include "client/loadgen/send/progress.h"

#include <absl/strings/str_format.h>
#include <unistd.h>

#include <array>
#include <cstdio>

#include "client/loadgen/measure/run_result.h"

namespace softmax::client {
namespace {

std::uint64_t AnswersOn(const Board& board) {
  std::uint64_t answers = 0;
  board.EachThread([&](const ThreadTally& t) { answers += t.answers.load(std::memory_order_relaxed); });
  return answers;
}

}  // namespace

ProgressLine::ProgressLine(std::string run_name) : on_(isatty(STDERR_FILENO) != 0), run_name_(std::move(run_name)) {}

ProgressLine::~ProgressLine() {
  if (on_) std::fprintf(stderr, "\r\033[K");
}

void ProgressLine::Update(const Board& board) {
  constexpr std::int64_t kSecond = 1000000000;
  const std::int64_t now = NowNs();
  if (!on_ || now - last_ns_ < kSecond) return;
  const std::uint64_t answers = AnswersOn(board);
  const double rate =
      last_ns_ == 0 ? 0 : static_cast<double>(answers - last_answers_) * 1e9 / static_cast<double>(now - last_ns_);
  std::fprintf(stderr, "\r\033[K%s  %s", run_name_.c_str(), ProgressText(board, now, rate).c_str());
  std::fflush(stderr);
  last_ns_ = now;
  last_answers_ = answers;
}

std::string ProgressText(const Board& board, std::int64_t now_ns, double per_second) {
  std::array<std::uint64_t, kCodes> errors = {};
  std::uint64_t dropped = 0;
  board.EachThread([&](const ThreadTally& thread) {
    for (std::size_t c = 0; c < kCodes; ++c) {
      errors[c] += thread.errors[c].load(std::memory_order_relaxed);
      errors[c] += thread.warmup_errors[c].load(std::memory_order_relaxed);
    }
    dropped += thread.dropped_full.load(std::memory_order_relaxed);
  });
  const std::int64_t start = board.control().start_ns.load();
  const bool warming = now_ns < start;
  const std::int64_t since = warming ? board.control().go_ns.load() : start;
  std::string text = absl::StrFormat("%s %.1f s  %.0f requests/s", warming ? "warm-up" : "running",
                                     static_cast<double>(now_ns - since) / 1e9, per_second);
  if (dropped > 0) absl::StrAppendFormat(&text, "  dropped %d", dropped);
  bool any = false;
  for (int code = 0; code < kCodes; ++code) {
    if (errors[static_cast<std::size_t>(code)] == 0) continue;
    any = true;
    absl::StrAppendFormat(&text, "  %s %d", CodeName(code), errors[static_cast<std::size_t>(code)]);
  }
  return any ? text : text + "  no errors";
}

}  // namespace softmax::client

#include "client/loadgen/send/run.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "client/base/program.h"
#include "client/loadgen/measure/machine.h"
#include "client/loadgen/scrape/server_metrics.h"
#include "client/loadgen/send/sender_processes.h"

namespace softmax::client {
namespace {

constexpr std::int64_t kStableWindowNs = 500000000;
// A window that begins is announced so long before, so that every sender has seen it in time.
constexpr std::int64_t kAnnounceNs = 100000000;
// Processes that wait for their start look that often at least.
constexpr double kAnnounceStartS = 0.02;
constexpr std::int64_t kMinStretchNs = 100000000;
constexpr std::int64_t kStretches = 60;
constexpr std::chrono::milliseconds kMetricsTimeout(500);

volatile sig_atomic_t g_interrupted = 0;

void OnInterrupt(int /*signal*/) { g_interrupted = 1; }

// The parent takes time from the senders where cores are few.
void Pause() { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }

// Waits until every process has its connections.
RunEnd WaitForConnections(const LoadOptions& options, const Board& board, SenderProcesses& processes) {
  for (;;) {
    int connected = 0;
    for (int p = 0; p < options.processes; ++p) {
      const ProcessState state = board.process(p).state.load();
      if (state == ProcessState::kUnreachable) {
        Say(board.process(p).failure.Get());
        return RunEnd::kUnreachable;
      }
      if (state == ProcessState::kConnected) ++connected;
    }
    if (connected == options.processes) return RunEnd::kMeasured;
    if (Interrupted()) return RunEnd::kStopped;
    processes.Running();
    if (processes.lacking()) return RunEnd::kUnavailable;
    if (processes.failed()) {
      Say("a sending process ended before it was connected");
      return RunEnd::kFailed;
    }
    Pause();
  }
}

// Waits for --start-at. kFailed: that was said.
RunEnd WaitForStart(const LoadOptions& options) {
  const auto past_s = [&] { return ClockSeconds() - options.start_at_s; };
  while (past_s() < -kAnnounceStartS) {
    if (Interrupted()) return RunEnd::kStopped;
    Pause();
  }
  const double late_s = past_s() - static_cast<double>(options.warmup.count()) / 1e9;
  if (options.start_at_s == 0 || late_s <= 0) return RunEnd::kMeasured;
  Say(absl::StrCat("--start-at: the connections were there ", late_s,
                   " s after the window had begun; give it a later time, or a longer --warmup"));
  return RunEnd::kFailed;
}

// What is read at both ends of the window: CPU times, and what the server says of itself.
class WindowEnds {
 public:
  explicit WindowEnds(const LoadOptions& options) : options_(options) {}

  void Begin() {
    server_before_ = CpuSecondsOf(options_.server_pids);
    machine_before_ = ReadMachineTimes();
    metrics_before_ = FetchAll();
  }

  void End(double seconds, RunResult* result) const {
    if (!options_.server_pids.empty() && seconds > 0) {
      result->server_cores = (CpuSecondsOf(options_.server_pids) - server_before_) / seconds;
    }
    const std::optional<MachineTimes> after = ReadMachineTimes();
    if (machine_before_ && after && after->total > machine_before_->total) {
      result->machine_busy = (after->busy - machine_before_->busy) / (after->total - machine_before_->total);
    }
    if (!options_.server_metrics.empty()) AddServers(result);
  }

 private:
  using Snapshots = std::vector<absl::StatusOr<MetricsSnapshot>>;

  Snapshots FetchAll() const {
    Snapshots all;
    for (const std::string& address : options_.server_metrics) all.push_back(FetchMetrics(address, kMetricsTimeout));
    return all;
  }

  void AddServers(RunResult* result) const {
    const Snapshots all_after = FetchAll();
    std::vector<MetricsSnapshot> before;
    std::vector<MetricsSnapshot> after;
    std::vector<std::string> each;
    for (std::size_t i = 0; i < all_after.size(); ++i) {
      const absl::Status& status = metrics_before_[i].ok() ? all_after[i].status() : metrics_before_[i].status();
      if (!status.ok()) {
        absl::StrAppend(&result->server_unknown, result->server_unknown.empty() ? "" : "; ", status.message());
        continue;
      }
      before.push_back(*metrics_before_[i]);
      after.push_back(*all_after[i]);
      each.push_back(ServerDeltaText(before.back(), after.back()));
    }
    if (!after.empty()) result->server.text = ServerDeltaText(Together(before), Together(after));
    if (all_after.size() > 1) result->servers.text = absl::StrCat("[", absl::StrJoin(each, ","), "]");
  }

  const LoadOptions& options_;
  double server_before_ = 0;
  std::optional<MachineTimes> machine_before_;
  Snapshots metrics_before_;
};

// Rewrites one line on a terminal about once a second; where standard error is none, nothing is written.
class ProgressLine {
 public:
  explicit ProgressLine(std::string run_name) : run_name_(std::move(run_name)) {}
  ~ProgressLine() {
    if (on_) std::fprintf(stderr, "\r\033[K");
  }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void Update(const Board& board) {
    constexpr std::int64_t kSecond = 1000000000;
    const std::int64_t now = NowNs();
    if (!on_ || now - last_ns_ < kSecond) return;
    std::uint64_t answers = 0;
    board.EachThread([&](const ThreadTally& t) { answers += t.answers.load(std::memory_order_relaxed); });
    const double rate =
        last_ns_ == 0 ? 0 : static_cast<double>(answers - last_answers_) * 1e9 / static_cast<double>(now - last_ns_);
    std::fprintf(stderr, "\r\033[K%s  %s", run_name_.c_str(), ProgressText(board, now, rate).c_str());
    std::fflush(stderr);
    last_ns_ = now;
    last_answers_ = answers;
  }

 private:
  const bool on_ = isatty(STDERR_FILENO) != 0;
  const std::string run_name_;
  std::int64_t last_ns_ = 0;
  std::uint64_t last_answers_ = 0;
};

// Directs one run from the parent: sets the window's borders, reads the board at times, hears Ctrl-C.
class Director {
 public:
  Director(const std::string& name, const LoadOptions& options, const Board& board, SenderProcesses& processes)
      : options_(options),
        board_(board),
        control_(board.control()),
        processes_(processes),
        progress_(name),
        reader_(board),
        ends_(options) {}

  // Returns when all processes have ended. What only the parent sees of the run goes into `result`.
  void Run(RunResult* result) {
    Go();
    while (processes_.Running()) {
      const std::int64_t now = NowNs();
      if (Interrupted() && now < control_.end_ns.load()) {
        result->interrupted = true;
        control_.end_ns.store(now);
      }
      if (control_.start_ns.load() == kNever) WatchWarmup(now, result);
      WatchWindow(now, result);
      progress_.Update(board_);
      Pause();
    }
    // The processes may all have ended before this one, on a busy machine, had a look again.
    if (began_) {
      WatchWindow(std::max(NowNs(), control_.end_ns.load()), result);
    } else if (!options_.server_metrics.empty()) {
      result->server_unknown = "the window passed before this process could read them; the machine is too busy";
    }
  }

 private:
  void Go() {
    std::int64_t now = NowNs();
    // Also where that is past: the schedule is the same on all machines, and what is sent late counts as late.
    if (options_.start_at_s > 0) now += std::llround((options_.start_at_s - ClockSeconds()) * 1e9);
    const std::int64_t start = options_.stable_within > 0 ? kNever : now + options_.warmup.count();
    control_.end_ns.store(start == kNever ? kNever : start + options_.duration.count());
    control_.start_ns.store(start);
    control_.go_ns.store(now);
    next_stretch_ns_ = now + kStableWindowNs;
  }

  // The window begins when the last stretches of the warm-up agree, or when that takes too long.
  void WatchWarmup(std::int64_t now, RunResult* result) {
    if (now < next_stretch_ns_ || control_.end_ns.load() != kNever) return;
    next_stretch_ns_ += kStableWindowNs;
    const std::int64_t elapsed = now - control_.go_ns.load();
    warmup_.push_back(reader_.Read(static_cast<double>(elapsed) / 1e9));
    const bool stable = elapsed >= options_.warmup.count() && LastAgree(warmup_, options_.stable_within);
    if (!stable && elapsed < options_.max_warmup.count()) return;
    result->warmup_stable = stable;
    const std::int64_t start = now + kAnnounceNs;
    control_.end_ns.store(start + options_.duration.count());
    control_.start_ns.store(start);
  }

  void WatchWindow(std::int64_t now, RunResult* result) {
    const std::int64_t start = control_.start_ns.load();
    const std::int64_t end = control_.end_ns.load();
    if (now < start || ended_) return;
    const auto seconds = [&](std::int64_t ns) { return static_cast<double>(ns - start) / 1e9; };
    const std::int64_t stretch = std::max(kMinStretchNs, options_.duration.count() / kStretches);
    if (!began_) {
      began_ = true;
      result->began_s = ClockSeconds() - seconds(now);
      result->clock_ms = ClockErrorMs().value_or(kUnknown);
      ends_.Begin();
      reader_.Read(0);
      next_stretch_ns_ = start + stretch;
    }
    if (now >= end) {
      ended_ = true;
      ends_.End(seconds(end), result);
    }
    // A last stretch that is much shorter than the others would look like a dip.
    if (now < next_stretch_ns_ && !(ended_ && next_stretch_ns_ - now < stretch / 2)) return;
    result->timeline.push_back(reader_.Read(seconds(now)));
    while (next_stretch_ns_ <= now) next_stretch_ns_ += stretch;
  }

  const LoadOptions& options_;
  const Board& board_;
  Control& control_;
  SenderProcesses& processes_;
  ProgressLine progress_;
  TimelineReader reader_;
  WindowEnds ends_;
  std::vector<TimelinePoint> warmup_;
  std::int64_t next_stretch_ns_ = 0;
  bool began_ = false;
  bool ended_ = false;
};

}  // namespace

void CatchInterrupts() {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGINT, OnInterrupt);
  signal(SIGTERM, OnInterrupt);
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

bool Interrupted() { return g_interrupted != 0; }

RunEnd RunOnce(const std::string& name, const LoadOptions& options, const Workload& workload, RunResult* result) {
  const auto board =
      Board::Create(options.processes, options.threads, workload.classes().size(), options.addresses.size());
  SenderProcesses processes;
  if (board == nullptr || !processes.Start(options, workload, *board)) {
    Say(absl::StrCat(options.processes,
                     " sending processes and what they share cannot be had: ", std::strerror(errno)));
    return RunEnd::kUnavailable;
  }
  const RunEnd connected = WaitForConnections(options, *board, processes);
  if (connected != RunEnd::kMeasured) return connected;
  const RunEnd due = WaitForStart(options);
  if (due != RunEnd::kMeasured) return due;
  *result = RunResult();
  result->name = name;
  Director(name, options, *board, processes).Run(result);
  ReadBoard(options, workload, *board, result);
  result->complete = !processes.failed();
  Judge(result);
  return RunEnd::kMeasured;
}

}  // namespace softmax::client

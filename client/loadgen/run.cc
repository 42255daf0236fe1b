#include "client/loadgen/run.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "client/loadgen/board.h"
#include "client/loadgen/process.h"
#include "client/loadgen/report.h"
#include "client/loadgen/workload.h"

namespace softmax::client {
namespace {

volatile sig_atomic_t g_interrupted = 0;

void OnInterrupt(int /*signal*/) { g_interrupted = 1; }

void Pause() { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }

// The children forked here, each waited for once.
class Children {
 public:
  // In the child this does not return.
  bool Start(const LoadOptions& options, const Workload& workload, const Board& board) {
    std::fflush(nullptr);
    for (int p = 0; p < options.processes; ++p) {
      const pid_t parent = getpid();
      const pid_t pid = fork();
      if (pid < 0) return false;
      if (pid == 0) {
        // The parent alone decides about Ctrl-C; no child outlives it.
        signal(SIGINT, SIG_IGN);
        signal(SIGTERM, SIG_IGN);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(1);
        RunSendingProcess(options, workload, board, p);
        _exit(0);
      }
      pids_.push_back(pid);
    }
    return true;
  }

  // Looks who has ended. True while any runs.
  bool Running() {
    for (pid_t& pid : pids_) {
      int status = 0;
      if (pid == 0 || waitpid(pid, &status, WNOHANG) != pid) continue;
      pid = 0;
      if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) failed_ = true;
    }
    return std::any_of(pids_.begin(), pids_.end(), [](pid_t pid) { return pid != 0; });
  }

  void Kill() {
    for (const pid_t pid : pids_) {
      if (pid != 0) kill(pid, SIGKILL);
    }
    while (Running()) Pause();
  }

  bool failed() const { return failed_; }

 private:
  std::vector<pid_t> pids_;
  bool failed_ = false;
};

// User and system time of a process in seconds, from /proc; nothing when it is not there.
std::optional<double> CpuSecondsOf(int pid) {
  std::FILE* file = std::fopen(("/proc/" + std::to_string(pid) + "/stat").c_str(), "r");
  if (file == nullptr) return std::nullopt;
  char text[1024];
  const std::size_t size = std::fread(text, 1, sizeof(text) - 1, file);
  std::fclose(file);
  text[size] = 0;
  const char* after_name = std::strrchr(text, ')');  // the name may hold anything
  unsigned long user = 0;
  unsigned long system = 0;
  if (after_name == nullptr ||
      std::sscanf(after_name + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2) {
    return std::nullopt;
  }
  return static_cast<double>(user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double ServerCpuSeconds(const LoadOptions& options) {
  double seconds = 0;
  for (const int pid : options.server_pids) seconds += CpuSecondsOf(pid).value_or(0);
  return seconds;
}

enum class Start { kReady, kUnreachable, kLost, kInterrupted };

// Waits until every process has its connections.
Start WaitForConnections(const LoadOptions& options, const Board& board, Children& children) {
  for (;;) {
    int connected = 0;
    for (int p = 0; p < options.processes; ++p) {
      const ProcessState state = board.process(p).state.load();
      if (state == ProcessState::kUnreachable) {
        std::fprintf(stderr, "softmax-loadgen: %s\n", board.process(p).failure.Get());
        return Start::kUnreachable;
      }
      if (state == ProcessState::kConnected) ++connected;
    }
    if (connected == options.processes) return Start::kReady;
    if (g_interrupted) return Start::kInterrupted;
    children.Running();
    if (children.failed()) return Start::kLost;
    Pause();
  }
}

// Rewrites one line on a terminal about once a second; elsewhere nothing.
class ProgressLine {
 public:
  ProgressLine() : on_(isatty(STDERR_FILENO) != 0) {}
  ~ProgressLine() {
    if (on_) std::fprintf(stderr, "\r\033[K");
  }

  void Update(const LoadOptions& options, const Board& board) {
    const std::int64_t now = NowNs();
    if (!on_ || now - last_ns_ < 1000000000) return;
    std::uint64_t answers = 0;
    std::uint64_t errors = 0;
    for (int p = 0; p < options.processes; ++p) {
      for (int t = 0; t < options.threads; ++t) {
        answers += board.thread(p, t).answers.load(std::memory_order_relaxed);
        for (const auto& count : board.thread(p, t).errors) {
          errors += count.load(std::memory_order_relaxed);
        }
      }
    }
    const std::int64_t start = board.control().start_ns.load();
    const double elapsed = static_cast<double>(now - start) / 1e9;
    const double rate =
        last_ns_ == 0 ? 0 : static_cast<double>(answers - last_answers_) * 1e9 / static_cast<double>(now - last_ns_);
    std::fprintf(stderr, "\r\033[K%s %6.1f s  %.0f requests/s  %lu errors", elapsed < 0 ? "warm-up" : "running",
                 elapsed, rate, static_cast<unsigned long>(errors));
    std::fflush(stderr);
    last_ns_ = now;
    last_answers_ = answers;
  }

 private:
  const bool on_;
  std::int64_t last_ns_ = 0;
  std::uint64_t last_answers_ = 0;
};

// Lets the load run. Returns the CPU seconds that the server used in the window.
double Measure(const LoadOptions& options, const Board& board, Children& children, bool* interrupted) {
  Control& control = board.control();
  const std::int64_t start = NowNs() + options.warmup.count();
  control.end_ns.store(start + options.duration.count());
  control.start_ns.store(start);
  std::optional<double> server_before;
  std::optional<double> server_after;
  ProgressLine progress;
  while (children.Running()) {
    const std::int64_t now = NowNs();
    if (g_interrupted && now < control.end_ns.load()) {
      *interrupted = true;
      control.end_ns.store(now);
    }
    if (!server_before && now >= start) server_before = ServerCpuSeconds(options);
    if (!server_after && now >= control.end_ns.load()) server_after = ServerCpuSeconds(options);
    progress.Update(options, board);
    Pause();
  }
  return server_before && server_after ? *server_after - *server_before : 0;
}

// False: the file could not be written, and that was said.
bool WriteText(const std::string& path, const std::string& text, const char* mode) {
  std::FILE* file = path == "-" ? stdout : std::fopen(path.c_str(), mode);
  if (file == nullptr) {
    std::fprintf(stderr, "softmax-loadgen: cannot write %s: %s\n", path.c_str(), std::strerror(errno));
    return false;
  }
  bool good = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  good = (file == stdout ? std::fflush(file) : std::fclose(file)) == 0 && good;
  if (!good) std::fprintf(stderr, "softmax-loadgen: cannot write all of %s\n", path.c_str());
  return good;
}

bool WriteReport(const LoadOptions& options, const Report& report) {
  bool good = true;
  // Where the figures go to standard output for a program, the table makes room for them.
  const bool taken = options.json_path == "-" || options.csv_path == "-";
  std::fputs(ReportTable(options, report).c_str(), taken ? stderr : stdout);
  std::fflush(nullptr);
  if (!options.json_path.empty()) {
    good = WriteText(options.json_path, ReportJson(options, report), "w") && good;
  }
  if (!options.csv_path.empty()) {
    struct stat info {};
    const bool fresh = options.csv_path == "-" || stat(options.csv_path.c_str(), &info) != 0 || info.st_size == 0;
    good = WriteText(options.csv_path, ReportCsv(options, report, fresh), "a") && good;
  }
  return good;
}

}  // namespace

int RunLoad(const LoadOptions& options) {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGINT, OnInterrupt);
  signal(SIGTERM, OnInterrupt);
  const Workload workload = Workload::Build(options);
  const auto board = Board::Create(options.processes, options.threads, options.shapes.size());
  Children children;
  if (board == nullptr || !children.Start(options, workload, *board)) {
    std::fprintf(stderr, "softmax-loadgen: cannot start: %s\n", std::strerror(errno));
    children.Kill();
    return 1;
  }
  const Start start = WaitForConnections(options, *board, children);
  if (start != Start::kReady) {
    children.Kill();
    return start == Start::kUnreachable ? 3 : 1;
  }
  bool interrupted = false;
  const double server_seconds = Measure(options, *board, children, &interrupted);
  Report report = MakeReport(options, *board);
  report.interrupted = interrupted;
  report.lost_process = children.failed();
  if (!options.server_pids.empty() && report.seconds > 0) {
    report.server_cores = server_seconds / report.seconds;
  }
  const bool written = WriteReport(options, report);
  const int code = ExitCodeFor(options, report);
  return code == 0 && !written ? 1 : code;
}

}  // namespace softmax::client

#include "kernels/bench/bench.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <set>

#include "kernels/bench/cpu/cpu_runner.h"
#include "kernels/bench/cuda/device_runner.h"
#include "kernels/bench/cuda/host_runner.h"
#include "kernels/bench/results.h"
#include "kernels/bench/suite.h"

namespace softmax::kernels::bench {
namespace {

constexpr int kPointFailed = 1;
constexpr int kWrongUsage = 2;
constexpr int kPointsLeft = 3;

// A bar on a terminal, nothing elsewhere.
class Progress {
 public:
  explicit Progress(std::size_t total) : total_(total), shown_(isatty(STDERR_FILENO) != 0) {}
  ~Progress() { Clear(); }

  void Show(std::size_t done, const Point& point) const {
    if (!shown_) return;
    constexpr int kWidth = 30;
    const int filled = static_cast<int>(done * kWidth / total_);
    std::fprintf(stderr, "\r\033[K[%.*s%*s] %zu/%zu %s", filled, "##############################", kWidth - filled, "",
                 done, total_, Describe(point).c_str());
  }
  void Clear() const {
    if (shown_) std::fputs("\r\033[K", stderr);
  }

 private:
  const std::size_t total_;
  const bool shown_;
};

// The runners, each made when its first point comes.
class Runners {
 public:
  explicit Runners(const RunSettings& settings) : settings_(settings) {}

  // Null, and the reason, for a point that cannot be run here.
  Runner* For(const Point& point, std::string* reason) {
    if (point.section.rfind("cpu", 0) == 0)
      return Get(&cpu_, reason, [this](auto*) { return MakeCpuRunner(settings_); });
    if (point.section.rfind("host_", 0) == 0) {
      return Get(&host_, reason, [this](auto* why) { return MakeHostRunner(settings_, why); });
    }
    return Get(&device_, reason, [this](auto* why) { return MakeDeviceRunner(settings_, why); });
  }

  std::string Device() const {
    for (const Made* made : {&device_, &host_, &cpu_}) {
      if (made->runner != nullptr) return made->runner->device();
    }
    return "";
  }

 private:
  struct Made {
    bool tried = false;
    std::unique_ptr<Runner> runner;
    std::string reason;
  };

  template <typename Make>
  Runner* Get(Made* made, std::string* reason, const Make& make) {
    if (!made->tried) made->runner = make(&made->reason);
    made->tried = true;
    *reason = made->reason;
    return made->runner.get();
  }

  const RunSettings settings_;
  Made cpu_;
  Made device_;
  Made host_;
};

class Bench {
 public:
  explicit Bench(const Options& options) : options_(options), runners_(options.run), progress_(options.points.size()) {}

  int Run();

 private:
  // False: the time is over.
  bool Measure(const Point& point);
  void Keep(const Result& result);

  double Seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

  const Options& options_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  Runners runners_;
  Progress progress_;
  ResultFile file_;
  std::vector<Result> results_;
  std::size_t failed_ = 0;
};

void Bench::Keep(const Result& result) {
  if (!result.error.empty()) {
    ++failed_;
    progress_.Clear();
    std::fprintf(stderr, "softmax-kernel-bench: %s: %s\n", Key(result.point, result.provider).c_str(),
                 result.error.c_str());
  }
  file_.Add(result);
  results_.push_back(result);
}

bool Bench::Measure(const Point& point) {
  std::vector<std::string> missing;
  for (const std::string& provider : options_.providers) {
    if (!file_.Has(point, provider)) missing.push_back(provider);
  }
  if (missing.empty()) return true;
  if (options_.max_seconds > 0 && Seconds() >= options_.max_seconds) return false;
  std::string reason;
  Runner* const runner = runners_.For(point, &reason);
  if (runner == nullptr) {
    for (const std::string& provider : missing) Keep({point, provider, 0, 0, 0, 0, "", reason});
    return true;
  }
  std::vector<std::string> offered;
  for (const std::string& provider : missing) {
    if (runner->Offers(point, provider)) offered.push_back(provider);
  }
  if (offered.empty()) return true;
  for (const Result& result : runner->Measure(point, offered)) Keep(result);
  return true;
}

int Bench::Run() {
  if (const std::string problem = file_.Open(options_.csv, options_.resume); !problem.empty()) {
    std::fprintf(stderr, "softmax-kernel-bench: --csv: %s\n", problem.c_str());
    return kWrongUsage;
  }
  std::size_t left = 0;
  for (std::size_t i = 0; i < options_.points.size(); ++i) {
    progress_.Show(i, options_.points[i]);
    if (!Measure(options_.points[i])) ++left;
  }
  progress_.Clear();
  if (!options_.json.empty()) {
    if (const std::string problem = WriteJson(options_.json, runners_.Device(), results_); !problem.empty()) {
      std::fprintf(stderr, "softmax-kernel-bench: --json: %s\n", problem.c_str());
      return kPointFailed;
    }
  }
  std::fprintf(stderr, "softmax-kernel-bench: %zu results in %.1f s, %zu failed, %zu points left; %s\n",
               results_.size(), Seconds(), failed_, left, runners_.Device().c_str());
  if (failed_ > 0) return kPointFailed;
  return left > 0 ? kPointsLeft : 0;
}

}  // namespace

int RunBench(const Options& options) {
  if (options.list) {
    for (const Point& point : options.points) std::printf("%s\n", Describe(point).c_str());
    return 0;
  }
  return Bench(options).Run();
}

}  // namespace softmax::kernels::bench

#include "kernels/bench/cpu/cpu_runner.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>

#include "kernels/bench/check.h"
#include "kernels/bench/cpu/onednn/onednn.h"
#include "kernels/bench/cpu/pin.h"
#include "kernels/bench/cpu/thread_pool.h"
#include "kernels/cpu/softmax_cpu.h"
#include "kernels/reference.h"

namespace softmax::kernels::bench {
namespace {

constexpr char kOneDnn[] = "onednn";
constexpr std::size_t kPage = 4096;
constexpr double kSampleUs = 500;       // calls are repeated until one sample is about as long
constexpr std::int64_t kRowGroup = 16;  // what threads divide among them, see kernels/cpu/softmax_cpu.h

struct Free {
  void operator()(char* memory) const { std::free(memory); }
};
using Buffer = std::unique_ptr<char, Free>;

Buffer Allocate(std::size_t bytes) {
  const std::size_t rounded = (bytes + kPage - 1) / kPage * kPage;
  return Buffer(static_cast<char*>(std::aligned_alloc(kPage, rounded)));
}

struct Slice {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// The part of `count` things that a thread takes, in multiples of `unit`.
Slice SliceOf(std::int64_t count, std::int64_t unit, int thread, int threads) {
  const std::int64_t units = (count + unit - 1) / unit;
  return {std::min(count, units * thread / threads * unit), std::min(count, units * (thread + 1) / threads * unit)};
}

struct Candidate {
  std::string provider;
  std::function<void()> run;
  std::string error;
  int repeats = 1;
  std::vector<double> us;
};

double TimeUs(const Candidate& candidate, int repeats) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < repeats; ++i) candidate.run();
  const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - start;
  return taken.count() / repeats;
}

// The same when candidates have several threads: those of another look for more work for some milliseconds after its
// last call (oneDNN's OpenMP threads), and hold a core meanwhile.
double SettledTimeUs(const Candidate& candidate, int repeats) {
  constexpr std::chrono::milliseconds kUntilSettled(25);
  const auto end = std::chrono::steady_clock::now() + kUntilSettled;
  while (std::chrono::steady_clock::now() < end) candidate.run();
  return TimeUs(candidate, repeats);
}

class CpuRunner final : public Runner {
 public:
  explicit CpuRunner(const RunSettings& settings) : settings_(settings), single_(1), all_(settings.threads) {
    PinToCore(0);
  }

  bool Offers(const Point& point, const std::string& provider) const override {
    if (provider == kOneDnn) {
      const bool type = !point.mixed() && (point.dtype == DataType::kFloat32 || point.dtype == DataType::kBFloat16);
      return OneDnn::Available() && point.plain() && type;
    }
    return (provider == kOurs || provider == kCopy) && point.segments == 1 && !point.ragged() && point.top_k == 0 &&
           !point.masked();
  }

  std::vector<Result> Measure(const Point& point, const std::vector<std::string>& providers) override;

  std::string device() const override { return "CPU, " + cpu::TargetName(); }

 private:
  std::string Fill(const Point& point);
  Candidate Make(const Point& point, const std::string& provider);
  Candidate Checked(const Point& point, Candidate candidate);

  ThreadPool* PoolOf(const Point& point) { return point.section == "cpu_1" ? &single_ : &all_; }

  const RunSettings settings_;
  ThreadPool single_;
  ThreadPool all_;
  Buffer input_;
  Buffer output_;
};

// Random values over some stretch, repeated: a kernel's time does not depend on them.
std::string CpuRunner::Fill(const Point& point) {
  const std::int64_t elements = SpanElements(point, settings_.seed);
  const auto size = static_cast<std::int64_t>(SizeOf(point.dtype));
  // Where the types differ in size, the copy needs more of one than the kernel.
  const std::size_t bytes =
      static_cast<std::size_t>(elements) * std::max(SizeOf(point.dtype), SizeOf(point.output_dtype));
  input_ = Allocate(bytes);
  output_ = Allocate(bytes);
  if (input_ == nullptr || output_ == nullptr) return "out of memory";
  const std::int64_t drawn = std::min<std::int64_t>(elements, 999983);
  std::mt19937_64 random(settings_.seed);
  std::normal_distribution<double> normal;
  for (std::int64_t i = 0; i < drawn; ++i) StoreElement(point.dtype, input_.get(), i, normal(random));
  for (std::int64_t done = drawn; done < elements; done += drawn) {
    std::memcpy(input_.get() + done * size, input_.get(),
                static_cast<std::size_t>(std::min(drawn, elements - done) * size));
  }
  std::memset(output_.get(), 0xff, bytes);
  return "";
}

Candidate CpuRunner::Make(const Point& point, const std::string& provider) {
  Candidate candidate{provider, {}, "", 1, {}};
  ThreadPool* const pool = PoolOf(point);
  const int threads = pool->threads();
  if (provider == kOneDnn) {
    std::shared_ptr<OneDnn> onednn = OneDnn::Create(point, threads, &candidate.error);
    candidate.run = [this, onednn] { onednn->Run(input_.get(), output_.get()); };
  } else if (provider == kCopy) {
    // As many bytes as the kernel moves, half of them read.
    const std::int64_t bytes =
        point.rows * point.cols * static_cast<std::int64_t>(SizeOf(point.dtype) + SizeOf(point.output_dtype)) / 2;
    candidate.run = [this, pool, threads, bytes] {
      pool->Run([&](int thread) {
        const Slice slice = SliceOf(bytes, 64, thread, threads);
        std::memcpy(output_.get() + slice.begin, input_.get() + slice.begin,
                    static_cast<std::size_t>(slice.end - slice.begin));
      });
    };
  } else {
    const Segment segment = MakeSegments(point, settings_.seed, input_.get(), output_.get()).front();
    candidate.run = [point, pool, threads, segment] {
      pool->Run([&](int thread) {
        const Slice rows = SliceOf(point.rows, point.inner > 1 ? kRowGroup : 1, thread, threads);
        cpu::Softmax(point.dtype, point.output_dtype, segment, rows.begin, rows.end);
      });
    };
  }
  return candidate.error.empty() ? Checked(point, std::move(candidate)) : candidate;
}

Candidate CpuRunner::Checked(const Point& point, Candidate candidate) {
  std::memset(output_.get(), 0xff,
              static_cast<std::size_t>(SpanElements(point, settings_.seed)) * SizeOf(point.output_dtype));
  candidate.run();
  if (candidate.provider != kCopy) {
    const Segment segment = MakeSegments(point, settings_.seed, input_.get(), output_.get()).front();
    const Strictness strictness = candidate.provider == kOurs ? Strictness::kBounds : Strictness::kRough;
    candidate.error = Check(point.dtype, point.output_dtype, segment, strictness, FetchFromHost);
  }
  // The first calls are slower: libraries prepare themselves, pages and caches are cold.
  double us = TimeUs(candidate, 1);
  for (int i = 0; i < 2; ++i) us = std::min(us, TimeUs(candidate, 1));
  candidate.repeats = std::clamp(static_cast<int>(std::lround(kSampleUs / us)), 1, 10000);
  return candidate;
}

std::vector<Result> CpuRunner::Measure(const Point& point, const std::vector<std::string>& providers) {
  const std::string problem = Fill(point);
  // The copy comes first: it is the ceiling of the others.
  std::vector<Candidate> candidates;
  if (problem.empty()) candidates.push_back(Make(point, kCopy));
  for (const std::string& provider : providers) {
    if (!problem.empty()) {
      candidates.push_back({provider, {}, problem, 1, {}});
    } else if (provider != kCopy) {
      candidates.push_back(Make(point, provider));
    }
  }
  const auto time = PoolOf(point)->threads() > 1 ? SettledTimeUs : TimeUs;
  for (int i = 0; i < settings_.samples; ++i) {
    for (Candidate& candidate : candidates) {
      if (candidate.error.empty()) candidate.us.push_back(time(candidate, candidate.repeats));
    }
  }
  const double bytes = static_cast<double>(point.rows * point.cols) *
                       static_cast<double>(SizeOf(point.dtype) + SizeOf(point.output_dtype));
  const auto gbps = [bytes](const Candidate& candidate) { return bytes / Median(candidate.us) / 1e3; };
  std::vector<Result> results;
  for (const Candidate& candidate : candidates) {
    if (std::find(providers.begin(), providers.end(), candidate.provider) == providers.end()) continue;
    Result result{
        point,          candidate.provider, 0, 0, 0, settings_.samples, "wall" + std::to_string(candidate.repeats),
        candidate.error};
    if (candidate.error.empty()) {
      result.us = Median(candidate.us);
      result.gbps = gbps(candidate);
      result.ceiling_gbps = gbps(candidates.front());
    }
    results.push_back(result);
  }
  return results;
}

}  // namespace

std::unique_ptr<Runner> MakeCpuRunner(const RunSettings& settings) { return std::make_unique<CpuRunner>(settings); }

}  // namespace softmax::kernels::bench

#include "kernels/bench/cuda/device_runner.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "kernels/bench/check.h"
#include "kernels/bench/cuda/cudnn.h"
#include "kernels/bench/cuda/device_name.h"
#include "kernels/bench/cuda/fill.h"
#include "kernels/bench/cuda/references.h"
#include "kernels/bench/cuda/sampling.h"

namespace softmax::kernels::bench {
namespace {

constexpr std::size_t kAlignment = 256;
// A launch that takes longer is timed by itself: beside it the cost of two events does not show. As in
// lab/kernels/kernel_peers_torch.py, whose peers have to be timed alike.
constexpr double kLongUs = 400;
constexpr double kGraphUs = 800;        // what a graph of short launches is to take
constexpr double kSlowInGraphUs = 400;  // a slow provider of a short point
constexpr int kMostLaunches = 64;

std::size_t RoundUp(std::size_t value, std::size_t unit) { return (value + unit - 1) / unit * unit; }

void FetchFromDevice(void* target, const void* source, std::size_t pitch, std::size_t width, std::size_t height) {
  // A pitch has a largest value; a single stretch needs none.
  CudaCheck(height == 1 ? cudaMemcpy(target, source, width, cudaMemcpyDeviceToHost)
                        : cudaMemcpy2D(target, width, source, pitch, width, height, cudaMemcpyDeviceToHost),
            "fetching the results");
}

SummarySegment MakeSummary(const Point& point, const Segment& rows, char* answers) {
  const AnswerLayout layout = AnswerLayoutOf(point);
  SummarySegment summary;
  summary.rows = rows;
  summary.top_k = point.top_k;
  summary.top_values = answers + layout.top_values;
  summary.top_indices = reinterpret_cast<std::int32_t*>(answers + layout.top_indices);
  summary.log_sum_exp = answers + layout.log_sum_exp;
  summary.maximum = answers + layout.maximum;
  return summary;
}

class DeviceRunner final : public Runner {
 public:
  explicit DeviceRunner(const RunSettings& settings) : settings_(settings), sampler_(stream_) {
    copy_ = MakeCopy();
    providers_.push_back(MakeOurs());
    for (Provider& provider : MakeReferences()) providers_.push_back(std::move(provider));
  }

  bool Offers(const Point& point, const std::string& provider) const override {
    if (provider == kCopy) return true;
    if (provider == kCudnn) return Cudnn().offers && Cudnn().offers(point);
    const auto found = Find(provider);
    return found != nullptr && found->offers(point);
  }

  std::vector<Result> Measure(const Point& point, const std::vector<std::string>& providers) override;

  std::string device() const override { return DeviceName(); }

 private:
  const Provider* Find(const std::string& name) const;
  const Provider& Cudnn() const;
  void Prepare(const Point& point);
  void MakeSlots(const Point& point, std::size_t count);
  Candidate Choose(const Provider& provider);
  std::string CheckOnce(const Provider& provider, const Launch& launch);
  void PlanGraphs(const Point& point, std::vector<Candidate>& candidates);
  void Capture(Candidate& candidate, std::size_t launches);
  void Time(const Point& point, std::vector<Candidate>& candidates);

  const RunSettings settings_;
  Stream stream_;
  Sampler sampler_;
  Provider copy_;
  std::vector<Provider> providers_;
  mutable std::unique_ptr<Provider> cudnn_;  // loaded when it is first asked for
  Memory input_{Memory::Where::kDevice};
  Memory output_{Memory::Where::kDevice};
  Memory lengths_{Memory::Where::kDevice};  // of the point's rows, for all slots; empty without them
  DataType filled_with_ = DataType::kFloat32;
  std::size_t input_span_bytes_ = 0;
  std::size_t output_span_bytes_ = 0;
  std::size_t input_bytes_ = 0;  // without gaps
  std::size_t output_bytes_ = 0;
  std::vector<Slot> slots_;
  bool flush_ = false;
};

const Provider* DeviceRunner::Find(const std::string& name) const {
  for (const Provider& provider : providers_) {
    if (provider.name == name) return &provider;
  }
  return name == kCudnn ? &Cudnn() : nullptr;
}

const Provider& DeviceRunner::Cudnn() const {
  if (cudnn_ == nullptr) {
    std::string reason;
    cudnn_ = std::make_unique<Provider>(MakeCudnn(settings_.cudnn, &reason));
    if (!reason.empty()) std::fprintf(stderr, "softmax-kernel-bench: cudnn is left out: %s\n", reason.c_str());
  }
  return *cudnn_;
}

// The tensors of `count` slots, filled.
void DeviceRunner::MakeSlots(const Point& point, std::size_t count) {
  const std::size_t input_pitch = RoundUp(input_span_bytes_, kAlignment);
  const std::size_t output_pitch = RoundUp(output_span_bytes_, kAlignment);
  const bool fresh = input_.Reserve(input_pitch * count);
  output_.Reserve(output_pitch * count);
  if (fresh || filled_with_ != point.dtype) {
    CudaCheck(LaunchFill(point.dtype, input_.data(), input_.bytes(), settings_.seed, stream_.get()), "fill");
    filled_with_ = point.dtype;
  }
  slots_.clear();
  for (std::size_t i = 0; i < count; ++i) {
    char* const output = output_.data() + i * output_pitch;
    Slot slot{i, point.dtype, point.output_dtype, {}, {}, input_bytes_, output_bytes_};
    slot.segments = MakeSegments(point, settings_.seed, input_.data() + i * input_pitch, output);
    if (point.masked()) slot.segments.front().lengths = reinterpret_cast<const std::uint32_t*>(lengths_.data());
    if (point.top_k > 0) slot.summary = MakeSummary(point, slot.segments.front(), output);
    slots_.push_back(std::move(slot));
  }
}

std::string DeviceRunner::CheckOnce(const Provider& provider, const Launch& launch) {
  const Slot& slot = slots_.front();
  CudaCheck(cudaMemsetAsync(slot.segments.front().output, 0xff, output_span_bytes_, stream_.get()), "poison");
  CudaCheck(launch(slot, stream_.get()), "launch");
  stream_.Synchronize();
  if (slot.summary.top_k > 0) return CheckSummary(slot.dtype, slot.output_dtype, slot.summary, FetchFromDevice);
  const std::size_t last = slot.segments.size() - 1;
  for (const std::size_t i : std::set<std::size_t>{0, last / 2, last}) {
    std::string problem = Check(slot.dtype, slot.output_dtype, slot.segments[i], provider.strictness, FetchFromDevice);
    if (!problem.empty()) return problem;
  }
  return "";
}

// The fastest form, after a look at what it computes.
Candidate DeviceRunner::Choose(const Provider& provider) {
  Candidate candidate;
  candidate.provider = provider.name;
  try {
    for (const Launch& form : provider.forms) {
      const cudaError_t error = form(slots_.front(), stream_.get());
      if (error == cudaErrorNotSupported) continue;
      CudaCheck(error, "launch");
      stream_.Synchronize();
      const double us = sampler_.Trial(form, slots_.front());
      if (candidate.launch == nullptr || us < candidate.trial_us) {
        candidate.trial_us = us;
        candidate.launch = form;
      }
    }
    if (candidate.launch == nullptr) throw std::runtime_error("no form of it can run this shape");
    if (provider.name != kCopy) candidate.error = CheckOnce(provider, candidate.launch);
  } catch (const std::exception& failure) {
    candidate.error = failure.what();
  }
  return candidate;
}

// Decides what is timed by events and what in graphs, and how many slots the caches need to be of no use.
void DeviceRunner::PlanGraphs(const Point& point, std::vector<Candidate>& candidates) {
  const double copy_us = candidates.front().trial_us;
  // A batch of many segments takes the host longer to launch than the device to run, so it is always replayed.
  const bool short_launches = copy_us <= kLongUs;
  const bool batch = slots_.front().segments.size() > 1;
  const bool graphs = short_launches || batch;
  const auto launches = static_cast<std::size_t>(std::clamp(std::lround(kGraphUs / copy_us), 1L, long{kMostLaunches}));
  const std::size_t cold_slots = sampler_.cold_bytes() / (input_bytes_ + output_bytes_) + 1;
  const std::size_t slots = graphs ? std::min(launches, cold_slots) : cold_slots;
  flush_ = slots < cold_slots;
  MakeSlots(point, slots);
  for (Candidate& candidate : candidates) {
    const bool alone = short_launches && !batch && candidate.trial_us > kSlowInGraphUs;
    if (candidate.error.empty() && graphs && !alone) Capture(candidate, launches);
  }
}

void DeviceRunner::Capture(Candidate& candidate, std::size_t launches) {
  try {
    // What a first launch over a slot allocates cannot be allocated within a capture.
    for (const Slot& slot : slots_) CudaCheck(candidate.launch(slot, stream_.get()), "launch");
    stream_.Synchronize();
    candidate.launches = static_cast<int>(launches);
    candidate.graph = std::make_unique<Graph>(stream_, [&] {
      for (std::size_t i = 0; i < launches; ++i) {
        CudaCheck(candidate.launch(slots_[i % slots_.size()], stream_.get()), "launch");
      }
    });
  } catch (const std::exception& failure) {
    candidate.error = failure.what();
  }
}

void DeviceRunner::Time(const Point& point, std::vector<Candidate>& candidates) {
  try {
    const std::string& copy_error = candidates.front().error;
    if (copy_error.empty()) PlanGraphs(point, candidates);
    if (!copy_error.empty()) throw std::runtime_error("the copy failed: " + copy_error);
    sampler_.Sample(candidates, slots_, settings_.samples, flush_);
  } catch (const std::exception& failure) {
    for (Candidate& candidate : candidates) {
      if (candidate.error.empty()) candidate.error = failure.what();
    }
  }
}

void DeviceRunner::Prepare(const Point& point) {
  const auto span = static_cast<std::size_t>(SpanElements(point, settings_.seed));
  const auto payload = static_cast<std::size_t>(PayloadElements(point, settings_.seed));
  input_span_bytes_ = span * SizeOf(point.dtype);
  output_span_bytes_ = span * SizeOf(point.output_dtype);
  input_bytes_ = payload * SizeOf(point.dtype);
  output_bytes_ = payload * SizeOf(point.output_dtype);
  if (point.top_k > 0) {
    output_span_bytes_ = AnswerLayoutOf(point).bytes;
    output_bytes_ = 0;
  }
  if (point.masked()) {
    const std::vector<std::uint32_t> lengths = MakeLengths(point, settings_.seed);
    const std::size_t bytes = lengths.size() * sizeof(std::uint32_t);
    lengths_.Reserve(bytes);
    CudaCheck(cudaMemcpy(lengths_.data(), lengths.data(), bytes, cudaMemcpyHostToDevice), "lengths");
  }
  MakeSlots(point, 1);
}

std::vector<Result> DeviceRunner::Measure(const Point& point, const std::vector<std::string>& providers) {
  std::vector<Candidate> candidates(1);
  try {
    Prepare(point);
    candidates.front() = Choose(copy_);
    for (const std::string& name : providers) {
      if (name != kCopy) candidates.push_back(Choose(*Find(name)));
    }
    Time(point, candidates);
  } catch (const std::exception& failure) {
    candidates.clear();
    for (const std::string& name : providers) {
      candidates.emplace_back();
      candidates.back().provider = name;
      candidates.back().error = failure.what();
    }
  }
  const auto gbps = [this](const Candidate& candidate) {
    return static_cast<double>(input_bytes_ + output_bytes_) / Median(candidate.us) / 1e3;
  };
  std::vector<Result> results;
  for (const Candidate& candidate : candidates) {
    if (std::find(providers.begin(), providers.end(), candidate.provider) == providers.end()) continue;
    Result result{point, candidate.provider, 0, 0, 0, settings_.samples, candidate.mode(), candidate.error};
    if (candidate.error.empty()) {
      result.us = Median(candidate.us);
      result.gbps = gbps(candidate);
      result.ceiling_gbps = gbps(candidates.front());
    }
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace

std::unique_ptr<Runner> MakeDeviceRunner(const RunSettings& settings, std::string* reason) {
  try {
    return std::make_unique<DeviceRunner>(settings);
  } catch (const std::exception& failure) {
    *reason = failure.what();
    return nullptr;
  }
}

}  // namespace softmax::kernels::bench

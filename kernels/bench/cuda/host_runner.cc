#include "kernels/bench/cuda/host_runner.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <stdexcept>

#include "kernels/bench/check.h"
#include "kernels/bench/cuda/device_name.h"
#include "kernels/bench/cuda/fill.h"
#include "kernels/bench/cuda/memory.h"
#include "kernels/bench/cuda/ours.h"
#include "kernels/bench/cuda/stream.h"

namespace softmax::kernels::bench {
namespace {

constexpr std::size_t kStreams = 8;
constexpr std::int64_t kChunkBytes = 1 << 20;
constexpr int kWarmups = 3;

// Tensors in pinned host memory, timed by the host's clock from the first call to the end of the last copy. GB/s are of
// one direction. The ceiling is the copy engines' both directions at once.
class HostRunner final : public Runner {
 public:
  explicit HostRunner(const RunSettings& settings) : settings_(settings) {
    for (std::size_t i = 0; i < kStreams; ++i) streams_.emplace_back();
  }

  bool Offers(const Point& point, const std::string& provider) const override {
    return (provider == kCopy || provider == kOurs) && point.plain();
  }

  std::vector<Result> Measure(const Point& point, const std::vector<std::string>& providers) override;

  std::string device() const override { return DeviceName(); }

 private:
  using Action = std::function<void()>;

  void Prepare(const Point& point);
  Action Method(const Point& point);
  void CopyBothWays(std::size_t bytes);
  void Softmax(const Point& point, std::int64_t first_row, std::int64_t rows, const char* input, char* output,
               std::size_t stream, Placement placement);
  void Staged(const Point& point, std::int64_t first_row, std::int64_t rows, std::size_t stream);
  void Chunked(const Point& point);
  std::string CheckOnce(const Point& point, const Action& method);
  void Synchronize(std::size_t streams);

  const RunSettings settings_;
  Ours ours_;
  std::deque<Stream> streams_;
  Memory host_input_{Memory::Where::kHost};
  Memory host_output_{Memory::Where::kHost};
  Memory device_input_{Memory::Where::kDevice};
  Memory device_output_{Memory::Where::kDevice};
};

double TimeUs(const std::function<void()>& action) {
  const auto start = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

std::size_t BytesOf(const Point& point) {
  return static_cast<std::size_t>(point.rows * point.cols) * SizeOf(point.dtype);
}

void HostRunner::Prepare(const Point& point) {
  const std::size_t bytes = BytesOf(point);
  for (Memory* memory : {&host_input_, &host_output_, &device_input_, &device_output_}) memory->Reserve(bytes);
  CudaCheck(LaunchFill(point.dtype, device_input_.data(), bytes, settings_.seed, streams_[0].get()), "fill");
  CudaCheck(cudaMemcpyAsync(host_input_.data(), device_input_.data(), bytes, cudaMemcpyDeviceToHost, streams_[0].get()),
            "fill");
  Synchronize(1);
}

void HostRunner::Synchronize(std::size_t streams) {
  for (std::size_t i = 0; i < streams; ++i) streams_[i].Synchronize();
}

void HostRunner::CopyBothWays(std::size_t bytes) {
  CudaCheck(cudaMemcpyAsync(device_input_.data(), host_input_.data(), bytes, cudaMemcpyHostToDevice, streams_[0].get()),
            "copy");
  CudaCheck(
      cudaMemcpyAsync(host_output_.data(), device_output_.data(), bytes, cudaMemcpyDeviceToHost, streams_[1].get()),
      "copy");
  Synchronize(2);
}

// Rows from first_row on, of tensors that start at these addresses.
void HostRunner::Softmax(const Point& point, std::int64_t first_row, std::int64_t rows, const char* input, char* output,
                         std::size_t stream, Placement placement) {
  const std::size_t offset = static_cast<std::size_t>(first_row * point.cols) * SizeOf(point.dtype);
  Point part = point;
  part.rows = rows;
  CudaCheck(ours_.Launch(point.dtype, point.dtype, MakeSegments(part, settings_.seed, input + offset, output + offset),
                         stream, streams_[stream].get(), placement),
            "launch");
}

void HostRunner::Staged(const Point& point, std::int64_t first_row, std::int64_t rows, std::size_t stream) {
  const std::size_t row_bytes = static_cast<std::size_t>(point.cols) * SizeOf(point.dtype);
  const std::size_t offset = static_cast<std::size_t>(first_row) * row_bytes;
  const std::size_t bytes = static_cast<std::size_t>(rows) * row_bytes;
  CudaCheck(cudaMemcpyAsync(device_input_.data() + offset, host_input_.data() + offset, bytes, cudaMemcpyHostToDevice,
                            streams_[stream].get()),
            "copy");
  Softmax(point, first_row, rows, device_input_.data(), device_output_.data(), stream, Placement::kDevice);
  CudaCheck(cudaMemcpyAsync(host_output_.data() + offset, device_output_.data() + offset, bytes, cudaMemcpyDeviceToHost,
                            streams_[stream].get()),
            "copy");
}

void HostRunner::Chunked(const Point& point) {
  const std::int64_t row_bytes = point.cols * static_cast<std::int64_t>(SizeOf(point.dtype));
  const std::int64_t rows = std::max<std::int64_t>(1, kChunkBytes / row_bytes);
  std::size_t stream = 0;
  for (std::int64_t first = 0; first < point.rows; first += rows) {
    Staged(point, first, std::min(rows, point.rows - first), stream);
    stream = (stream + 1) % kStreams;
  }
  Synchronize(kStreams);
}

HostRunner::Action HostRunner::Method(const Point& point) {
  if (point.section == "host_mapped" || point.section == "host_at_once") {
    const Placement placement = point.section == "host_mapped" ? Placement::kHost : Placement::kDevice;
    return [this, point, placement] {
      Softmax(point, 0, point.rows, host_input_.data(), host_output_.data(), 0, placement);
      Synchronize(1);
    };
  }
  if (point.section == "host_staged") {
    return [this, point] {
      Staged(point, 0, point.rows, 0);
      Synchronize(1);
    };
  }
  if (point.section == "host_chunked") {
    return [this, point] { Chunked(point); };
  }
  throw std::runtime_error("section " + point.section +
                           " is none of host_mapped, host_at_once, host_staged, host_chunked");
}

std::string HostRunner::CheckOnce(const Point& point, const Action& method) {
  std::fill_n(host_output_.data(), BytesOf(point), '\xff');
  method();
  const Segment segment = MakeSegments(point, settings_.seed, host_input_.data(), host_output_.data()).front();
  return Check(point.dtype, point.dtype, segment, Strictness::kBounds, FetchFromHost);
}

std::vector<Result> HostRunner::Measure(const Point& point, const std::vector<std::string>& providers) {
  std::vector<double> copy_us;
  std::vector<double> ours_us;
  std::string problem;
  try {
    Prepare(point);
    const Action method = Method(point);
    const Action copy = [this, &point] { CopyBothWays(BytesOf(point)); };
    problem = CheckOnce(point, method);
    for (int i = 0; problem.empty() && i < kWarmups + settings_.samples; ++i) {
      const double copy_now = TimeUs(copy);
      const double ours_now = TimeUs(method);
      if (i < kWarmups) continue;
      copy_us.push_back(copy_now);
      ours_us.push_back(ours_now);
    }
  } catch (const std::exception& failure) {
    problem = failure.what();
  }
  const auto bytes = static_cast<double>(BytesOf(point));
  std::vector<Result> results;
  for (const std::string& provider : providers) {
    Result result{point, provider, 0, 0, 0, settings_.samples, "wall1", problem};
    if (problem.empty()) {
      result.us = Median(provider == kCopy ? copy_us : ours_us);
      result.gbps = bytes / result.us / 1e3;
      result.ceiling_gbps = bytes / Median(copy_us) / 1e3;
    }
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace

std::unique_ptr<Runner> MakeHostRunner(const RunSettings& settings, std::string* reason) {
  try {
    return std::make_unique<HostRunner>(settings);
  } catch (const std::exception& failure) {
    *reason = failure.what();
    return nullptr;
  }
}

}  // namespace softmax::kernels::bench

#pragma once

#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "server/batching/batcher.h"
#include "server/batching/lane.h"
#include "server/batching/pending_request.h"

namespace softmax::server::testing {

// Memory for an arena, aligned as a page is.
class TestMemory {
 public:
  explicit TestMemory(std::size_t bytes) : block_(new (std::align_val_t(4096)) std::byte[bytes]) {}
  ~TestMemory() { operator delete[](block_, std::align_val_t(4096)); }
  TestMemory(const TestMemory&) = delete;
  TestMemory& operator=(const TestMemory&) = delete;
  std::byte* data() { return block_; }

 private:
  std::byte* const block_;
};

// A region of this process, filled with a value; the flag is set when its memory is given back.
inline std::shared_ptr<const Region> MakeRegion(std::size_t floats, float value, int device = Region::kHost,
                                                const std::shared_ptr<bool>& freed = nullptr) {
  auto* const memory = new std::vector<float>(floats, value);
  return std::make_shared<const Region>(RegionToken{}, reinterpret_cast<std::byte*>(memory->data()),
                                        floats * sizeof(float), device, [memory, freed] {
                                          if (freed != nullptr) *freed = true;
                                          delete memory;
                                        });
}

// A fp32 request of one value everywhere; remembers how it was answered.
class TestRequest : public PendingRequest {
 public:
  TestRequest(std::int64_t rows, std::int64_t cols, float value = 1,
              kernels::DataType output = kernels::DataType::kFloat32)
      : value_(value) {
    spec_.outer = rows;
    spec_.cols = cols;
    spec_.output_type = output;
    arrived_ = SteadyClock::now();
  }

  void CopyInput(std::byte* destination) override {
    ++copies;
    auto* const floats = reinterpret_cast<float*>(destination);
    for (std::uint64_t i = 0; i < spec_.elements(); ++i) floats[i] = value_;
  }
  const std::uint32_t* lengths() const override { return lengths_.data(); }
  const std::int32_t* indices() const override { return indices_.data(); }
  bool CallerLeft() const override { return left; }
  void AnnounceCompletion() override {
    if (on_expect) on_expect();
  }
  void Complete(const Answer& answer) override {
    ++completions;
    last = answer;
    if (answer.status.ok() && answer.span != nullptr) {
      if (answer.output != nullptr) output.assign(answer.output, answer.output + spec_.tensor_bytes());
      if (answer.summary != nullptr) summary.assign(answer.summary, answer.summary + spec_.summary_layout().total);
      if (keep_span) kept = *answer.span;
    }
    if (on_complete) on_complete();
  }

  void set_deadline(TimePoint deadline) { deadline_ = deadline; }
  void set_lengths(std::vector<std::uint32_t> lengths) {
    lengths_ = std::move(lengths);
    spec_.has_lengths = true;
  }
  // As many of each row.
  void set_indices(std::vector<std::int32_t> indices) {
    indices_ = std::move(indices);
    spec_.summary.at = static_cast<std::int64_t>(indices_.size()) / spec_.rows();
  }
  TensorSpec& mutable_spec() { return spec_; }
  // Its parts lie in this region from now on, at these offsets where they are asked for.
  struct Offsets {
    std::optional<std::uint64_t> input, output, summary;
  };
  void PutInto(const std::shared_ptr<const Region>& region, const Offsets& at) {
    const auto place = [&](const std::optional<std::uint64_t>& offset, std::size_t i, bool* in_region) -> std::byte* {
      if (!offset.has_value()) return nullptr;
      *in_region = true;
      regions_.held[i] = region;
      return region->memory() + *offset;
    };
    regions_.device = region->device();
    if (at.input.has_value()) regions_.input = place(at.input, 0, &spec_.input_in_region);
    if (at.output.has_value()) regions_.output = place(at.output, 1, &spec_.output_in_region);
    if (at.summary.has_value()) regions_.summary = place(at.summary, 2, &spec_.summary_in_region);
  }
  float value() const { return value_; }
  const float* floats() const { return reinterpret_cast<const float*>(output.data()); }

  std::atomic<bool> left{false};
  int copies = 0;
  int completions = 0;
  bool keep_span = false;
  SpanRef kept;
  Answer last;
  std::vector<std::byte> output;
  std::vector<std::byte> summary;  // as spec().summary_layout() has it
  std::function<void()> on_complete;
  std::function<void()> on_expect;

 private:
  const float value_;
  std::vector<std::uint32_t> lengths_;
  std::vector<std::int32_t> indices_;
};

// Hands back what was finished, first come, first served.
class FinishingLane : public Lane {
 public:
  Batch* Poll() override {
    if (finished_.empty()) return nullptr;
    Batch* const batch = finished_.front();
    finished_.pop_front();
    return batch;
  }
  bool needs_polling() const override { return true; }

 protected:
  void Finish(Batch* batch) { finished_.push_back(batch); }

 private:
  std::deque<Batch*> finished_;
};

// Finishes batches only when told; `run` doubles every fp32 element (fp32 in, fp32 or fp64 out).
class PuppetLane final : public FinishingLane {
 public:
  void Launch(Batch* batch) override { running.push_back(batch); }
  bool RunsAtOnce(const Batch& batch) const override { return batch.bytes() <= runs_at_once_bytes; }

  void FinishOne(absl::Status status = absl::OkStatus()) {
    Batch* const batch = running.front();
    running.pop_front();
    Run(*batch);
    batch->status = std::move(status);
    Finish(batch);
  }
  static void Run(const Batch& batch) {
    for (const kernels::Segment& segment : batch.segments()) {
      const auto* const in = static_cast<const float*>(segment.input);
      const std::int64_t elements = segment.outer * segment.cols * segment.inner;
      for (std::int64_t i = 0; i < elements; ++i) {
        const float doubled = in[i] * 2;
        if (batch.output_type() == kernels::DataType::kFloat64) {
          static_cast<double*>(segment.output)[i] = doubled;
        } else {
          static_cast<float*>(segment.output)[i] = doubled;
        }
      }
    }
  }

  std::uint64_t runs_at_once_bytes = 0;
  std::deque<Batch*> running;
};

class CountingRecorder final : public Recorder {
 public:
  void RequestFinished(const RequestSample& sample) override { ++finished[sample.code]; }
  void RequestRefused(RefuseReason reason) override { rejected.push_back(reason); }
  void BatchFinished(const BatchSample& sample) override { batches.push_back(sample); }
  void Add(Counter counter, std::uint64_t count) override { added[counter] += count; }

  std::map<int, int> finished;  // by code
  std::map<Counter, std::uint64_t> added;
  std::vector<RefuseReason> rejected;
  std::vector<BatchSample> batches;
};

}  // namespace softmax::server::testing

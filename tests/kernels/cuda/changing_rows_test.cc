// Rows in memory that others write to while they are summarized: no index is outside its row, and no place of the
// answer is left as it was.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "tests/kernels/cuda/gpu_memory.h"

namespace softmax::kernels::testing {
namespace {

constexpr std::size_t kRowsBytes = 1 << 20;
constexpr std::int32_t kUntouched = 0x5A5A5A5A;

class ChangingRows : public GpuTest {
 protected:
  ChangingRows() : rows_(kRowsBytes, Place::kMapped), answers_(4 << 20, Place::kMapped), scratch_(0, Place::kMapped) {}

  // Numbers of which whole rows are equal, greater than before, infinite or none.
  void Scribble(const std::atomic<bool>& stops) {
    constexpr std::uint32_t kWords[] = {0, 0x3F803F80, 0x7F807F80, 0xFF80FF80, 0x7FC07FC0, 0xFFFFFFFF, 0x42C842C8, 1};
    auto* const words = reinterpret_cast<volatile std::uint32_t*>(rows_.data());
    for (std::uint32_t i = 1; !stops.load(std::memory_order_relaxed); i = i * 1664525 + 1013904223) {
      const std::size_t begin = i % (kRowsBytes / 4);
      const std::size_t end = std::min<std::size_t>(kRowsBytes / 4, begin + (i >> 8) % 8192);
      for (std::size_t at = begin; at < end; ++at) words[at] = kWords[i >> 29];
    }
  }

  void Run(DataType type, std::int64_t cols, std::int32_t k) {
    const auto count = std::min<std::int64_t>(64, static_cast<std::int64_t>(kRowsBytes / SizeOf(type)) / cols);
    SummarySegment segment;
    segment.rows.input = rows_.data();
    segment.rows.outer = count;
    segment.rows.cols = cols;
    segment.rows.input_stride = segment.rows.output_stride = cols;
    segment.top_k = k;
    segment.top_indices = reinterpret_cast<std::int32_t*>(answers_.data());
    segment.top_values = answers_.data() + (1 << 20);
    const std::size_t bytes = SummaryWorkspaceBytes(type, &segment, 1);
    Memory workspace(bytes, Place::kDevice);
    for (int turn = 0; turn < 20; ++turn) {
      std::memset(answers_.data(), 0x5A, answers_.size());
      ASSERT_CUDA(LaunchSummaries(type, type, &segment, 1, scratch_.data(), scratch_.size(), workspace.data(), bytes,
                                  Completion{}, nullptr));
      ASSERT_CUDA(cudaDeviceSynchronize());
      for (std::int64_t i = 0; i < count * k; ++i) {
        const std::int32_t index = segment.top_indices[i];
        ASSERT_TRUE(index >= -1 && index < cols) << "place " << i << " of " << cols << " columns: " << index;
        ASSERT_NE(index, kUntouched);
      }
    }
  }

  Memory rows_, answers_, scratch_;
};

TEST_F(ChangingRows, HaveIndicesOfTheirOwnAndNothingElse) {
  std::atomic<bool> stops{false};
  std::thread scribbler([&] { Scribble(stops); });
  for (const DataType type : {DataType::kFloat32, DataType::kBFloat16, DataType::kFloat64}) {
    for (const std::int64_t cols : {7, 40, 200, 512, 1000, 2049, 5000, 32000, 65536}) {
      for (const std::int32_t k : {1, 8, 64, 1024}) {
        Run(type, cols, k);
        if (HasFatalFailure()) break;
      }
    }
  }
  stops = true;
  scribbler.join();
}

}  // namespace
}  // namespace softmax::kernels::testing

#include "tests/kernels/cuda/batch.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>

namespace softmax::kernels::testing {
namespace {

// Polls as a server does, for at most ten seconds.
void WaitForFlag(std::uint32_t* flag, std::uint32_t value) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (std::atomic_ref<std::uint32_t>(*flag).load(std::memory_order_acquire) != value) {
    if (std::chrono::steady_clock::now() > end) {
      ADD_FAILURE() << "no flag: " << cudaGetErrorString(cudaDeviceSynchronize());
      return;
    }
  }
}

void Append(std::vector<std::byte>* to, const void* from, std::size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(from);
  to->insert(to->end(), begin, begin + bytes);
}

}  // namespace

std::vector<BatchPart> RandomParts(DataType input_type, DataType output_type, int count, std::int64_t widest,
                                   unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % n); };
  std::vector<BatchPart> parts(count);
  for (BatchPart& part : parts) {
    RowCase& c = part.shape;
    c.input_type = input_type;
    c.output_type = output_type;
    const std::int64_t limits[] = {9, 130, 1100, 5000, widest};
    c.cols = 1 + below(std::min(widest, limits[below(20) == 0 ? 4 : below(4)]));
    c.inner = below(4) == 0 && c.cols < 3000 ? 1 + below(20) : 1;
    c.outer = 1 + below(c.cols > 3000 ? 2 : 12);
    c.scale = below(2) == 0 ? 1.0 : 0.01 * static_cast<double>(1 + below(300));
    c.operation = below(3) == 0 ? Operation::kLogSoftmax : Operation::kSoftmax;
    if (below(3) == 0) {
      for (std::int64_t r = 0; r < c.outer * c.inner; ++r) {
        c.lengths.push_back(static_cast<std::uint32_t>(below(c.cols + 1)));
      }
    }
    part.input =
        MakeValues(below(5) == 0 ? Values::kPartialInfinity : Values::kNormal, input_type, c.Elements(), random());
  }
  return parts;
}

std::vector<BatchPart> ContiguousParts(DataType type, int count, std::int64_t widest, bool aligned, unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % n); };
  const std::int64_t vector = 16 / static_cast<std::int64_t>(SizeOf(type));
  std::vector<BatchPart> parts(count);
  for (BatchPart& part : parts) {
    RowCase& c = part.shape;
    c.input_type = c.output_type = type;
    c.cols = 1 + below(std::int64_t{2} << below(18)) % widest;
    if (aligned) c.cols = (c.cols + vector - 1) / vector * vector;
    c.outer = 1 + below(c.cols > 5000 ? 3 : 1 + 40 / (1 + c.cols / 200));
    const double scales[] = {1.0, 1.0, 0.5, 2.0};
    c.scale = scales[below(4)];
    c.operation = below(3) == 0 ? Operation::kLogSoftmax : Operation::kSoftmax;
    if (below(5) == 0) {
      for (std::int64_t r = 0; r < c.outer; ++r) c.lengths.push_back(static_cast<std::uint32_t>(below(c.cols + 1)));
    }
    const Values values[] = {Values::kNormal, Values::kNormal50, Values::kPartialInfinity, Values::kFullInfinity};
    part.input = MakeValues(values[below(8) == 0 ? below(4) : 0], type, c.Elements(), random(), c.cols);
  }
  return parts;
}

std::vector<std::vector<std::byte>> RunBatch(DataType input_type, DataType output_type,
                                             const std::vector<BatchPart>& parts, Place place) {
  std::vector<std::byte> inputs;
  std::vector<std::byte> lengths;
  std::size_t output_bytes = 0;
  for (const BatchPart& part : parts) {
    Append(&inputs, part.input.data(), part.input.size());
    Append(&lengths, part.shape.lengths.data(), part.shape.lengths.size() * 4);
    output_bytes += static_cast<std::size_t>(part.shape.Elements()) * SizeOf(output_type);
  }
  Memory in(inputs.size(), place);
  Memory out(output_bytes, place);
  Memory length_memory(lengths.size(), place);
  in.Write(inputs);
  length_memory.Write(lengths);
  out.Write(std::vector<std::byte>(output_bytes, std::byte{0xA5}));

  std::vector<Segment> segments;
  std::size_t in_at = 0;
  std::size_t out_at = 0;
  std::size_t length_at = 0;
  for (const BatchPart& part : parts) {
    Segment s = HostSegment(part.shape, in.data() + in_at, out.data() + out_at);
    if (s.lengths != nullptr) {
      s.lengths = reinterpret_cast<const std::uint32_t*>(length_memory.data() + length_at);
    }
    segments.push_back(s);
    in_at += part.input.size();
    out_at += static_cast<std::size_t>(part.shape.Elements()) * SizeOf(output_type);
    length_at += part.shape.lengths.size() * 4;
  }
  const auto count = static_cast<std::int64_t>(segments.size());
  const Placement placement = place == Place::kMapped ? Placement::kSharedHost : Placement::kDevice;
  Memory scratch(SoftmaxBatchScratchBytes(segments.data(), count, placement), Place::kMapped);
  Memory workspace(kSoftmaxWorkspaceBytes, Place::kDevice);
  workspace.Write(std::vector<std::byte>(kSoftmaxWorkspaceBytes));
  Memory flag(4, Place::kMapped);
  flag.Write(std::vector<std::byte>(4));
  Completion completion;
  completion.flag = reinterpret_cast<std::uint32_t*>(flag.data());
  completion.workspace = reinterpret_cast<std::uint32_t*>(workspace.data());

  // Twice with different values: the workspace must be back at zero after the first.
  for (const std::uint32_t value : {7u, 8u}) {
    completion.value = value;
    EXPECT_EQ(cudaSuccess, LaunchSoftmaxBatch(input_type, output_type, segments.data(), count, scratch.data(),
                                              scratch.size(), completion, nullptr, placement));
    WaitForFlag(completion.flag, value);
  }
  // Mapped memory is read without a synchronizing call: the flag alone must be enough.
  std::vector<std::byte> all(output_bytes);
  if (place == Place::kMapped) {
    std::memcpy(all.data(), out.data(), output_bytes);
  } else {
    all = out.Read();
  }
  EXPECT_EQ(cudaSuccess, cudaDeviceSynchronize());
  std::vector<std::byte> left = workspace.Read();
  left.resize(kSoftmaxWorkspaceZeroBytes);
  EXPECT_EQ(std::vector<std::byte>(kSoftmaxWorkspaceZeroBytes), left);

  std::vector<std::vector<std::byte>> outputs;
  out_at = 0;
  for (const BatchPart& part : parts) {
    const std::size_t bytes = static_cast<std::size_t>(part.shape.Elements()) * SizeOf(output_type);
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(out_at);
    outputs.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(bytes));
    out_at += bytes;
  }
  return outputs;
}

}  // namespace softmax::kernels::testing

#include "tests/kernels/cuda/row_case.h"

#include <algorithm>
#include <cstdio>

namespace softmax::kernels::testing {
namespace {

constexpr std::size_t kGuardBytes = 256;
constexpr std::byte kGuard{0xA5};

}  // namespace

RowCase CaseOf(DataType type, Operation operation, std::int64_t cols, std::int64_t outer, std::int64_t inner) {
  RowCase c;
  c.input_type = c.output_type = type;
  c.operation = operation;
  c.outer = outer;
  c.cols = cols;
  c.inner = inner;
  return c;
}

std::string RowCase::Name() const {
  return "types " + std::to_string(static_cast<int>(input_type)) + "->" +
         std::to_string(static_cast<int>(output_type)) + " [" + std::to_string(outer) + ", " + std::to_string(cols) +
         ", " + std::to_string(inner) + "] operation " + std::to_string(static_cast<int>(operation)) + " scale " +
         std::to_string(scale) + " offsets " + std::to_string(input_offset) + ", " + std::to_string(output_offset) +
         " padding " + std::to_string(padding) + (in_place ? " in place" : "") + (lengths.empty() ? "" : " lengths");
}

std::vector<std::byte> MakeValues(Values values, DataType type, std::int64_t count, std::uint64_t seed,
                                  std::int64_t cols) {
  softmax::testing::KernelCase test;
  test.input_type = type;
  test.values = values;
  test.cols = std::clamp<std::int64_t>(cols, 1, std::max<std::int64_t>(count, 1));
  test.outer = (count + test.cols - 1) / test.cols;
  softmax::testing::Random random(seed);
  std::vector<double> row(static_cast<std::size_t>(test.cols));
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * SizeOf(type));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t col = i % test.cols;
    if (col == 0) softmax::testing::FillRow(test, i / test.cols, random, row);
    StoreElement(type, bytes.data(), i, row[static_cast<std::size_t>(col)]);
  }
  return bytes;
}

Segment HostSegment(const RowCase& c, const std::byte* input, std::byte* output) {
  Segment s;
  s.input = input;
  s.output = output;
  s.lengths = c.lengths.empty() ? nullptr : c.lengths.data();
  s.outer = c.outer;
  s.cols = c.cols;
  s.inner = c.inner;
  s.input_stride = c.cols * c.inner + c.padding;
  s.output_stride = s.input_stride;
  s.scale = c.scale;
  s.operation = c.operation;
  return s;
}

namespace {

// One for all tests, which use one stream.
std::uint32_t* Workspace() {
  static Memory* const memory = [] {
    auto* made = new Memory(kSoftmaxWorkspaceBytes, Place::kDevice);
    made->Write(std::vector<std::byte>(kSoftmaxWorkspaceBytes));
    return made;
  }();
  return reinterpret_cast<std::uint32_t*>(memory->data());
}

}  // namespace

std::vector<std::byte> RunCase(const RowCase& c, const std::vector<std::byte>& input) {
  const std::size_t in_size = SizeOf(c.input_type);
  const std::size_t out_size = SizeOf(c.output_type);
  const std::size_t in_start = kGuardBytes + static_cast<std::size_t>(c.input_offset) * in_size;
  const std::size_t out_start = kGuardBytes + static_cast<std::size_t>(c.output_offset) * out_size;
  const std::size_t out_bytes = static_cast<std::size_t>(c.Elements()) * out_size;

  // The input ends with its allocation, so that memcheck sees a read past it.
  std::vector<std::byte> host_in(in_start + input.size(), kGuard);
  std::copy(input.begin(), input.end(), host_in.begin() + static_cast<std::ptrdiff_t>(in_start));
  Memory in(host_in.size() + (c.in_place ? kGuardBytes : 0), c.place);
  if (c.in_place) host_in.resize(in.size(), kGuard);
  in.Write(host_in);
  std::vector<std::byte> host_out(c.in_place ? 0 : out_start + out_bytes + kGuardBytes, kGuard);
  Memory out(host_out.size(), c.place);
  out.Write(host_out);
  Memory lengths(c.lengths.size() * sizeof(std::uint32_t), c.place);
  std::vector<std::byte> host_lengths(lengths.size());
  if (!c.lengths.empty()) std::memcpy(host_lengths.data(), c.lengths.data(), host_lengths.size());
  lengths.Write(host_lengths);

  Segment s = HostSegment(c, in.data() + in_start, c.in_place ? in.data() + in_start : out.data() + out_start);
  if (!c.lengths.empty()) s.lengths = reinterpret_cast<const std::uint32_t*>(lengths.data());
  const Placement placement = c.place == Place::kMapped ? Placement::kHost : Placement::kDevice;
  EXPECT_EQ(cudaSuccess, LaunchSoftmax(c.input_type, c.output_type, s, nullptr, Workspace(), placement)) << c.Name();
  EXPECT_EQ(cudaSuccess, cudaDeviceSynchronize()) << c.Name();

  const std::vector<std::byte> after = c.in_place ? in.Read() : out.Read();
  const std::vector<std::byte>& before = c.in_place ? host_in : host_out;
  const std::size_t start = c.in_place ? in_start : out_start;
  const std::size_t block = static_cast<std::size_t>(c.cols * c.inner) * out_size;
  const std::size_t pitch = static_cast<std::size_t>(c.cols * c.inner + c.padding) * out_size;
  std::vector<std::byte> around = after;
  for (std::size_t at = start; at < start + out_bytes; at += pitch) {
    std::copy_n(before.begin() + static_cast<std::ptrdiff_t>(at), std::min(block, start + out_bytes - at),
                around.begin() + static_cast<std::ptrdiff_t>(at));
  }
  EXPECT_TRUE(around == before) << "bytes around the output changed: " << c.Name();
  return {after.begin() + static_cast<std::ptrdiff_t>(start),
          after.begin() + static_cast<std::ptrdiff_t>(start + out_bytes)};
}

namespace {

// The largest error seen as a fraction of its bound, printed after the last test (docs/numerics.md quotes it).
class WorstErrors final : public ::testing::Environment {
 public:
  void Add(const RowCase& c, double worst) {
    double& cell =
        worst_[static_cast<int>(c.operation)][static_cast<int>(c.input_type)][static_cast<int>(c.output_type)];
    cell = std::max(cell, worst);
  }
  void TearDown() override {
    for (int operation = 1; operation <= 2; ++operation) {
      for (int input = 1; input <= 4; ++input) {
        std::printf("worst error / bound, %s from %s:", operation == 1 ? "softmax" : "log_softmax", kNames[input]);
        for (int output = 1; output <= 4; ++output)
          std::printf(" %s %.3f", kNames[output], worst_[operation][input][output]);
        std::printf("\n");
      }
    }
  }

 private:
  static constexpr const char* kNames[] = {"", "fp32", "fp16", "bf16", "fp64"};
  double worst_[3][5][5] = {};
};
WorstErrors* const kWorst = static_cast<WorstErrors*>(::testing::AddGlobalTestEnvironment(new WorstErrors));

}  // namespace

void ExpectGood(const RowCase& c, Values values, std::uint64_t seed) {
  const std::vector<std::byte> input = MakeValues(values, c.input_type, c.Elements(), seed, c.cols);
  std::vector<std::byte> output = RunCase(c, input);
  const Judgement judgement =
      Judge(c.input_type, c.output_type, HostSegment(c, input.data(), output.data()), Bounds::kUsual);
  kWorst->Add(c, judgement.worst);
  EXPECT_TRUE(judgement.ok) << c.Name() << " values " << static_cast<int>(values) << ": " << judgement.failures
                            << " wrong, " << judgement.message;
}

}  // namespace softmax::kernels::testing

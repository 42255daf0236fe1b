#include "tests/client/support/sample.h"

#include <random>

#include "kernels/reference.h"

namespace softmax::client {

Sample MakeSample(DataType dtype, std::vector<std::int64_t> shape, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> values(0, 3);
  const auto elements = static_cast<std::int64_t>(*ElementsOf(shape));
  Sample sample{dtype, std::move(shape), {}};
  sample.data.resize(static_cast<std::size_t>(elements) * SizeOf(dtype));
  for (std::int64_t i = 0; i < elements; ++i) {
    kernels::StoreElement(static_cast<kernels::DataType>(dtype), sample.data.data(), i, values(random));
  }
  return sample;
}

std::string Wrong(const Sample& input, const Tensor& answer, const SoftmaxOptions& options) {
  const auto axis = options.axis.value_or(-1);
  const auto rank = static_cast<std::int32_t>(input.shape.size());
  const std::int32_t at = axis < 0 ? axis + rank : axis;
  kernels::Segment segment;
  segment.outer = segment.inner = segment.cols = 1;
  for (std::int32_t i = 0; i < rank; ++i) {
    (i < at ? segment.outer : i == at ? segment.cols : segment.inner) *= input.shape[static_cast<std::size_t>(i)];
  }
  segment.input = input.data.data();
  segment.output = const_cast<std::byte*>(answer.data().data());
  segment.lengths = options.lengths.empty() ? nullptr : options.lengths.data();
  segment.input_stride = segment.output_stride = segment.cols * segment.inner;
  segment.scale = options.scale.value_or(1);
  segment.operation = static_cast<kernels::Operation>(options.operation);
  if (answer.shape() != input.shape) return "another shape";
  const auto judged = kernels::Judge(static_cast<kernels::DataType>(input.dtype),
                                     static_cast<kernels::DataType>(answer.dtype()), segment, kernels::Bounds::kUsual);
  return judged.message;
}

}  // namespace softmax::client

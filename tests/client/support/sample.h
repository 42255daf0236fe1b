#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "client/softmax_client/options.h"

namespace softmax::client {

// A tensor with random values of any type.
struct Sample {
  DataType dtype;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> data;
  TensorView view() const { return {dtype, shape, data}; }
};

Sample MakeSample(DataType dtype, std::vector<std::int64_t> shape, unsigned seed);

// What is wrong with an answer, judged against double; empty: it is right.
std::string Wrong(const Sample& input, const Tensor& answer, const SoftmaxOptions& options = {});

}  // namespace softmax::client

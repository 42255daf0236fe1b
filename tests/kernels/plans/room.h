#pragma once

#include <cstdint>
#include <string>

#include "kernels/cuda/device.h"
#include "kernels/types.h"

namespace softmax::kernels::testing {

// The devices of the golden table, as CurrentDevice() describes them.
struct DeviceModel {
  const char* name;
  cuda::Device device;
};
inline constexpr DeviceModel kDeviceModels[] = {
    {"H100", {132, 230400, true, 16, false}},
    {"H200", {132, 230400, true, 16, true}},
    {"A100", {108, 164864, false, 1, false}},
    {"T4", {40, 63488, false, 1, false}},
};

// A dense tensor [outer, cols, inner] that begins on a 256-byte boundary, in device memory, with a workspace.
struct Shape {
  DataType input_type;
  DataType output_type;
  Operation operation;
  std::int64_t outer;
  std::int64_t cols;
  std::int64_t inner;
};

// The tensor as a segment.
Segment SegmentOf(const Shape& shape);

// The family of kernels that one launch of the tensor would run, in the words of docs/kernels.md.
std::string RoomOf(const Shape& shape, const cuda::Device& device);

// The family and every number of the launch, and of one with two segments beside it where rows are few, as a checksum.
std::uint64_t NumbersOf(const Shape& shape, const cuda::Device& device);

}  // namespace softmax::kernels::testing

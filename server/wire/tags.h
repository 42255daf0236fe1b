#pragma once

#include <cstdint>

// The tags (field number << 3 | wire type) of proto/softmax/v1/softmax.proto that the server reads
// and writes.
namespace softmax::server {

enum RequestTag : std::uint32_t {
  kRequestId = 1 << 3,
  kRequestOperation = 2 << 3,
  kRequestAxis = 3 << 3,
  kRequestScale = 4 << 3 | 1,
  kRequestOutputDtype = 5 << 3,
  kRequestLengths = 6 << 3,
  kRequestLengthsPacked = 6 << 3 | 2,
  kRequestTimeout = 7 << 3,
  kRequestInput = 15 << 3 | 2,
};

enum TensorTag : std::uint32_t {
  kTensorDtype = 1 << 3,
  kTensorShape = 2 << 3,
  kTensorShapePacked = 2 << 3 | 2,
  kTensorData = 15 << 3 | 2,
};

enum ResponseTag : std::uint32_t {
  kResponseId = 1 << 3,
  kResponseStatus = 2 << 3 | 2,
  kResponseTiming = 3 << 3 | 2,
  kResponseOutput = 15 << 3 | 2,
};

enum StatusTag : std::uint32_t {
  kStatusCode = 1 << 3,
  kStatusMessage = 2 << 3 | 2,
  kStatusRetryAfter = 3 << 3,
};

enum TimingTag : std::uint32_t {
  kTimingQueue = 1 << 3,
  kTimingBatch = 2 << 3,
  kTimingExecution = 3 << 3,
  kTimingBatchRows = 4 << 3,
};

// `requests` of a SoftmaxStreamRequest and `responses` of a SoftmaxStreamResponse alike.
constexpr std::uint32_t kStreamElement = 1 << 3 | 2;

}  // namespace softmax::server

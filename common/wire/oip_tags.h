#pragma once

#include <cstdint>

// The tags (field number << 3 | wire type) of proto/inference/inference.proto that are read and written by hand.
namespace softmax {

enum InferRequestTag : std::uint32_t {
  kInferModelName = 1 << 3 | 2,
  kInferModelVersion = 2 << 3 | 2,
  kInferId = 3 << 3 | 2,
  kInferParameters = 4 << 3 | 2,
  kInferInputs = 5 << 3 | 2,
  kInferOutputs = 6 << 3 | 2,
  kInferRawInput = 7 << 3 | 2,
};

// InferInputTensor, InferOutputTensor, and InferRequestedOutputTensor as far as it goes.
enum InferTensorTag : std::uint32_t {
  kInferTensorName = 1 << 3 | 2,
  kInferTensorDatatype = 2 << 3 | 2,
  kInferTensorShape = 3 << 3,
  kInferTensorShapePacked = 3 << 3 | 2,
  kInferTensorParameters = 4 << 3 | 2,
  kInferTensorContents = 5 << 3 | 2,
  kInferRequestedParameters = 2 << 3 | 2,
};

enum InferContentsTag : std::uint32_t {
  kInferFp32 = 6 << 3 | 5,
  kInferFp32Packed = 6 << 3 | 2,
  kInferFp64 = 7 << 3 | 1,
  kInferFp64Packed = 7 << 3 | 2,
};

// An entry of a map, and an InferParameter.
enum InferParameterTag : std::uint32_t {
  kEntryKey = 1 << 3 | 2,
  kEntryValue = 2 << 3 | 2,
  kParameterBool = 1 << 3,
  kParameterInt64 = 2 << 3,
  kParameterString = 3 << 3 | 2,
  kParameterDouble = 4 << 3 | 1,
  kParameterUint64 = 5 << 3,
};

enum InferResponseTag : std::uint32_t {
  kInferResponseModelName = 1 << 3 | 2,
  kInferResponseModelVersion = 2 << 3 | 2,
  kInferResponseId = 3 << 3 | 2,
  kInferResponseParameters = 4 << 3 | 2,
  kInferResponseOutputs = 5 << 3 | 2,
  kInferResponseRawOutput = 6 << 3 | 2,
};

enum InferStreamResponseTag : std::uint32_t {
  kInferStreamError = 1 << 3 | 2,
  kInferStreamResponse = 2 << 3 | 2,
};

}  // namespace softmax

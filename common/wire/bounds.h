#pragma once

#include <cstddef>
#include <cstdint>

// How much a message may have of what honest clients send little of, whatever protobuf would take: a hundred megabytes
// of empty entries would take a thread for half a second. Judged while a message is read, which ends there. What it may
// have much of, rows' lengths and tensors' values, has the limits of requests (WireLimits), and max_steps.
namespace softmax {

// Fields of one SoftmaxRequest and all that is in it, known or not, in groups, too, and of a SoftmaxStreamRequest
// beside its requests. Not counted: lone values of lengths and shape. An honest one has some 20.
constexpr std::uint64_t kMaxFields = 1000;

// The same of a ModelInferRequest, where lone values of shapes and contents are not counted. One with 64 inputs and
// outputs and as many parameters as it may have has some 5,000.
constexpr std::uint64_t kMaxInferFields = 8000;
constexpr std::uint64_t kMaxInferParameters = 1000;  // entries: the request's, its inputs' and its outputs' together
constexpr std::size_t kMaxInferInputs = 64;          // inputs, outputs and raw_input_contents, each
constexpr std::size_t kMaxInferTextBytes = 4096;     // of any string
constexpr std::size_t kMaxInferNameBytes = 64;       // of an input's name

constexpr std::uint64_t kMaxDimensions = 1000;  // of any shape, before its rank is judged

}  // namespace softmax

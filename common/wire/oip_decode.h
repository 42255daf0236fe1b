#pragma once

#include <absl/container/inlined_vector.h>
#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/wire/bounds.h"
#include "common/wire/decode.h"
#include "common/wire/oip_models.h"
#include "common/wire/slices.h"

// The Open Inference Protocol's messages that bring tensors (proto/inference/inference.proto), by hand as those of
// softmax.v1 in decode.h: the rules of a tensor are the same code, the names are the protocol's.
namespace softmax {

// What an answer can have of an input, in the order in which it comes. All but the first are made of a summary.
enum class InferOutput : std::uint8_t { kTensor, kClasses, kTopValues, kTopIndices, kLogSumExp, kMaximum, kEntropy };
constexpr std::size_t kInferOutputKinds = 7;
// What an output's name ends with, behind the name that the whole tensor has.
constexpr std::string_view kInferEndings[kInferOutputKinds] = {
    "", "", "_top_values", "_top_indices", "_log_sum_exp", "_maximum", "_entropy"};

// Where the further outputs lie in the summary.
constexpr SummaryLayout::Part kInferParts[kInferOutputKinds] = {
    SummaryLayout::kParts,     SummaryLayout::kParts,   SummaryLayout::kTopValues, SummaryLayout::kTopIndices,
    SummaryLayout::kLogSumExp, SummaryLayout::kMaximum, SummaryLayout::kEntropy};

// A set of them.
class InferOutputSet {
 public:
  constexpr void Add(InferOutput output) { bits_ |= BitOf(output); }
  constexpr bool Has(InferOutput output) const { return (bits_ & BitOf(output)) != 0; }
  constexpr bool empty() const { return bits_ == 0; }

 private:
  static constexpr std::uint32_t BitOf(InferOutput output) { return 1u << static_cast<unsigned>(output); }
  std::uint32_t bits_ = 0;
};

// Bytes that lie in a file that was registered under a name, instead of the message.
struct InferPlace {
  std::string region;  // the name; empty: they are in the message
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;  // that belong to it, at least the tensor's own
  std::uint32_t index = 0;  // of inputs or outputs, for errors
};
struct InferPlaces {
  InferPlace input;
  InferPlace outputs[kInferOutputKinds];
};

// One input that is to be answered: a request as the native contract has it.
struct InferTensor {
  DecodedRequest request;               // payload_offset is where it lies in the message, unless it came in pieces
  std::uint32_t axis = 0;               // of the shape
  std::shared_ptr<InferPlaces> places;  // null: everything is in messages
  std::string output;                   // the name of its whole answer
  InferOutputSet outputs;               // what is wanted of it
  std::string classes;                  // once it is computed, where kClasses is wanted: that output's bytes
  // In how many pieces its typed contents came, for CopyTypedContents; 0: they lie together.
  std::uint64_t gathered_pieces = 0;
  std::uint64_t input_offset = 0;  // of the input's message, with its length
};

// Copies a tensor's values, which came in gathered_pieces > 0 pieces, one behind the other: spec.input_bytes() of them.
// `slices`: the message that it was decoded from. A step of WireLimits::max_steps a piece, again. Any thread.
void CopyTypedContents(Slices slices, const InferTensor& tensor, std::byte* destination);

// From this magnitude on a class's value is written with an exponent: all of its digits would be up to 310.
constexpr double kFirstShortClass = 1e15;

// The most bytes that a class's text, with its length in front, takes.
std::uint64_t MostClassBytes(const TensorSpec& spec);

// One decoded ModelInferRequest. Borrows nothing, as DecodedRequest.
struct InferRequest {
  // Why this request cannot run; the fields below are then incomplete, but `id` is right, where it came before what
  // is malformed.
  absl::Status status;
  bool beyond_budget = false;  // as DecodedRequest::beyond_budget
  std::string id;
  const InferModel* model = nullptr;  // null: unknown
  std::uint32_t timeout_us = 0;
  absl::InlinedVector<InferTensor, 1> tensors;
};

// Decodes one ModelInferRequest that fills `slices`: as the generated parser, followed by the rules of the protocol and
// the native contract's, and within the bounds of bounds.h, at which reading ends. Not OK in out->status: NOT_FOUND
// (model or version), UNIMPLEMENTED (shared memory that is not served, or what looks like a compressed message),
// otherwise as DecodeRequest.
void DecodeInferRequest(Slices slices, const WireLimits& limits, InferRequest* out);

}  // namespace softmax

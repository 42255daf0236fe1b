#pragma once

#include <absl/container/inlined_vector.h>
#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "common/wire/bounds.h"
#include "common/wire/slices.h"
#include "common/wire/wire.h"
#include "kernels/types.h"

// The Open Inference Protocol's messages that bring tensors (proto/inference/inference.proto), by hand as those of
// softmax.v1 in wire.h: the rules of a tensor are the same code, the names are the protocol's.
namespace softmax {

// A name under which the service is called. Every one takes all four types; `datatype` is what its metadata says, from
// which some clients take the type that they send.
struct InferModel {
  const char* name;
  kernels::Operation operation;
  kernels::DataType datatype;
};

constexpr std::size_t kInferModels = 8;
std::span<const InferModel, kInferModels> InferModels();
// Null: there is none. `version` is "" or "1".
const InferModel* FindInferModel(std::string_view name, std::string_view version);
// Why there is none: NOT_FOUND, or INVALID_ARGUMENT for a version that is no number. `prefix`: of the fields' names,
// which are its "name" and "version".
absl::Status NoInferModel(std::string_view prefix, std::string_view name, std::string_view version);
constexpr std::size_t IndexOf(const InferModel& model, std::span<const InferModel, kInferModels> models) {
  return static_cast<std::size_t>(&model - models.data());
}
// "FP32"; the protocol's name for a type.
const char* DatatypeName(kernels::DataType type);

// What an answer can have of an input, in the order in which it comes. All but the first are made of a summary.
enum class InferOutput : std::uint8_t { kTensor, kClasses, kTopValues, kTopIndices, kLogSumExp, kMaximum, kEntropy };
constexpr std::size_t kInferOutputKinds = 7;
// What an output's name ends with, behind the name that the whole tensor has.
constexpr std::string_view kInferEndings[kInferOutputKinds] = {
    "", "", "_top_values", "_top_indices", "_log_sum_exp", "_maximum", "_entropy"};

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

// One input that is to be answered: a request as the native contract has it.
struct InferTensor {
  DecodedRequest request;  // payload_offset is where it lies in the message, unless it came in pieces
  std::uint32_t axis = 0;  // of the shape
  std::string output;      // the name of its whole answer
  InferOutputSet outputs;  // what is wanted of it
  std::string classes;     // once it is computed, where kClasses is wanted: that output's bytes
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
// (model or version), UNIMPLEMENTED (shared memory, or what looks like a compressed message), otherwise as
// DecodeRequest.
void DecodeInferRequest(Slices slices, const WireLimits& limits, InferRequest* out);

// What the answer has of one tensor: a piece of the header, with the payload's parts in their places (counted from the
// piece's begin).
struct InferPiece {
  std::size_t begin = 0;
  std::size_t end = 0;
  AnswerParts parts;

  std::string_view HeaderIn(std::string_view header) const { return header.substr(begin, end - begin); }
};
using InferPieces = absl::InlinedVector<InferPiece, 1>;

// Appends to `header` everything of a serialized ModelInferResponse (with `in_stream`: of a ModelStreamInferResponse,
// with triton_final_response) but the outputs' bytes, which are raw contents, and to `pieces` where those belong, a
// piece a tensor.
void EncodeInferHeader(const InferRequest& request, bool in_stream, std::string* header, InferPieces* pieces);

// Appends a whole ModelStreamInferResponse that carries an error.
void EncodeInferStreamError(std::string_view id, const absl::Status& status, std::string* out);

}  // namespace softmax

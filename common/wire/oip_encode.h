#pragma once

#include <absl/container/inlined_vector.h>
#include <absl/status/status.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "common/wire/encode.h"
#include "common/wire/oip_decode.h"

// The Open Inference Protocol's answers, by hand as those of softmax.v1 in encode.h.
namespace softmax {

// What the answer has of one tensor: a piece of the header, with the payload's parts in their places (counted from the
// piece's begin).
struct AnswerPiece {
  std::size_t begin = 0;
  std::size_t end = 0;
  AnswerParts parts;

  std::string_view HeaderIn(std::string_view header) const { return header.substr(begin, end - begin); }
};
using AnswerPieces = absl::InlinedVector<AnswerPiece, 1>;

// Appends to `header` everything of a serialized ModelInferResponse (with `in_stream`: of a ModelStreamInferResponse,
// with triton_final_response) but the outputs' bytes, which are raw contents, and to `pieces` where those belong, a
// piece a tensor.
void EncodeInferHeader(const InferRequest& request, bool in_stream, std::string* header, AnswerPieces* pieces);

// Appends a whole ModelStreamInferResponse that carries an error.
void EncodeInferStreamError(std::string_view id, const absl::Status& status, std::string* out);

}  // namespace softmax

#pragma once

#include <absl/status/status.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/wire/decode.h"
#include "common/wire/tensor_spec.h"

// Writes answers to the wire by hand, so that a payload's bytes are never copied into a message.
namespace softmax {

// The number that gRPC and the proto's Status have for a status's code: absl's own.
inline int CodeNumber(const absl::Status& status) { return static_cast<int>(status.code()); }

// Nanoseconds and rows as in the proto's Timing.
struct AnswerTiming {
  std::uint64_t queue_ns = 0;
  std::uint64_t batch_ns = 0;
  std::uint64_t execution_ns = 0;
  std::uint64_t batch_rows = 0;
};

// Where the payload's bytes go between those of an answer's header: each part follows the header's first `header_end`
// bytes. The last one ends the answer.
struct AnswerParts {
  struct Part {
    std::size_t header_end = 0;
    std::uint64_t offset = 0;  // in the summary (SummaryLayout), or 0 in the tensor
    std::uint64_t bytes = 0;
    bool of_summary = false;
  };
  std::array<Part, SummaryLayout::kParts + 1> part;
  std::size_t count = 0;  // those that are not empty

  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < count; ++i) sum += part[i].bytes;
    return sum;
  }
};

// Appends to `header` everything of a serialized SoftmaxResponse but the payload's bytes (spec.output_bytes() of them).
// Without a summary these follow directly; `parts` says so and, with one, where each part of the payload goes. With
// `in_stream` the bytes are one `responses` element of a SoftmaxStreamResponse.
void EncodeAnswerHeader(const DecodedRequest& request, const AnswerTiming& timing, bool in_stream, std::string* header,
                        AnswerParts* parts);

// Appends a whole `responses` element that carries an error (stream only; a unary call fails with
// its status).
void EncodeStreamError(std::uint64_t id, const absl::Status& status, std::uint32_t retry_after_ms, std::string* out);

}  // namespace softmax

#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <vector>

#include "common/wire/cursor.h"
#include "common/wire/place.h"
#include "common/wire/slices.h"
#include "common/wire/tensor_spec.h"

// Reads requests from the wire by hand, so that a tensor's bytes are never parsed into a message: the decoder says
// where in the received slices the payload lies. No gRPC here.
namespace softmax {

struct WireLimits {
  std::uint64_t max_request_bytes = 64u << 20;   // payload of one request, and 4 bytes a length or index
  std::uint64_t max_response_bytes = 64u << 20;  // payload of one answer; its header comes on top
  std::uint32_t max_rank = 8;
  std::uint64_t max_rows = 1ull << 31;
  std::uint64_t max_columns = 1ull << 31;
  std::uint32_t max_top_k = kernels::kMaxTopK;
  std::uint64_t max_tensor_bytes = 0;  // of what lies in a region, each part of a request; 0: there are no regions
  std::uint32_t max_requests_per_stream_message = 1024;
  bool has_files = false;                        // of the Open Inference Protocol: tensors may lie in registered files
  std::uint64_t max_message_bytes = UINT64_MAX;  // of one message, whatever is in it
  // What decoding one message may take: a step is a field, a byte of packed numbers, or 16 bytes of indices or text;
  // some nanoseconds. A message that takes more is left undecided (beyond_budget): decode it on a thread that has time.
  std::uint64_t max_steps = UINT64_MAX;
};

// One decoded request. Borrows nothing: the payload and the lengths are positions in the slices it
// was decoded from.
struct DecodedRequest {
  // Why this request cannot run; the fields below are then incomplete, but `id` is right.
  absl::Status status;
  // WireLimits::max_steps are used up, and nothing is decided: neither status, which is INTERNAL, nor any field below.
  bool beyond_budget = false;
  std::uint64_t encoded_bytes = 0;  // of the whole request
  bool has_id = false;              // the id field was seen
  std::uint64_t id = 0;
  std::uint32_t timeout_us = 0;
  TensorSpec spec;
  std::uint32_t rank = 0;
  std::int64_t shape[8] = {};  // as sent; the answer repeats it
  // Where Tensor.data begins in the whole message, in bytes; spec.received_bytes() long.
  std::uint64_t payload_offset = 0;
  // One per row when spec.has_lengths. Kept decoded: they are validated, few against the payload,
  // and may arrive in several packed and unpacked pieces.
  std::vector<std::uint32_t> lengths;
  // spec.summary.at of each row; the wire's bytes are theirs.
  std::vector<std::int32_t> indices;
  // Of what lies in regions, as the spec says. Apart from one another in one region, but for an output in its input's
  // place; nobody has looked yet whether the regions are there and as long.
  WirePlace input_place;
  WirePlace output_place;
  WirePlace summary_place;
};

// Decodes one SoftmaxRequest that fills `slices`. Same result as the generated parser followed by
// the contract's rules: fields in any order, last value of a repeated scalar wins, repeated `input`
// messages merge (the shape appends, data is replaced), unknown fields are skipped, packed and
// unpacked shape and lengths; within the bounds of bounds.h, at which reading ends. `out->status` is INVALID_ARGUMENT
// with field, value and limit, UNIMPLEMENTED for what looks like a compressed message, or RESOURCE_EXHAUSTED for a
// message whose request would be good, and which is larger than any good request needs.
void DecodeRequest(Slices slices, const WireLimits& limits, DecodedRequest* out);

// Decodes one SoftmaxStreamRequest. Not OK: the message cannot be cut into requests with ids
// (truncated, over the limit of requests per message), and the stream has to end. OK: every request
// in `out` carries its own status. `beyond_budget` (may be null where max_steps is not set): true: nothing is decided,
// as DecodedRequest::beyond_budget says, of the whole message; it is not OK then.
absl::Status DecodeStreamRequest(Slices slices, const WireLimits& limits, std::vector<DecodedRequest>* out,
                                 bool* beyond_budget = nullptr);

// The same, a request at a time, so that those that have to wait are not held decoded.
class StreamRequestReader {
 public:
  // Counts the requests. Not OK as DecodeStreamRequest; nothing is to be read then. `slices` stay as they are as long
  // as there is something left.
  absl::Status Begin(Slices slices, const WireLimits& limits);
  // Requests that are not read yet.
  std::uint64_t left() const { return left_; }
  // Reads the next; max_steps are for each. Not OK: the stream has to end, and nothing is left. OK, but
  // out->beyond_budget: it is still the next.
  absl::Status Next(const WireLimits& limits, DecodedRequest* out);
  // Reads no more.
  void Drop() { left_ = 0; }

 private:
  absl::Status Read(const WireLimits& limits, DecodedRequest* out);

  Slices slices_;
  WireCursor cursor_;  // at the next
  std::uint64_t count_ = 0;
  std::uint64_t left_ = 0;
  absl::Status whole_;  // of the message's size: every request has it
};

}  // namespace softmax

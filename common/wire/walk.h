#pragma once

#include <cstdint>

#include "common/wire/cursor.h"
#include "common/wire/place.h"

namespace softmax {

// How many messages and groups the generated parser follows into one another, the outermost message
// not counted.
constexpr int kWireDepth = 100;

constexpr std::uint32_t kMaxShapeRank = 8;

// A Place, likewise.
struct RawPlace {
  bool is_set = false;
  std::uint64_t region_size = 0;                      // bytes
  std::array<std::uint8_t, kTokenBytes> region = {};  // where they are as many
  std::uint64_t offset = 0;
};

// What a SoftmaxRequest says, before any rule but protobuf's own was looked at. Holds no
// variable-size field: of the shape only the dimensions that a tensor may have are kept, of the
// lengths only what the rules need, and the bookmark from which ReadLengths collects them once it
// is known that they are worth memory.
struct RawRequest {
  bool has_id = false;
  bool has_axis = false;
  bool has_scale = false;
  bool has_input = false;
  std::uint64_t id = 0;
  std::int32_t operation = 0;
  std::int32_t axis = 0;
  std::int32_t output_dtype = 0;
  std::int32_t dtype = 0;
  std::uint32_t timeout_us = 0;
  double scale = 0;
  std::uint64_t rank = 0;  // dimensions seen; shape[] has the first kMaxShapeRank
  std::int64_t shape[kMaxShapeRank] = {};
  std::uint64_t data_offset = 0;
  std::uint64_t data_size = 0;
  std::uint64_t lengths_count = 0;
  std::uint64_t lengths_largest_at = 0;  // index of the first of the largest
  std::uint32_t lengths_largest = 0;
  std::uint32_t lengths_tag = 0;  // of the first field that has any (or is packed and empty),
  WireCursor lengths_begin;       // and the place behind that tag

  bool has_summary = false;
  bool log_sum_exp = false;
  bool entropy = false;
  bool full = false;
  std::uint32_t top_k = 0;
  std::uint64_t indices_size = 0;  // bytes
  WireCursor indices_begin;        // where they are, if there are any

  RawPlace input_place;
  RawPlace output_place;
  RawPlace summary_place;

  // Where the walk stands, for the message when it fails.
  std::uint32_t tag = 0;
  const RawPlace* in_place = nullptr;
  bool in_input = false;
  bool in_summary = false;
};

// Reads one SoftmaxRequest up to the cursor's limit. Values survive as the generated parser would
// have them: the last of a repeated scalar, all of a repeated field, merged `input`s, data
// replaced. False: malformed, and cursor->fault() says why; what was read before stands in
// `request`.
bool WalkRequest(WireCursor* cursor, int depth, RawRequest* request);

// Decodes the request's lengths, lengths_count of them, to `out`. For a request that WalkRequest
// accepted.
void ReadLengths(const RawRequest& request, std::uint32_t* out);

// Copies the request's indices, indices_size bytes, to `out`. Likewise.
void ReadIndices(const RawRequest& request, void* out);

}  // namespace softmax

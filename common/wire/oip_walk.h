#pragma once

#include <absl/container/inlined_vector.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "common/wire/cursor.h"
#include "common/wire/walk.h"

// What a ModelInferRequest says, before any rule but protobuf's own was looked at.
namespace softmax {

// An InferParameter.
struct InferParameter {
  enum class Kind : std::uint8_t { kNone, kBool, kInt64, kString, kDouble, kUint64 };
  Kind kind = Kind::kNone;
  std::uint64_t bits = 0;  // of any kind but kString
  std::string text;        // kString
};

// A typed contents' field of one kind.
struct TypedValues {
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;  // of the first
  std::uint64_t pieces = 0;  // 1: all of them lie there together
};

// Where a tensor's bytes lie in a registered file, as its parameters say.
struct RawInferPlace {
  std::optional<InferParameter> region;
  std::optional<InferParameter> bytes;
  std::optional<InferParameter> offset;

  bool any() const { return region.has_value() || bytes.has_value() || offset.has_value(); }
};

struct RawInferInput {
  std::string name;
  std::string datatype;
  std::uint64_t rank = 0;  // dimensions seen; shape[] has the first kMaxShapeRank
  std::int64_t shape[kMaxShapeRank] = {};
  TypedValues fp32;
  TypedValues fp64;
  std::uint32_t other_contents = 0;  // number of a field of other contents that has any
  RawInferPlace place;
  std::optional<std::string> parameter;  // the key of one that is not known
  std::uint64_t begin = 0;               // where the input's message is, with its length
};

struct RawInferOutput {
  std::string name;
  std::optional<InferParameter> classification;
  RawInferPlace place;
  std::optional<std::string> parameter;  // the key of one that is not known
};

struct RawInferRequest {
  std::string model_name;
  std::string model_version;
  std::string id;

  std::optional<InferParameter> axis;
  std::optional<InferParameter> scale;
  std::optional<InferParameter> output_dtype;
  std::optional<InferParameter> timeout;
  std::optional<InferParameter> empty_final;
  std::optional<InferParameter> top_k;
  std::optional<InferParameter> log_sum_exp;
  std::optional<InferParameter> entropy;
  std::optional<std::string> unknown;  // the first key that is none of these, nor ignored
  std::uint64_t parameters = 0;        // entries, those of inputs and outputs, too

  absl::InlinedVector<RawInferInput, 1> inputs;
  absl::InlinedVector<RawInferOutput, 1> outputs;
  struct Bytes {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
  };
  absl::InlinedVector<Bytes, 1> raw;

  // Where the walk stands, for the message when it fails.
  const char* field = "message";
};

// Reads one ModelInferRequest up to the cursor's limit, as the generated parser would have it. False: malformed, or
// beyond one of bounds.h, and cursor->fault() says why.
bool WalkInferRequest(WireCursor* cursor, RawInferRequest* request);

}  // namespace softmax

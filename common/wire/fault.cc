#include "common/wire/fault.h"

#include <absl/strings/str_cat.h>

#include "common/wire/walk.h"

namespace softmax {
namespace {

const char* FieldName(const RawRequest& request) {
  static constexpr const char* kRequestFields[] = {"",        "id",           "operation",    "axis",
                                                   "scale",   "output_dtype", "lengths",      "timeout_us",
                                                   "summary", "output_place", "summary_place"};
  static constexpr const char* kTensorFields[] = {"", "input.dtype", "input.shape", "input.place"};
  static constexpr const char* kSummaryFields[] = {
      "", "summary.top_k", "summary.indices", "summary.log_sum_exp", "summary.entropy", "summary.full"};
  const std::uint32_t number = request.tag >> 3;
  if (request.in_place != nullptr) {
    return request.in_place == &request.input_place    ? "input.place"
           : request.in_place == &request.output_place ? "output_place"
                                                       : "summary_place";
  }
  if (request.in_summary) return number >= 1 && number <= 5 ? kSummaryFields[number] : "summary";
  if (number == 15) return request.in_input ? "input.data" : "input";
  if (request.in_input) return number >= 1 && number <= 3 ? kTensorFields[number] : "input";
  return number >= 1 && number <= 10 ? kRequestFields[number] : "request";
}

std::string DescribeFaultItself(const WireCursor& cursor) {
  const std::uint64_t value = cursor.fault_value();
  switch (cursor.fault()) {
    case WireFault::kTruncated:
      return "the message ends inside a field";
    case WireFault::kLongVarint:
      return "a varint is longer than 10 bytes";
    case WireFault::kLongTag:
      return "a tag is longer than 5 bytes";
    case WireFault::kLongLength:
      return "a length is 2147483648 or more, or longer than 5 bytes; must be below 2147483648";
    case WireFault::kLengthPastEnd:
      return absl::StrCat("a length is ", value, "; must be at most ", cursor.remaining(), ", which is what is left");
    case WireFault::kFieldZero:
      return "a field number is 0; must be at least 1";
    case WireFault::kWireType:
      return absl::StrCat("a wire type is ", value, "; must be 0 to 5");
    case WireFault::kStrayEndGroup:
      return absl::StrCat("group ", value, " ends, but is not the one that is open");
    case WireFault::kOpenGroup:
      return absl::StrCat("group ", value, " does not end");
    case WireFault::kDeepNesting:
      return absl::StrCat("groups lie in one another deeper than ", value);
    case WireFault::kPackedOverhang:
      return absl::StrCat("the last packed value runs past the field's length of ", value);
    case WireFault::kNotUtf8:
      return absl::StrCat("a string of ", value, " bytes is not UTF-8");
    case WireFault::kManyFields:
    case WireFault::kManyElements:
    case WireFault::kManyDimensions:
    case WireFault::kManyParameters:
    case WireFault::kLongText:
    case WireFault::kOutOfSteps:
    case WireFault::kNone:
      break;
  }
  return "malformed";
}

// What there is more of than a message may have; null: a fault of another kind.
const char* WhatIsMany(WireFault fault) {
  switch (fault) {
    case WireFault::kManyFields:
      return "fields, known or not, lone values of repeated numbers aside";
    case WireFault::kManyElements:
      return "elements";
    case WireFault::kManyDimensions:
      return "dimensions in one shape";
    case WireFault::kManyParameters:
      return "entries of parameters, those of all inputs and outputs together";
    case WireFault::kLongText:
      return "bytes in one string";
    default:
      return nullptr;
  }
}

}  // namespace

std::string DescribeFault(const WireCursor& cursor) {
  if (const char* const many = WhatIsMany(cursor.fault()); many != nullptr) {
    return absl::StrCat("reading ended at byte ", cursor.position(), ": has more than ", cursor.fault_value(), " ",
                        many, "; must have at most ", cursor.fault_value());
  }
  return absl::StrCat("malformed near byte ", cursor.position(), ": ", DescribeFaultItself(cursor));
}

std::string DescribeFault(const WireCursor& cursor, const RawRequest& request) {
  const bool is_whole = cursor.fault() == WireFault::kManyFields;
  return absl::StrCat(is_whole ? "request" : FieldName(request), ": ", DescribeFault(cursor));
}

}  // namespace softmax

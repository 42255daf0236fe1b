// libFuzzer over the arrays that softmax-client reads. Byte 0, its lowest two bits: 0 and 1 .npy, 2 CSV, 3 numbers with
// blanks between them. What is read comes back the same when it is written and read again.
#include <cmath>
#include <limits>
#include <string>

#include "client/cli/formats.h"
#include "tests/fuzz/require.h"

namespace softmax::client {
namespace {

using softmax::testing::Require;
using softmax::testing::RequireReason;

void CheckNpy(std::string_view bytes) {
  const absl::StatusOr<Array> array = ReadNpy(bytes);
  if (!array.ok()) {
    RequireReason(std::string(array.status().message()), bytes.size() + 400);
    return;
  }
  Require(!array->shape.empty() && array->shape.size() <= kMaxRank, "an array has 1 to 8 dimensions");
  Require(array->data.size() <= bytes.size(), "an array is no larger than its file");
  const std::string written = WriteNpy(*array);
  const absl::StatusOr<Array> again = ReadNpy(written);
  Require(again.ok(), "what is written can be read");
  Require(again->dtype == array->dtype && again->shape == array->shape && again->data == array->data,
          "and is the same");
}

void CheckRows(std::string_view text, Separator separator) {
  const absl::StatusOr<Array> array = ReadRows(text, separator);
  if (!array.ok()) {
    RequireReason(std::string(array.status().message()), 400);  // of 40 bytes each may be six
    return;
  }
  Require(array->shape.size() == 2 && CountOf(*array) == array->shape[0] * array->shape[1], "rows of one length");
  const absl::StatusOr<Array> again = ReadRows(WriteRows(*array, separator), separator);
  Require(again.ok() && again->shape == array->shape, "what is written can be read");
  for (std::int64_t i = 0; i < CountOf(*array); ++i) {
    const double a = ElementAt(*array, i);
    const double b = ElementAt(*again, i);
    Require(a == b || (std::isnan(a) && std::isnan(b)), "and is the same");
  }
}

}  // namespace
}  // namespace softmax::client

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const softmax::testing::ExactCopy copy(data + 1, size - 1);
  if ((data[0] & 2) == 0) {
    softmax::client::CheckNpy(copy.text());
  } else {
    softmax::client::CheckRows(
        copy.text(), (data[0] & 1) == 0 ? softmax::client::Separator::kComma : softmax::client::Separator::kSpace);
  }
  return 0;
}

#include "tests/common/wire/native_comparison.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "tests/common/wire/sliced_message.h"

namespace softmax::testing {

WireLimits TightLimits() {
  WireLimits limits;
  limits.max_request_bytes = 400;
  limits.max_response_bytes = 500;
  limits.max_rank = 6;
  limits.max_rows = 60;
  limits.max_columns = 60;
  limits.max_top_k = 20;
  limits.max_tensor_bytes = 600;
  return limits;
}

bool LooksCompressed(const std::string& bytes) {
  const std::string magic = bytes.substr(0, 2);
  return magic == "\x1f\x8b" || magic == "\x78\x01" || magic == "\x78\x5e" || magic == "\x78\x9c" ||
         magic == "\x78\xda";
}

std::string FieldOf(const absl::Status& status) {
  return std::string(status.message().substr(0, status.message().find(':')));
}

bool SaysMalformed(const absl::Status& status) {
  return status.message().find("malformed near byte") != absl::string_view::npos;
}

std::string Hex(const std::string& bytes) {
  std::string out;
  for (const char c : bytes.substr(0, 200)) {
    out += "0123456789abcdef"[static_cast<std::uint8_t>(c) >> 4];
    out += "0123456789abcdef"[static_cast<std::uint8_t>(c) & 15];
  }
  return out;
}

void ExpectEqualToModel(const std::string& bytes, Slices slices, const DecodedRequest& decoded,
                        const v1::SoftmaxRequest& parsed, const Verdict& verdict) {
  ASSERT_TRUE(decoded.status.ok()) << decoded.status;
  EXPECT_EQ(decoded.timeout_us, parsed.timeout_us());
  ASSERT_EQ(decoded.rank, static_cast<std::uint32_t>(parsed.input().shape_size()));
  for (std::uint32_t i = 0; i < 8; ++i) {
    EXPECT_EQ(decoded.shape[i], i < decoded.rank ? parsed.input().shape(i) : 0);
  }
  DecodedRequest expected = decoded;
  expected.spec = verdict.spec;
  expected.lengths = verdict.lengths;
  expected.indices = verdict.indices;
  EXPECT_EQ(Difference(decoded, expected), "");
  const auto expect_place = [](bool is_there, const WirePlace& place, const v1::Place& sent) {
    if (!is_there) return;
    EXPECT_EQ(std::string(place.region.begin(), place.region.end()), sent.region());
    EXPECT_EQ(place.offset, sent.offset());
  };
  expect_place(decoded.spec.input_in_region, decoded.input_place, parsed.input().place());
  expect_place(decoded.spec.output_in_region, decoded.output_place, parsed.output_place());
  expect_place(decoded.spec.summary_in_region, decoded.summary_place, parsed.summary_place());
  ASSERT_LE(decoded.payload_offset + decoded.spec.received_bytes(), bytes.size());
  EXPECT_EQ(Payload(slices, decoded), parsed.input().data());
}

void Compare(const std::string& bytes, Slices slices, const DecodedRequest& decoded, const WireLimits& limits,
             NativeTally* tally) {
  v1::SoftmaxRequest parsed;
  if (!parsed.ParseFromString(bytes)) {
    ++tally->refused_by_parser;
    EXPECT_TRUE(SaysMalformed(decoded.status) || LooksCompressed(bytes)) << decoded.status;
    EXPECT_FALSE(decoded.status.ok());
    return;
  }
  EXPECT_EQ(decoded.id, parsed.id());
  const Verdict verdict = Judge(parsed, limits);
  if (verdict.field.empty()) {
    ++tally->accepted;
    tally->with_lengths += verdict.spec.has_lengths;
    tally->with_indices += !verdict.indices.empty();
    tally->with_summary += verdict.spec.summary.any();
    tally->with_places += verdict.spec.in_regions();
    ExpectEqualToModel(bytes, slices, decoded, parsed, verdict);
    return;
  }
  ++tally->refused_by_contract;
  if (LooksCompressed(bytes)) return;
  EXPECT_EQ(decoded.status.code(), absl::StatusCode::kInvalidArgument) << decoded.status;
  EXPECT_FALSE(SaysMalformed(decoded.status)) << decoded.status;
  EXPECT_EQ(FieldOf(decoded.status), verdict.field) << decoded.status;
}

}  // namespace softmax::testing

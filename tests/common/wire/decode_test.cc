#include "common/wire/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/common/wire/counting_new.h"
#include "tests/common/wire/sliced_message.h"
#include "tests/support/wire_builder.h"

namespace softmax::testing {
namespace {

using kernels::DataType;
using kernels::Operation;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

DecodedRequest Decode(const std::string& bytes, const WireLimits& limits = {}) {
  const SlicedMessage message(bytes);
  DecodedRequest request;
  DecodeRequest(message.slices(), limits, &request);
  return request;
}

std::string Message(const DecodedRequest& request) { return std::string(request.status.message()); }

TEST(WireDecode, EveryFieldArrives) {
  const std::string data = "0123456789abcdefghijklmn";
  const std::string bytes = Scalar(1, -1) + Scalar(2, 2) + Scalar(3, -2) + Double(4, 0.25) + Scalar(5, 4) +
                            Lengths({2, 0, 1}) + Scalar(7, 0xffffffff) +
                            Input(Dtype(1) + Shape({2, 3}) + Block(15, data));
  const SlicedMessage message(bytes, {3, 20, 1, 1, 0, 30});
  DecodedRequest request;
  DecodeRequest(message.slices(), {}, &request);
  ASSERT_TRUE(request.status.ok()) << request.status;
  EXPECT_TRUE(request.has_id);
  EXPECT_EQ(request.id, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(request.timeout_us, 0xffffffffu);
  EXPECT_EQ(request.spec.input_type, DataType::kFloat32);
  EXPECT_EQ(request.spec.output_type, DataType::kFloat64);
  EXPECT_EQ(request.spec.operation, Operation::kLogSoftmax);
  EXPECT_EQ(request.spec.scale, 0.25);
  EXPECT_EQ(request.spec.outer, 1);
  EXPECT_EQ(request.spec.cols, 2);
  EXPECT_EQ(request.spec.inner, 3);
  EXPECT_TRUE(request.spec.has_lengths);
  EXPECT_THAT(request.lengths, ElementsAre(2, 0, 1));
  EXPECT_EQ(request.rank, 2u);
  EXPECT_THAT(request.shape, ElementsAre(2, 3, 0, 0, 0, 0, 0, 0));
  EXPECT_EQ(Payload(message.slices(), request), data);
}

TEST(WireDecode, AReusedResultKeepsNothing) {
  DecodedRequest request = Decode(Scalar(1, 5) + Scalar(7, 9) + Lengths({1}) + Input(Tensor(1, {1, 2}, 8)));
  ASSERT_TRUE(request.status.ok());
  const SlicedMessage next(Input(Tensor(4, {3}, 24)));
  DecodeRequest(next.slices(), {}, &request);
  ASSERT_TRUE(request.status.ok());
  EXPECT_EQ(Difference(request, Decode(Input(Tensor(4, {3}, 24)))), "");
  EXPECT_FALSE(request.has_id);
  EXPECT_TRUE(request.lengths.empty());
}

TEST(WireDecode, AGoodRequestMayNotHaveMuchBesideIt) {
  WireLimits limits;
  limits.max_request_bytes = 64;
  limits.max_message_bytes = 200;
  const std::string good = Input(Tensor(1, {16}, 64));
  const auto with_unknown = [&](const std::string& request, std::size_t bytes) {
    return Decode(request + Block(50, std::string(bytes, 'x')), limits).status;
  };
  EXPECT_EQ(with_unknown(good, 10), absl::OkStatus());
  const std::string at_limit = good + Block(50, std::string(200 - good.size() - 3, 'x'));
  ASSERT_EQ(at_limit.size(), 200u);
  EXPECT_EQ(Decode(at_limit, limits).status, absl::OkStatus());
  const absl::Status beyond = Decode(at_limit + Scalar(51, 1), limits).status;
  EXPECT_EQ(beyond, absl::ResourceExhaustedError("message: has 203 bytes; must be at most 200"));
  // What is wrong with the request itself is said at every size of the message.
  for (const std::int64_t columns : {17, 40, 60, 10000}) {
    const absl::Status status =
        Decode(Input(Tensor(1, {columns}, static_cast<std::size_t>(columns) * 4)), limits).status;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << columns;
    EXPECT_THAT(std::string(status.message()), HasSubstr("must be at most 64 (max_request_bytes)")) << columns;
  }
  EXPECT_EQ(with_unknown(Scalar(1, 1), 1000).code(), absl::StatusCode::kInvalidArgument);
}

TEST(WireDecode, AnEncodingThatGrpcDoesNotKnowIsNamedByItsFirstBytes) {
  for (const auto& [name, begin] : {std::pair{"zstd", std::string("\x28\xb5\x2f\xfd")},
                                    {"snappy", std::string("\xff\x06\0\0sNaPpY", 10)},
                                    {"lz4", std::string("\x04\x22\x4d\x18")},
                                    {"bzip2", std::string("BZh91AY&SY")},
                                    {"gzip", std::string("\x1f\x8b\x08")},
                                    {"deflate", std::string("\x78\x9c")}}) {
    const absl::Status status = Decode(begin + std::string(50, '\xfe')).status;
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << name << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(name));
  }
}

TEST(WireDecode, EachLimitIsMetToTheLastAndRefusedBeyond) {
  const auto code_of = [](const std::string& bytes, const WireLimits& limits) {
    return Message(Decode(bytes, limits));
  };
  const std::string bytes = Input(Tensor(1, {3, 5}, 60));
  WireLimits limits;
  limits.max_request_bytes = 60;
  limits.max_response_bytes = 60;
  limits.max_rank = 2;
  limits.max_rows = 3;
  limits.max_columns = 5;
  EXPECT_EQ(code_of(bytes, limits), "");
  WireLimits tight = limits;
  tight.max_request_bytes -= 1;
  EXPECT_THAT(code_of(bytes, tight), HasSubstr("(max_request_bytes)"));
  tight = limits;
  tight.max_response_bytes -= 1;
  EXPECT_EQ(code_of(bytes, tight),
            "output_dtype: 1 makes an answer of 60 bytes; must be at most 59 (max_response_bytes)");
  tight = limits;
  tight.max_rank = 1;
  EXPECT_EQ(code_of(bytes, tight), "input.shape: has rank 2; must be 1 to 1 (max_rank)");
  tight = limits;
  tight.max_rows = 2;
  EXPECT_THAT(code_of(bytes, tight), HasSubstr("[3, 5] has 3 rows; must be at most 2 (max_rows)"));
  tight = limits;
  tight.max_columns = 4;
  EXPECT_THAT(code_of(bytes, tight), HasSubstr("must be at most 4 (max_columns)"));
}

TEST(WireDecode, AnAnswerMustFitOneMessageWhateverTheConfigSays) {
  WireLimits limits;
  limits.max_response_bytes = std::numeric_limits<std::uint64_t>::max();
  limits.max_request_bytes = std::numeric_limits<std::uint64_t>::max();
  // One shared payload, so that 512 MiB of fp16 cost no memory: 2^28 elements make 2 GiB of fp64.
  const std::int64_t elements = std::int64_t{1} << 28;
  static const std::vector<std::uint8_t> chunk(1 << 20);
  const std::uint64_t data_size = static_cast<std::uint64_t>(elements) * 2;
  const std::string tensor = Dtype(2) + Shape({elements}) + Tag(15, 2) + Varint(data_size);
  const std::string head = Scalar(5, 4) + Tag(15, 2) + Varint(tensor.size() + data_size) + tensor;
  std::vector<std::span<const std::uint8_t>> slices;
  slices.emplace_back(reinterpret_cast<const std::uint8_t*>(head.data()), head.size());
  for (std::uint64_t at = 0; at < data_size; at += chunk.size()) slices.emplace_back(chunk);
  DecodedRequest request;
  DecodeRequest(slices, limits, &request);
  EXPECT_THAT(Message(request), HasSubstr("makes an answer of 2147483648 bytes"));
  EXPECT_EQ(request.status.code(), absl::StatusCode::kInvalidArgument);
}

TEST(WireDecode, ARequestWithoutLengthsTakesNoMemory) {
  const SlicedMessage message(Scalar(1, 9) + Scalar(3, 0) + Input(Tensor(1, {4, 4}, 64)), {7, 30});
  DecodedRequest request;
  const HeapUse before = HeapUseSoFar();
  DecodeRequest(message.slices(), {}, &request);
  EXPECT_EQ(HeapUseSoFar().allocations - before.allocations, 0u);
  ASSERT_TRUE(request.status.ok());
}

TEST(WireDecode, LengthsThatAreRefusedTakeNoMemoryHoweverMany) {
  const std::string bytes = Block(6, std::string(10'000'000, '\1')) + Input(Tensor(1, {2, 3}, 24));
  const SlicedMessage message(bytes);
  DecodedRequest request;
  const HeapUse before = HeapUseSoFar();
  DecodeRequest(message.slices(), {}, &request);
  EXPECT_LE(HeapUseSoFar().bytes - before.bytes, 2000u);  // the message of the status
  EXPECT_THAT(Message(request), HasSubstr("lengths: has 10000000 values"));
}

TEST(WireDecode, LengthsThatAreTakenCostTheirSizeOnce) {
  const SlicedMessage message(Lengths(std::vector<std::int64_t>(1000, 1)) + Input(Tensor(1, {1000, 1}, 4000)));
  DecodedRequest request;
  const HeapUse before = HeapUseSoFar();
  DecodeRequest(message.slices(), {}, &request);
  ASSERT_TRUE(request.status.ok()) << request.status;
  EXPECT_EQ(HeapUseSoFar().bytes - before.bytes, 4000u);
}

TEST(WireDecode, AMalformedRequestKeepsTheIdThatCameBefore) {
  const DecodedRequest request = Decode(Scalar(1, 123) + Tag(7, 0));
  EXPECT_TRUE(request.has_id);
  EXPECT_EQ(request.id, 123u);
  EXPECT_EQ(Message(request), "timeout_us: malformed near byte 3: the message ends inside a field");
}

TEST(WireDecode, RefusalsNameFieldValueAndLimit) {
  const std::string input = Input(Tensor(1, {3, 8}, 96));
  const std::pair<std::string, std::string> table[] = {
      {Lengths({9, 4, 9}) + input, "lengths: value 0 is 9; must be at most 8, the axis length"},
      {Lengths({4, 9, 10}) + input, "lengths: value 2 is 10; must be at most 8, the axis length"},
      {Lengths({4, 9}) + input, "lengths: has 2 values; must be 0 or 3, one per row"},
      {Scalar(3, 2) + input, "axis: is 2; must be -2 to 1 at rank 2"},
      {Double(4, -0.5) + input, "scale: is -0.5; must be finite and > 0"},
      {Input(Tensor(1, {3, -4}, 96)), "input.shape: dimension 1 is -4; must be >= 0"},
      {Input(Tensor(2, {3, 8}, 96)), "input.data: has 96 bytes; must be 48 for shape [3, 8] of 2-byte elements"},
      {Input(Tensor(1, {0, 1ll << 40, 1ll << 40}, 0)),
       "input.shape: the product of the dimensions that are not 0 passes 1152921504606846975 at "
       "dimension 2, which is 1099511627776; must be at most 1152921504606846975"},
      {Tag(11, 2) + Varint(1u << 31) + input,
       "request: malformed near byte 6: a length is 2147483648 or more, or longer than 5 bytes; "
       "must be below 2147483648"},
      {Tag(11, 2) + Varint(0x7fffffff),
       "request: malformed near byte 6: a length is 2147483647; must be at most 0, which is what "
       "is left"},
      {Input(Tensor(1, {1}, 4)) + Tag(2, 7), "operation: malformed near byte 14: a wire type is 7; must be 0 to 5"},
      {Input(Tag(2, 7)), "input.shape: malformed near byte 3: a wire type is 7; must be 0 to 5"},
  };
  for (const auto& [bytes, reason] : table) EXPECT_EQ(Message(Decode(bytes)), reason);
}

TEST(WireDecode, NoConfigRaisesTheRankAboveEight) {
  WireLimits limits;
  limits.max_rank = 100;
  EXPECT_TRUE(Decode(Input(Tensor(1, std::vector<std::int64_t>(8, 1), 4)), limits).status.ok());
  EXPECT_EQ(Message(Decode(Input(Tensor(1, std::vector<std::int64_t>(9, 1), 4)), limits)),
            "input.shape: has rank 9; must be 1 to 8 (max_rank)");
}

}  // namespace
}  // namespace softmax::testing

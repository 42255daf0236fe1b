#include "client/softmax_client/wire.h"

#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <random>

#include "softmax/v1/softmax.pb.h"

namespace softmax::client {
namespace {

std::vector<std::span<const std::uint8_t>> Cut(const std::string& bytes, const std::vector<std::size_t>& at) {
  std::vector<std::span<const std::uint8_t>> pieces;
  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  std::size_t from = 0;
  for (const std::size_t to : at) {
    pieces.emplace_back(data + from, to - from);
    from = to;
  }
  pieces.emplace_back(data + from, bytes.size() - from);
  return pieces;
}

TEST(WireTest, GeneratedParserReadsWhatWeWrite) {
  const std::vector<std::int64_t> shape = {3, 300, 1};
  const std::vector<std::uint32_t> lengths = {0, 300, 4000000000u};
  const std::string data(3 * 300 * 2, 'x');
  RequestFields fields;
  fields.id = 0xffffffffffffffffull;
  fields.operation = Operation::kLogSoftmax;
  fields.axis = -2;
  fields.scale = 0.125;
  fields.output_dtype = DataType::kFloat64;
  fields.lengths = lengths;
  fields.timeout_us = 250000;
  fields.dtype = DataType::kBFloat16;
  fields.shape = shape;
  fields.data_bytes = data.size();
  std::string bytes;
  AppendRequestHeader(fields, Framing::kUnary, &bytes);
  softmax::v1::SoftmaxRequest parsed;
  ASSERT_TRUE(parsed.ParseFromString(bytes + data));
  EXPECT_EQ(parsed.id(), fields.id);
  EXPECT_EQ(parsed.operation(), softmax::v1::OPERATION_LOG_SOFTMAX);
  ASSERT_TRUE(parsed.has_axis());
  EXPECT_EQ(parsed.axis(), -2);
  ASSERT_TRUE(parsed.has_scale());
  EXPECT_EQ(parsed.scale(), 0.125);
  EXPECT_EQ(parsed.output_dtype(), softmax::v1::DATA_TYPE_FLOAT64);
  EXPECT_EQ(std::vector<std::uint32_t>(parsed.lengths().begin(), parsed.lengths().end()), lengths);
  EXPECT_EQ(parsed.timeout_us(), 250000u);
  EXPECT_EQ(parsed.input().dtype(), softmax::v1::DATA_TYPE_BFLOAT16);
  EXPECT_EQ(std::vector<std::int64_t>(parsed.input().shape().begin(), parsed.input().shape().end()), shape);
  EXPECT_EQ(parsed.input().data(), data);
  // The canonical bytes, so that data stands last.
  EXPECT_EQ(parsed.SerializeAsString(), bytes + data);
}

TEST(WireTest, UnsetFieldsStayUnset) {
  const std::vector<std::int64_t> shape = {0};
  RequestFields fields;
  fields.shape = shape;
  std::string bytes;
  AppendRequestHeader(fields, Framing::kUnary, &bytes);
  softmax::v1::SoftmaxRequest parsed;
  ASSERT_TRUE(parsed.ParseFromString(bytes));
  EXPECT_FALSE(parsed.has_axis());
  EXPECT_FALSE(parsed.has_scale());
  EXPECT_EQ(parsed.lengths_size(), 0);
  EXPECT_EQ(parsed.input().shape_size(), 1);
  EXPECT_TRUE(parsed.input().data().empty());
}

TEST(WireTest, StreamElementsAddUpToOneMessage) {
  const std::vector<std::int64_t> shape = {1, 100};
  std::string bytes;
  for (std::uint64_t id = 1; id <= 3; ++id) {
    RequestFields fields;
    fields.id = id;
    fields.shape = shape;
    fields.data_bytes = 400;
    AppendRequestHeader(fields, Framing::kStreamElement, &bytes);
    bytes.append(400, static_cast<char>('a' + id));
  }
  softmax::v1::SoftmaxStreamRequest parsed;
  ASSERT_TRUE(parsed.ParseFromString(bytes));
  ASSERT_EQ(parsed.requests_size(), 3);
  EXPECT_EQ(parsed.requests(2).id(), 3u);
  EXPECT_EQ(parsed.requests(2).input().data(), std::string(400, 'd'));
}

softmax::v1::SoftmaxResponse SomeResponse() {
  softmax::v1::SoftmaxResponse response;
  response.set_id(77);
  response.mutable_timing()->set_queue_ns(1);
  response.mutable_timing()->set_batch_ns(200);
  response.mutable_timing()->set_execution_ns(1ull << 40);
  response.mutable_timing()->set_batch_rows(9);
  response.mutable_output()->set_dtype(softmax::v1::DATA_TYPE_FLOAT16);
  response.mutable_output()->add_shape(2);
  response.mutable_output()->add_shape(150);
  std::string data;
  for (int i = 0; i < 600; ++i) data.push_back(static_cast<char>(i * 7));
  response.mutable_output()->set_data(data);
  return response;
}

TEST(WireTest, ReadsAnswersCutAnywhere) {
  const softmax::v1::SoftmaxResponse response = SomeResponse();
  const std::string bytes = response.SerializeAsString();
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    const auto pieces = Cut(bytes, {cut, cut, std::min(cut + 1, bytes.size())});
    ResponseFields fields;
    ASSERT_TRUE(DecodeResponse(pieces, &fields).ok());
    EXPECT_EQ(fields.id, 77u);
    EXPECT_EQ(fields.code, 0);
    EXPECT_EQ(fields.timing.queue_ns, 1u);
    EXPECT_EQ(fields.timing.batch_ns, 200u);
    EXPECT_EQ(fields.timing.execution_ns, 1ull << 40);
    EXPECT_EQ(fields.timing.batch_rows, 9u);
    EXPECT_EQ(fields.dtype, 2u);
    ASSERT_EQ(fields.rank, 2u);
    EXPECT_EQ(fields.shape[1], 150);
    ASSERT_EQ(fields.payload_bytes, 600u);
    std::string data(600, 0);
    CopyFromSlices(pieces, fields.payload_offset, data.size(), data.data());
    ASSERT_EQ(data, response.output().data());
    const auto expected = std::as_bytes(std::span(data));
    EXPECT_TRUE(EqualsPieces(pieces, fields.payload_offset, expected));
    data[599] = static_cast<char>(data[599] ^ 1);
    EXPECT_FALSE(EqualsPieces(pieces, fields.payload_offset, expected));
  }
}

TEST(WireTest, ReadsErrorsOfAStream) {
  softmax::v1::SoftmaxStreamResponse message;
  *message.add_responses() = SomeResponse();
  softmax::v1::SoftmaxResponse* refused = message.add_responses();
  refused->set_id(5);
  refused->mutable_status()->set_code(8);
  refused->mutable_status()->set_message("queue: full");
  refused->mutable_status()->set_retry_after_ms(20);
  const std::string bytes = message.SerializeAsString();
  std::vector<ResponseFields> responses;
  ASSERT_TRUE(DecodeStreamResponse(Cut(bytes, {3, 10}), &responses).ok());
  ASSERT_EQ(responses.size(), 2u);
  EXPECT_EQ(responses[0].payload_bytes, 600u);
  EXPECT_EQ(responses[1].id, 5u);
  EXPECT_EQ(responses[1].code, 8);
  EXPECT_EQ(responses[1].message, "queue: full");
  EXPECT_EQ(responses[1].retry_after_ms, 20u);
  EXPECT_FALSE(responses[1].has_output);
}

TEST(WireTest, EveryTruncationOfAnAnswerIsAnErrorOrItsOwnMessage) {
  const std::string bytes = SomeResponse().SerializeAsString();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const std::string part = bytes.substr(0, size);
    softmax::v1::SoftmaxResponse generated;
    ResponseFields fields;
    EXPECT_EQ(DecodeResponse(Cut(part, {size / 2}), &fields).ok(), generated.ParseFromString(part)) << size;
  }
}

// Whatever bytes come: no crash, never a payload outside the message, and what the generated parser
// takes we take too with the same values. (We are more lenient in what we skip and stricter on more
// than 8 dimensions and on groups.)
TEST(WireTest, MutatedAnswersAgreeWithTheGeneratedParser) {
  const std::string bytes = SomeResponse().SerializeAsString();
  std::mt19937_64 random(1);
  const google::protobuf::LogSilencer quiet;  // it reports every text that is not UTF-8
  int agreed = 0;
  for (int i = 0; i < 200000; ++i) {
    std::string mutated = bytes;
    if (random() % 4 == 0) mutated.resize(60 + random() % 540);
    for (std::uint64_t n = 1 + random() % 3; n > 0; --n) {
      mutated[random() % std::min<std::size_t>(48, mutated.size())] = static_cast<char>(random());
    }
    ResponseFields fields;
    const bool ours = DecodeResponse(Cut(mutated, {random() % mutated.size()}), &fields).ok();
    softmax::v1::SoftmaxResponse generated;
    const bool theirs = generated.ParseFromString(mutated);
    if (!ours) continue;
    ASSERT_LE(fields.payload_offset + fields.payload_bytes, mutated.size());
    if (!theirs) continue;
    ++agreed;
    ASSERT_EQ(fields.id, generated.id());
    ASSERT_EQ(fields.code, generated.status().code());
    ASSERT_EQ(fields.payload_bytes, generated.output().data().size());
    ASSERT_EQ(mutated.substr(fields.payload_offset, fields.payload_bytes), generated.output().data());
    ASSERT_EQ(static_cast<int>(fields.rank), generated.output().shape_size());
  }
  EXPECT_GT(agreed, 1000);  // the mutations are mild enough to reach the fields
}

}  // namespace
}  // namespace softmax::client

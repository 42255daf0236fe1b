#include "common/wire/encode.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <string>

#include "common/wire/decode.h"
#include "softmax/v1/softmax.pb.h"

namespace softmax::testing {
namespace {

// Small, large, zero: every length of varint.
std::uint64_t AnyNumber(std::mt19937_64& random) { return random() % 4 == 0 ? 0 : random() >> (random() % 64); }

WirePlace AnyPlace(std::mt19937_64& random) {
  WirePlace place;
  for (std::uint8_t& byte : place.region) byte = static_cast<std::uint8_t>(random());
  place.offset = AnyNumber(random);
  return place;
}

v1::Place ToProto(const WirePlace& place) {
  v1::Place proto;
  proto.set_region(std::string(place.region.begin(), place.region.end()));
  proto.set_offset(place.offset);
  return proto;
}

DecodedRequest AnyRequest(std::mt19937_64& random) {
  DecodedRequest request;
  request.id = AnyNumber(random);
  request.spec.output_type = static_cast<kernels::DataType>(1 + random() % 4);
  request.rank = 1 + random() % 8;
  request.spec.outer = 1;
  const bool large_last = random() % 4 == 0;
  for (std::uint32_t i = 0; i < request.rank; ++i) {
    request.shape[i] = static_cast<std::int64_t>(random() % (random() % 16 == 0 ? 3 : 4));
    if (random() % 2 == 0) request.shape[i] = 1;
  }
  if (large_last) request.shape[request.rank - 1] = static_cast<std::int64_t>(random() % 20000);
  for (std::uint32_t i = 0; i + 1 < request.rank; ++i) request.spec.outer *= request.shape[i];
  request.spec.cols = request.shape[request.rank - 1];
  if (random() % 2 == 0) {
    SummarySpec& summary = request.spec.summary;
    summary.top_k = random() % 2 == 0 ? random() % 300 : 0;
    summary.at = static_cast<std::int64_t>(random() % 3);
    summary.log_sum_exp = random() % 2 == 0;
    summary.entropy = random() % 2 == 0;
    summary.partial = summary.top_k > 0 || summary.at > 0 || summary.log_sum_exp || summary.entropy;
    summary.full = random() % 3 == 0;
    request.spec.input_type = random() % 3 == 0 ? kernels::DataType::kFloat64 : kernels::DataType::kFloat32;
  }
  request.spec.output_in_region = request.spec.has_tensor() && random() % 4 == 0;
  request.spec.summary_in_region = request.spec.summary.any() && random() % 4 == 0;
  request.output_place = AnyPlace(random);
  request.summary_place = AnyPlace(random);
  return request;
}

// The header with the parts of the payload in their places; each has a letter of its own.
std::string Assembled(const std::string& header, const AnswerParts& parts, const SummaryLayout& layout) {
  std::string answer;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < parts.count; ++i) {
    const AnswerParts::Part& part = parts.part[i];
    answer += header.substr(begin, part.header_end - begin);
    begin = part.header_end;
    char letter = 't';
    for (int p = 0; part.of_summary && p < SummaryLayout::kParts; ++p) {
      if (layout.bytes[p] > 0 && layout.offset[p] == part.offset) letter = static_cast<char>('0' + p);
    }
    answer.append(part.bytes, letter);
  }
  return answer + header.substr(begin);
}

v1::SoftmaxResponse Expected(const DecodedRequest& request, const AnswerTiming& timing) {
  v1::SoftmaxResponse response;
  response.set_id(request.id);
  response.mutable_timing()->set_queue_ns(timing.queue_ns);
  response.mutable_timing()->set_batch_ns(timing.batch_ns);
  response.mutable_timing()->set_execution_ns(timing.execution_ns);
  response.mutable_timing()->set_batch_rows(timing.batch_rows);
  const TensorSpec& spec = request.spec;
  if (spec.summary.any()) {
    const SummaryLayout layout = spec.summary_layout();
    const auto part = [&](int p) { return std::string(layout.bytes[p], static_cast<char>('0' + p)); };
    v1::Summary* summary = response.mutable_summary();
    if (spec.summary_in_region) {
      *summary->mutable_place() = ToProto(request.summary_place);
    } else {
      summary->set_top_values(part(SummaryLayout::kTopValues));
      summary->set_top_indices(part(SummaryLayout::kTopIndices));
      summary->set_values_at(part(SummaryLayout::kValuesAt));
      summary->set_log_sum_exp(part(SummaryLayout::kLogSumExp));
      summary->set_maximum(part(SummaryLayout::kMaximum));
      summary->set_entropy(part(SummaryLayout::kEntropy));
    }
  }
  if (!spec.has_tensor()) return response;
  v1::Tensor* output = response.mutable_output();
  output->set_dtype(static_cast<v1::DataType>(spec.output_type));
  for (std::uint32_t i = 0; i < request.rank; ++i) output->add_shape(request.shape[i]);
  if (spec.output_in_region) {
    *output->mutable_place() = ToProto(request.output_place);
  } else {
    output->set_data(std::string(spec.tensor_bytes(), 't'));
  }
  return response;
}

TEST(WireEncode, AnAnswerIsWhatTheGeneratedSerializerWrites) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 20000; ++round) {
    const DecodedRequest request = AnyRequest(random);
    const AnswerTiming timing = {AnyNumber(random), AnyNumber(random), AnyNumber(random), AnyNumber(random)};
    const SummaryLayout layout = request.spec.summary_layout();
    const v1::SoftmaxResponse expected = Expected(request, timing);

    std::string unary = "kept";
    AnswerParts parts;
    EncodeAnswerHeader(request, timing, false, &unary, &parts);
    ASSERT_EQ(Assembled(unary, parts, layout), "kept" + expected.SerializeAsString()) << expected.ShortDebugString();

    v1::SoftmaxStreamResponse stream;
    *stream.add_responses() = expected;
    std::string element;
    EncodeAnswerHeader(request, timing, true, &element, &parts);
    ASSERT_EQ(Assembled(element, parts, layout), stream.SerializeAsString());
  }
}

TEST(WireEncode, HeadersStayBelowTheReserveThatTheDecoderKeeps) {
  DecodedRequest request;
  request.id = ~0ull;
  request.spec.output_type = kernels::DataType::kFloat64;
  request.rank = 8;
  for (std::int64_t& dimension : request.shape) {
    dimension = std::numeric_limits<std::int64_t>::max();
  }
  request.spec.outer = 1;
  request.spec.cols = (std::int64_t{1} << 28) - 21;
  request.spec.summary = {1, 1, true, true, true, true};
  std::string header;
  AnswerParts parts;
  EncodeAnswerHeader(request, {~0ull, ~0ull, ~0ull, ~0ull}, true, &header, &parts);
  EXPECT_LE(header.size(), 226u);
  EXPECT_GE(header.size(), 160u);
  request.spec.output_in_region = true;
  request.output_place.offset = ~0ull;
  header.clear();
  EncodeAnswerHeader(request, {~0ull, ~0ull, ~0ull, ~0ull}, true, &header, &parts);
  EXPECT_LE(header.size(), 226u);
  EXPECT_GE(header.size(), 180u);
}

TEST(WireEncode, AStreamsErrorIsWhatTheGeneratedSerializerWrites) {
  std::mt19937_64 random(8);
  for (int round = 0; round < 5000; ++round) {
    const std::uint64_t id = AnyNumber(random);
    const auto retry = static_cast<std::uint32_t>(AnyNumber(random));
    const std::string text(random() % 300, 'm');
    const int code = 1 + static_cast<int>(random() % 16);
    v1::SoftmaxStreamResponse expected;
    v1::SoftmaxResponse* response = expected.add_responses();
    response->set_id(id);
    response->mutable_status()->set_code(code);
    response->mutable_status()->set_message(text);
    response->mutable_status()->set_retry_after_ms(retry);
    std::string out = "kept";
    EncodeStreamError(id, absl::Status(static_cast<absl::StatusCode>(code), text), retry, &out);
    ASSERT_EQ(out, "kept" + expected.SerializeAsString());
  }
}

TEST(WireEncode, AStreamsErrorIsAlwaysUtf8) {
  std::string out;
  EncodeStreamError(1, absl::InternalError("bad \xff\xc3 byte"), 0, &out);
  v1::SoftmaxStreamResponse parsed;
  ASSERT_TRUE(parsed.ParseFromString(out));
  EXPECT_EQ(parsed.responses(0).status().message(), "bad ?? byte");
}

}  // namespace
}  // namespace softmax::testing

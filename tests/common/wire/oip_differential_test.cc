#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/wire/decode.h"
#include "common/wire/encode.h"
#include "common/wire/oip_decode.h"
#include "common/wire/oip_encode.h"
#include "common/wire/oip_models.h"
#include "inference/inference.pb.h"
#include "tests/common/wire/damage.h"
#include "tests/common/wire/oip_comparison.h"
#include "tests/common/wire/oip_model.h"
#include "tests/common/wire/same_verdict.h"
#include "tests/common/wire/sliced_message.h"
#include "tests/support/wire_builder.h"

// The Open Inference Protocol's decoder against the generated parser, followed by the rules as these classes say them,
// over random messages with random damage in random slices. Seeds are fixed: a failure repeats.
namespace softmax::testing {
namespace {

using inference::ModelInferRequest;

void SetAnyParameter(Random& random, inference::InferParameter* parameter) {
  switch (random() % 6) {
    case 0:
      parameter->set_bool_param(OneIn(random, 2));
      break;
    case 1:
      parameter->set_int64_param(static_cast<std::int64_t>(random() % 7) - 3);
      break;
    case 2:
      parameter->set_string_param(OneIn(random, 2) ? "FP16" : "x");
      break;
    case 3:
      parameter->set_double_param(OneIn(random, 3) ? -1.0 : 0.5);
      break;
    case 4:
      parameter->set_uint64_param(random() >> (random() % 64));
      break;
    default:
      break;
  }
}

void SetGoodParameters(Random& random, ModelInferRequest* request) {
  auto& parameters = *request->mutable_parameters();
  if (OneIn(random, 4)) parameters["axis"].set_int64_param(static_cast<std::int64_t>(random() % 4) - 2);
  if (OneIn(random, 4)) parameters["scale"].set_double_param(0.75);
  if (OneIn(random, 4)) parameters["output_dtype"].set_string_param(kOipTypes[random() % 4]);
  if (OneIn(random, 4)) parameters["timeout"].set_int64_param(static_cast<std::int64_t>(random() % 100000));
  if (OneIn(random, 4)) parameters["priority"].set_uint64_param(random());
  if (OneIn(random, 6)) parameters["sequence_id"].set_int64_param(1);
  if (OneIn(random, 6))
    parameters["top_k"].set_int64_param(static_cast<std::int64_t>(random() % 5) + !OneIn(random, 9));
  if (OneIn(random, 6)) parameters["log_sum_exp"].set_bool_param(!OneIn(random, 4));
  if (OneIn(random, 6)) parameters["entropy"].set_bool_param(!OneIn(random, 4));
  if (OneIn(random, 6)) parameters["triton_enable_empty_final_response"].set_bool_param(OneIn(random, 2));
}

std::string AnyEnding(Random& random) { return std::string(kInferEndings[random() % kInferOutputKinds]); }

constexpr const char* kVersions[] = {"2", "-1", "1.0", "01"};

// A parameter of an input or output.
const char* AnyKey(Random& random) {
  constexpr const char* kKeys[] = {"shared_memory_region", "shared_memory_offset", "x",
                                   "binary_data_size",     "binary_data",          "content_type"};
  return kKeys[random() % 6];
}

void AddInput(Random& random, bool typed, ModelInferRequest* request) {
  auto* const input = request->add_inputs();
  input->set_name("X" + (request->inputs_size() > 1 ? std::to_string(request->inputs_size()) : ""));
  if (OneIn(random, 60)) input->set_name(OneIn(random, 2) ? "Z" : "X");
  if (OneIn(random, 60)) input->set_name("X" + AnyEnding(random));
  const int dtype = typed ? (OneIn(random, 2) ? 1 : 4) : 1 + static_cast<int>(random() % 4);
  input->set_datatype(OneIn(random, 50) ? "INT8" : kOipTypes[static_cast<std::size_t>(dtype - 1)]);
  const int rank = 1 + static_cast<int>(random() % (OneIn(random, 20) ? 9 : 3));
  std::int64_t elements = 1;
  for (int i = 0; i < rank; ++i) {
    const auto dim = static_cast<std::int64_t>(random() % 4) + (OneIn(random, 10) ? 0 : 1);
    input->add_shape(OneIn(random, 80) ? static_cast<std::int64_t>(random()) : dim);
    elements *= dim;
  }
  if (OneIn(random, 30)) ++elements;
  while (OneIn(random, 40)) (*input->mutable_parameters())[AnyKey(random)];
  if (typed) {
    for (std::int64_t i = 0; i < elements; ++i) {
      const double value = static_cast<double>(random() % 1000) / 8;
      if (dtype == 1) input->mutable_contents()->add_fp32_contents(static_cast<float>(value));
      if (dtype == 4) input->mutable_contents()->add_fp64_contents(value);
    }
    if (OneIn(random, 50)) input->mutable_contents()->add_int_contents(1);
    if (OneIn(random, 50)) input->mutable_contents()->add_bytes_contents("");
    return;
  }
  std::string data(static_cast<std::size_t>(elements) * OipSizeOf(dtype), '\0');
  for (char& c : data) c = static_cast<char>(random());
  request->add_raw_input_contents(data);
  if (OneIn(random, 80)) request->add_raw_input_contents("");
}

ModelInferRequest AnyRequest(Random& random) {
  ModelInferRequest request;
  request.set_model_name(OneIn(random, 40) ? "other" : OneIn(random, 3) ? "log_softmax_bf16" : "softmax");
  if (OneIn(random, 4)) request.set_model_version(OneIn(random, 8) ? kVersions[random() % 4] : "1");
  if (!OneIn(random, 4)) request.set_id("id-" + std::to_string(random() % 1000) + (OneIn(random, 9) ? "\xc3\xa9" : ""));
  SetGoodParameters(random, &request);
  constexpr const char* kAny[] = {"axis", "scale",        "output_dtype", "timeout",     "unknown",
                                  "",     "sequence_end", "top_k",        "log_sum_exp", "entropy"};
  if (OneIn(random, 12)) SetAnyParameter(random, &(*request.mutable_parameters())[kAny[random() % 10]]);
  const bool typed = OneIn(random, 2);
  for (std::uint64_t count = OneIn(random, 50) ? 0 : 1 + random() % (OneIn(random, 3) ? 3 : 1); count > 0; --count) {
    AddInput(random, typed != OneIn(random, 60), &request);
  }
  for (const auto& input : request.inputs()) {
    if (!OneIn(random, 4)) continue;
    const std::string name = "Y" + input.name().substr(1);
    request.add_outputs()->set_name(OneIn(random, 30) ? "Y9" : name);
    if (OneIn(random, 3)) {
      auto& parameter = (*request.mutable_outputs()->rbegin()->mutable_parameters())["classification"];
      if (!OneIn(random, 12)) parameter.set_int64_param(static_cast<std::int64_t>(random() % 5) + !OneIn(random, 9));
      if (OneIn(random, 12)) SetAnyParameter(random, &parameter);
    }
    // What the parameters offer, and now and then what they do not.
    const auto ask = [&](const char* key, const char* ending) {
      if (request.parameters().count(key) == 0 ? OneIn(random, 60) : OneIn(random, 2)) {
        request.add_outputs()->set_name(name + ending);
      }
    };
    ask("top_k", "_top_values");
    ask("top_k", "_top_indices");
    ask("log_sum_exp", "_log_sum_exp");
    ask("log_sum_exp", "_maximum");
    ask("entropy", "_entropy");
    if (OneIn(random, 40)) (*request.mutable_outputs()->rbegin()->mutable_parameters())["classification"];
    if (OneIn(random, 30)) {
      auto& parameters = *request.mutable_outputs()->rbegin()->mutable_parameters();
      parameters[AnyKey(random)].set_int64_param(1);
    }
  }
  return request;
}

// Typed contents as no serializer of today writes them: one value a field, or in several packed pieces.
std::string InPieces(Random& random, const ModelInferRequest& request) {
  ModelInferRequest rest = request;
  rest.clear_inputs();
  std::string bytes = rest.SerializeAsString();
  for (auto input : request.inputs()) {
    std::string contents;
    for (const float value : input.contents().fp32_contents()) {
      std::string raw(reinterpret_cast<const char*>(&value), sizeof(value));
      contents += OneIn(random, 2) ? Tag(6, 5) + raw : Block(6, raw);
    }
    std::string more;
    for (const double value : input.contents().fp64_contents()) {
      std::string raw(reinterpret_cast<const char*>(&value), sizeof(value));
      (OneIn(random, 2) ? contents : more) += OneIn(random, 2) ? Tag(7, 1) + raw : Block(7, raw);
    }
    input.clear_contents();
    bytes += Block(5, input.SerializeAsString() + Block(5, contents) + Block(5, more));
  }
  return bytes;
}

std::string AnyMessage(Random& random) {
  const ModelInferRequest request = AnyRequest(random);
  std::string bytes = OneIn(random, 4) ? InPieces(random, request) : request.SerializeAsString();
  if (OneIn(random, 5)) bytes += AnyField(random, 9);
  for (std::uint64_t count = random() % 4; count > 1; --count) Damage(random, 9, &bytes);
  return bytes;
}

TEST(OipDifferential, TheDecoderEqualsTheGeneratedParserAndTheRules) {
  google::protobuf::LogSilencer quiet;  // it says of each string that it is no UTF-8
  Random random(20261126);
  OipTally tally;
  for (int round = 0; round < 200'000; ++round) {
    const std::string bytes = AnyMessage(random);
    const SlicedMessage message = SlicedMessage::Cut(bytes, random() % 6, random);
    InferRequest decoded;
    DecodeInferRequest(message.slices(), TightOipLimits(), &decoded);
    Compare(bytes, message.slices(), decoded, &tally);
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
  EXPECT_GT(tally.accepted, 40'000);
  EXPECT_GT(tally.refused_by_rules, 20'000);
  EXPECT_GT(tally.refused_by_parser, 20'000);
  EXPECT_GT(tally.gathered, 4'000);
  EXPECT_GT(tally.several, 4'000);
  EXPECT_GT(tally.further, 2'000);
  EXPECT_GT(tally.classes, 1'000);
}

TEST(OipDifferential, EveryCutOfASmallMessageGivesTheSame) {
  ExpectEveryCutToGiveTheSame<InferRequest>(8, 500, TightOipLimits(), AnyMessage, DecodeInferRequest);
}

TEST(OipDifferential, ABudgetChangesNoVerdict) {
  google::protobuf::LogSilencer quiet;
  ExpectABudgetToChangeNoVerdict<InferRequest>(18, 60, TightOipLimits(), AnyMessage, DecodeInferRequest);
}

struct WantedOutput {
  std::string name;
  std::string datatype;
  std::uint64_t elements = 0;
  std::string payload;
};

std::uint64_t ElementsOf(const inference::ModelInferResponse::InferOutputTensor& output) {
  std::uint64_t elements = 1;
  for (const std::int64_t dimension : output.shape()) elements *= static_cast<std::uint64_t>(dimension);
  return elements;
}

// A piece with random bytes where the payload belongs, and what the outputs in it are to be.
std::string Filled(Random& random, const AnswerPiece& piece, const std::string& header, const InferTensor& tensor,
                   std::vector<WantedOutput>* wanted) {
  const TensorSpec& spec = tensor.request.spec;
  const std::string number = spec.input_type == kernels::DataType::kFloat64 ? "FP64" : "FP32";
  const std::string value = DatatypeName(spec.output_type);
  const bool is_empty = spec.elements() == 0;
  const std::uint64_t rows = is_empty ? 0 : static_cast<std::uint64_t>(spec.rows());
  const std::uint64_t best = rows * spec.summary.top_k;
  const WantedOutput all[kInferOutputKinds] = {{"", value, spec.elements(), ""},
                                               {"", "BYTES", best, tensor.classes},
                                               {"", value, best, ""},
                                               {"", "INT32", best, ""},
                                               {"", number, rows, ""},
                                               {"", number, rows, ""},
                                               {"", number, rows, ""}};
  std::string filled;
  std::size_t done = 0;
  std::size_t part = 0;
  for (std::size_t i = 0; i < kInferOutputKinds; ++i) {
    const auto output = static_cast<InferOutput>(i);
    if (!tensor.outputs.Has(output)) continue;
    wanted->push_back(all[i]);
    WantedOutput& want = wanted->back();
    want.name = tensor.output + std::string(kInferEndings[i]);
    if (is_empty || output == InferOutput::kClasses) continue;
    const std::map<std::string, std::size_t> sizes = {{"FP16", 2}, {"BF16", 2}, {"FP32", 4}, {"INT32", 4}, {"FP64", 8}};
    want.payload.resize(want.elements * sizes.at(want.datatype));
    for (char& c : want.payload) c = static_cast<char>(random() % 64);
    const AnswerParts::Part& place = piece.parts.part[part++];
    EXPECT_EQ(place.bytes, want.payload.size());
    EXPECT_EQ(place.of_summary, output != InferOutput::kTensor);
    filled += std::string(piece.HeaderIn(header).substr(done, place.header_end - done)) + want.payload;
    done = place.header_end;
  }
  EXPECT_EQ(part, piece.parts.count);
  return filled + std::string(piece.HeaderIn(header).substr(done));
}

// What is written by hand equals what the generated serializer makes of what the generated parser reads.
TEST(OipDifferential, AnAnswerEqualsTheGeneratedSerializer) {
  Random random(3);
  int answers = 0;
  while (answers < 3000) {
    const ModelInferRequest request = AnyRequest(random);
    const std::string bytes = request.SerializeAsString();
    InferRequest decoded;
    DecodeInferRequest(SlicedMessage(bytes).slices(), TightOipLimits(), &decoded);
    if (!decoded.status.ok()) continue;
    ++answers;
    for (InferTensor& tensor : decoded.tensors) {
      if (tensor.outputs.Has(InferOutput::kClasses)) tensor.classes = std::string("\3\0\0\0000:1", 7);
    }
    const bool in_stream = OneIn(random, 2);
    std::string header;
    AnswerPieces pieces;
    EncodeInferHeader(decoded, in_stream, &header, &pieces);
    ASSERT_EQ(pieces.size(), decoded.tensors.size());
    std::string whole;
    std::vector<WantedOutput> wanted;
    std::size_t end = 0;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      ASSERT_EQ(pieces[i].begin, end);
      end = pieces[i].end;
      whole += Filled(random, pieces[i], header, decoded.tensors[i], &wanted);
    }
    ASSERT_EQ(end, header.size());
    inference::ModelStreamInferResponse streamed;
    inference::ModelInferResponse alone;
    ASSERT_TRUE(in_stream ? streamed.ParseFromString(whole) : alone.ParseFromString(whole));
    EXPECT_EQ(in_stream ? streamed.SerializeAsString() : alone.SerializeAsString(), whole);
    const inference::ModelInferResponse& parsed = in_stream ? streamed.infer_response() : alone;
    EXPECT_EQ(parsed.model_name(), request.model_name());
    EXPECT_EQ(parsed.model_version(), "1");
    EXPECT_EQ(parsed.id(), request.id());
    EXPECT_EQ(parsed.parameters_size(), in_stream ? 1 : 0);
    for (const auto& [key, value] : parsed.parameters()) {
      EXPECT_EQ(key, "triton_final_response");
      EXPECT_TRUE(value.bool_param());
    }
    ASSERT_EQ(parsed.outputs_size(), static_cast<int>(wanted.size()));
    ASSERT_EQ(parsed.raw_output_contents_size(), parsed.outputs_size());
    for (int i = 0; i < parsed.outputs_size(); ++i) {
      const WantedOutput& want = wanted[static_cast<std::size_t>(i)];
      const auto& output = parsed.outputs(i);
      EXPECT_EQ(output.name(), want.name);
      EXPECT_EQ(output.datatype(), want.datatype);
      EXPECT_EQ(ElementsOf(output), want.elements) << parsed.DebugString();
      EXPECT_FALSE(output.has_contents());
      EXPECT_EQ(parsed.raw_output_contents(i), want.payload);
    }
    ASSERT_FALSE(HasFailure());
  }
}

TEST(OipDifferential, AnErrorEqualsTheGeneratedSerializer) {
  for (const char* const id : {"", "7", "a longer id"}) {
    for (const char* const text : {"x", "inputs[0].shape: has rank 9; must be 1 to 8"}) {
      std::string bytes;
      EncodeInferStreamError(id, absl::InvalidArgumentError(text), &bytes);
      inference::ModelStreamInferResponse parsed;
      ASSERT_TRUE(parsed.ParseFromString(bytes));
      EXPECT_EQ(parsed.SerializeAsString(), bytes);
      EXPECT_EQ(parsed.error_message(), text);
      EXPECT_TRUE(parsed.has_infer_response());
      EXPECT_EQ(parsed.infer_response().id(), id);
      EXPECT_EQ(parsed.infer_response().parameters_size(), 1);
      EXPECT_TRUE(parsed.infer_response().parameters().at("triton_final_response").bool_param());
    }
  }
}

}  // namespace
}  // namespace softmax::testing

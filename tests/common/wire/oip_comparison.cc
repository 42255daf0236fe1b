#include "tests/common/wire/oip_comparison.h"

#include <gtest/gtest.h>

#include <set>

#include "inference/inference.pb.h"
#include "tests/common/wire/native_comparison.h"
#include "tests/common/wire/oip_model.h"
#include "tests/common/wire/sliced_message.h"

namespace softmax::testing {
namespace {

using inference::ModelInferRequest;

bool SeveralParameters(const ModelInferRequest& request) {
  for (const auto& input : request.inputs()) {
    if (input.parameters_size() > 1) return true;
  }
  for (const auto& output : request.outputs()) {
    if (output.parameters_size() > 1) return true;
  }
  return false;
}

bool SaysCompressed(const absl::Status& status) {
  return status.message().find("grpc-encoding") != absl::string_view::npos;
}

std::set<std::string> EndingsOf(const InferTensor& tensor) {
  std::set<std::string> endings;
  for (std::size_t i = 0; i < kInferOutputKinds; ++i) {
    const auto output = static_cast<InferOutput>(i);
    if (!tensor.outputs.Has(output)) continue;
    endings.insert(output == InferOutput::kClasses ? "classes" : std::string(kInferEndings[i]));
  }
  return endings;
}

std::string PayloadOf(Slices slices, const InferTensor& tensor) {
  if (tensor.gathered_pieces == 0) return Payload(slices, tensor.request);
  std::string values(tensor.request.spec.input_bytes(), '\0');
  CopyTypedContents(slices, tensor, reinterpret_cast<std::byte*>(values.data()));
  return values;
}

}  // namespace

WireLimits TightOipLimits() {
  WireLimits limits = TightLimits();
  limits.max_top_k = 4;
  return limits;
}

void Compare(const std::string& bytes, Slices slices, const InferRequest& decoded, OipTally* tally) {
  ModelInferRequest parsed;
  if (!parsed.ParseFromString(bytes)) {
    ++tally->refused_by_parser;
    EXPECT_TRUE(SaysMalformed(decoded.status) || SaysCompressed(decoded.status)) << decoded.status;
    return;
  }
  const OipVerdict expected = JudgeInfer(parsed, TightOipLimits());
  // Where reading ended, an id may still have been to come.
  if (decoded.status.message().find("reading ended") == absl::string_view::npos) {
    EXPECT_EQ(decoded.id, parsed.id());
  }
  if (expected.code != absl::StatusCode::kOk) {
    ++tally->refused_by_rules;
    EXPECT_FALSE(decoded.status.ok());
    if (SaysCompressed(decoded.status) || SeveralParameters(parsed)) return;
    EXPECT_EQ(decoded.status.code(), expected.code) << decoded.status << "\n" << parsed.DebugString();
    EXPECT_EQ(decoded.status.message().find("malformed"), absl::string_view::npos) << decoded.status;
    return;
  }
  ASSERT_TRUE(decoded.status.ok()) << decoded.status << "\n" << parsed.DebugString();
  ++tally->accepted;
  EXPECT_EQ(decoded.timeout_us, expected.timeout_us);
  EXPECT_EQ(decoded.model->name, parsed.model_name());
  ASSERT_EQ(decoded.tensors.size(), expected.outputs.size());
  tally->several += decoded.tensors.size() > 1;
  for (std::size_t i = 0; i < decoded.tensors.size(); ++i) {
    const InferTensor& tensor = decoded.tensors[i];
    EXPECT_EQ(tensor.output, expected.outputs[i]);
    EXPECT_EQ(EndingsOf(tensor), expected.endings[i]);
    tally->classes += tensor.outputs.Has(InferOutput::kClasses);
    tally->further += tensor.outputs.Has(InferOutput::kTopValues);
    DecodedRequest same = tensor.request;
    same.spec = expected.specs[i];
    EXPECT_EQ(Difference(tensor.request, same), "");
    EXPECT_EQ(PayloadOf(slices, tensor), expected.payloads[i]);
    tally->gathered += tensor.gathered_pieces > 0;
  }
}

std::string Difference(const InferRequest& a, const InferRequest& b) {
  if (a.status != b.status) return a.status.ToString() + " against " + b.status.ToString();
  if (a.id != b.id) return "id";
  if (a.tensors.size() != b.tensors.size()) return "tensors";
  if (a.model != b.model || a.timeout_us != b.timeout_us) return "model or timeout_us";
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    const InferTensor& x = a.tensors[i];
    const InferTensor& y = b.tensors[i];
    if (x.output != y.output || x.axis != y.axis) return "output or axis";
    if (x.gathered_pieces != y.gathered_pieces || x.input_offset != y.input_offset) return "pieces";
    if (const std::string inside = Difference(x.request, y.request); !inside.empty()) return inside;
  }
  return "";
}

}  // namespace softmax::testing

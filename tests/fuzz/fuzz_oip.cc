#include <google/protobuf/stubs/logging.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/wire/decode.h"
#include "common/wire/encode.h"
#include "common/wire/oip_decode.h"
#include "common/wire/oip_encode.h"
#include "inference/inference.pb.h"
#include "tests/fuzz/require.h"
#include "tests/fuzz/sliced_input.h"

// libFuzzer over the decoder of ModelInferRequest and what is made of its result, held against the generated parser.
// Of the flags of its input (sliced_input.h) bit 0: the answer is a stream's; bit 1: tight limits; bit 2: tensors may
// be in files.
namespace softmax::server {
namespace {

using softmax::testing::Difference;
using softmax::testing::Require;
using softmax::testing::SlicedInput;

bool Says(const absl::Status& status, const char* words) {
  return status.message().find(words) != absl::string_view::npos;
}

// Right behind the name of a field: the fuzzer writes these words into names that are quoted, too.
bool SaysMalformed(const absl::Status& status) {
  const std::size_t place = status.message().find(": malformed near byte");
  return place != absl::string_view::npos &&
         status.message().substr(0, place).find_first_of(": \"") == absl::string_view::npos;
}

void CheckRefused(const InferRequest& request) {
  const std::string_view text(request.status.message().data(), request.status.message().size());
  Require(!text.empty() && text.size() <= 400, "a refusal has a reason of readable length");
  Require(request.tensors.empty(), "a refused request has no tensor");
  std::string out;
  EncodeInferStreamError(request.id, request.status, &out);
  inference::ModelStreamInferResponse parsed;
  Require(parsed.ParseFromString(out), "an error is well-formed");
  Require(parsed.infer_response().id() == request.id, "and has the request's id");
}

void CheckAnswer(const InferRequest& request, bool in_stream) {
  std::string header;
  AnswerPieces pieces;
  EncodeInferHeader(request, in_stream, &header, &pieces);
  Require(pieces.size() == request.tensors.size() && pieces.back().end == header.size(), "each output has its place");
  std::string whole;
  for (const AnswerPiece& piece : pieces) {
    std::size_t done = 0;
    for (std::size_t j = 0; j < piece.parts.count; ++j) {
      const AnswerParts::Part& part = piece.parts.part[j];
      whole.append(piece.HeaderIn(header).substr(done, part.header_end - done));
      whole.append(part.bytes, '\0');
      done = part.header_end;
    }
    whole.append(piece.HeaderIn(header).substr(done));
  }
  inference::ModelStreamInferResponse streamed;
  inference::ModelInferResponse alone;
  Require(in_stream ? streamed.ParseFromString(whole) : alone.ParseFromString(whole), "an answer is well-formed");
  const inference::ModelInferResponse& parsed = in_stream ? streamed.infer_response() : alone;
  Require(parsed.id() == request.id, "an answer has the request's id");
  int outputs = 0;
  for (const InferTensor& tensor : request.tensors) {
    for (std::size_t i = 0; i < kInferOutputKinds; ++i) outputs += tensor.outputs.Has(static_cast<InferOutput>(i));
  }
  Require(parsed.outputs_size() == outputs, "and its outputs");
}

void CheckAccepted(const inference::ModelInferRequest& parsed, Slices slices, std::uint64_t size,
                   const WireLimits& limits, const InferRequest& request) {
  Require(request.model != nullptr && parsed.model_name() == request.model->name, "the model is known");
  Require(!request.tensors.empty() && request.tensors.size() <= kMaxInferInputs, "there are tensors, not too many");
  std::uint64_t out = 0;
  for (const InferTensor& tensor : request.tensors) {
    const TensorSpec& spec = tensor.request.spec;
    Require(static_cast<std::uint64_t>(spec.rows()) <= limits.max_rows, "rows within the limit");
    out += spec.output_bytes();
    if (tensor.gathered_pieces > 0) {
      std::vector<std::byte> values(spec.input_bytes());
      CopyTypedContents(slices, tensor, values.data());
      continue;
    }
    if (tensor.places != nullptr && !tensor.places->input.region.empty()) {
      Require(tensor.places->input.bytes == spec.input_bytes(), "a file's part is as large as its tensor");
      continue;
    }
    Require(tensor.request.payload_offset <= size && spec.input_bytes() <= size - tensor.request.payload_offset,
            "the payload lies inside the message");
    (void)softmax::testing::Payload(slices, tensor.request);
  }
  Require(out <= limits.max_response_bytes, "the answer is within its limit");
}

void FuzzOne(const SlicedInput& input) {
  const std::string_view bytes = input.bytes;
  WireLimits limits = softmax::testing::FuzzedLimits((input.flags & 2) != 0);
  limits.has_files = (input.flags & 4) != 0;
  InferRequest a;
  InferRequest b;
  DecodeInferRequest(input.cut.slices(), limits, &a);
  DecodeInferRequest(input.whole.slices(), limits, &b);
  Require(a.status == b.status && a.id == b.id && a.tensors.size() == b.tensors.size(), "one verdict however cut");
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    Require(Difference(a.tensors[i].request, b.tensors[i].request).empty(), "the slices make no difference");
    Require(a.tensors[i].gathered_pieces == b.tensors[i].gathered_pieces, "nor for typed values");
  }
  inference::ModelInferRequest parsed;
  const bool well_formed = parsed.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
  const bool compressed = Says(a.status, "grpc-encoding");
  const bool ended = Says(a.status, ": reading ended at byte ");
  Require(compressed || ended || well_formed != SaysMalformed(a.status), "malformed as the generated parser says");
  if (!a.status.ok()) return CheckRefused(a);
  Require(a.id == parsed.id(), "the id is the request's");
  CheckAccepted(parsed, input.cut.slices(), bytes.size(), limits, a);
  std::uint64_t out = 0;
  for (const InferTensor& tensor : a.tensors) out += tensor.request.spec.output_bytes();
  if (out <= (1 << 20)) CheckAnswer(a, (input.flags & 1) != 0);
}

}  // namespace
}  // namespace softmax::server

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  google::protobuf::SetLogHandler(nullptr);  // it says of each string that it is no UTF-8
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 0) softmax::server::FuzzOne({data, size});
  return 0;
}

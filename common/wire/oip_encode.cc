#include "common/wire/oip_encode.h"

#include <string>
#include <string_view>

#include "common/wire/decode.h"
#include "common/wire/encode.h"
#include "common/wire/oip_decode.h"
#include "common/wire/oip_models.h"
#include "common/wire/oip_tags.h"
#include "common/wire/put.h"

// Writes what the generated serializer would, as encode.cc.
namespace softmax {
namespace {

constexpr std::string_view kVersion = "1";
// The parameters' entry {"triton_final_response", true}: every request has one answer.
constexpr std::string_view kFinal("\x0a\x15triton_final_response\x12\x02\x08\x01", 27);

std::size_t TextSize(std::string_view text) { return text.empty() ? 0 : BlockSize(text.size()); }

char* PutBytes(std::uint32_t tag, std::string_view text, char* at) {
  if (text.empty()) return at;
  at = PutBlockStart(tag, text.size(), at);
  return at + text.copy(at, text.size());
}

const char* NumberName(const TensorSpec& spec) {
  return spec.input_type == kernels::DataType::kFloat64 ? "FP64" : "FP32";
}

// One output of a tensor, as the answer is to have it.
struct Output {
  const InferTensor* tensor = nullptr;
  std::string_view ending;
  const char* datatype = "";
  bool is_classes = false;  // its bytes are there already, and no part of what was computed
  bool is_whole = true;     // of the tensor's shape; otherwise the axis is gone and
  std::int64_t last = 0;    // this is the last dimension
  AnswerParts::Part part;

  std::int64_t dimension(std::uint32_t i) const {
    const DecodedRequest& request = tensor->request;
    if (is_whole) return request.shape[i];
    if (i + 1 == request.rank) return last;
    return request.shape[i < tensor->axis ? i : i + 1];
  }
};

Output OutputOf(const InferTensor& tensor, InferOutput what) {
  const TensorSpec& spec = tensor.request.spec;
  Output output;
  output.tensor = &tensor;
  output.ending = kInferEndings[static_cast<std::size_t>(what)];
  if (what == InferOutput::kTensor) {
    output.datatype = DatatypeName(spec.output_type);
    output.part.bytes = spec.tensor_bytes();
    return output;
  }
  output.is_whole = false;
  const bool is_empty = spec.elements() == 0;
  if (what == InferOutput::kClasses) {
    output.datatype = "BYTES";
    output.is_classes = true;
    output.last = is_empty ? 0 : spec.summary.top_k;
    output.part.bytes = tensor.classes.size();
    return output;
  }
  const SummaryLayout layout = spec.summary_layout();
  const auto fill = [&](SummaryLayout::Part part, const char* datatype, std::int64_t last) {
    output.datatype = datatype;
    output.last = is_empty ? 0 : last;
    output.part = {.offset = layout.offset[part], .bytes = layout.bytes[part], .of_summary = true};
  };
  switch (what) {
    case InferOutput::kTensor:
    case InferOutput::kClasses:
      break;
    case InferOutput::kTopValues:
      fill(SummaryLayout::kTopValues, DatatypeName(spec.output_type), spec.summary.top_k);
      break;
    case InferOutput::kTopIndices:
      fill(SummaryLayout::kTopIndices, "INT32", spec.summary.top_k);
      break;
    case InferOutput::kLogSumExp:
      fill(SummaryLayout::kLogSumExp, NumberName(spec), 1);
      break;
    case InferOutput::kMaximum:
      fill(SummaryLayout::kMaximum, NumberName(spec), 1);
      break;
    case InferOutput::kEntropy:
      fill(SummaryLayout::kEntropy, NumberName(spec), 1);
      break;
  }
  return output;
}

// Calls `use` with each output that is wanted of a tensor.
template <typename Use>
void ForEachOutput(const InferTensor& tensor, const Use& use) {
  for (std::size_t i = 0; i < kInferOutputKinds; ++i) {
    const auto what = static_cast<InferOutput>(i);
    if (!tensor.outputs.Has(what)) continue;
    Output output = OutputOf(tensor, what);
    // What goes to a file has its place among the raw contents, without bytes.
    if (tensor.places != nullptr && !tensor.places->outputs[i].region.empty()) output.part.bytes = 0;
    use(output);
  }
}

// An output's metadata.
struct OutputSizes {
  std::uint64_t name = 0;
  std::uint64_t shape = 0;
  std::uint64_t whole = 0;
};

OutputSizes SizesOf(const Output& output) {
  OutputSizes sizes;
  sizes.name = output.tensor->output.size() + output.ending.size();
  for (std::uint32_t i = 0; i < output.tensor->request.rank; ++i) {
    sizes.shape += VarintSize(static_cast<std::uint64_t>(output.dimension(i)));
  }
  sizes.whole = BlockSize(sizes.name) + TextSize(output.datatype) + BlockSize(sizes.shape);
  return sizes;
}

void AppendOutput(const Output& output, std::string* out) {
  const OutputSizes sizes = SizesOf(output);
  const std::string& name = output.tensor->output;
  char* at = Extend(out, BlockSize(sizes.whole));
  at = PutBlockStart(kInferResponseOutputs, sizes.whole, at);
  at = PutBlockStart(kInferTensorName, sizes.name, at);
  at += name.copy(at, name.size());
  at += output.ending.copy(at, output.ending.size());
  at = PutBytes(kInferTensorDatatype, output.datatype, at);
  at = PutBlockStart(kInferTensorShapePacked, sizes.shape, at);
  for (std::uint32_t i = 0; i < output.tensor->request.rank; ++i) {
    at = PutVarint(static_cast<std::uint64_t>(output.dimension(i)), at);
  }
}

void AddPart(const Output& output, std::size_t header_end, AnswerParts* parts) {
  if (output.part.bytes == 0) return;
  AnswerParts::Part& part = parts->part[parts->count++];
  part = output.part;
  part.header_end = header_end;
}

}  // namespace

void EncodeInferHeader(const InferRequest& request, bool in_stream, std::string* header, AnswerPieces* pieces) {
  const std::string_view name = request.model->name;
  const std::uint64_t front =
      TextSize(name) + TextSize(kVersion) + TextSize(request.id) + (in_stream ? BlockSize(kFinal.size()) : 0);
  std::size_t begin = header->size();
  if (in_stream) {
    std::uint64_t size = front;
    for (const InferTensor& tensor : request.tensors) {
      ForEachOutput(tensor, [&](const Output& output) {
        size += BlockSize(SizesOf(output).whole) + BlockSize(output.part.bytes);
      });
    }
    PutBlockStart(kInferStreamResponse, size, Extend(header, BlockSize(size) - size));
  }
  char* at = Extend(header, front);
  at = PutBytes(kInferResponseModelName, name, at);
  at = PutBytes(kInferResponseModelVersion, kVersion, at);
  at = PutBytes(kInferResponseId, request.id, at);
  if (in_stream) PutBytes(kInferResponseParameters, kFinal, at);
  for (const InferTensor& tensor : request.tensors) {
    ForEachOutput(tensor, [&](const Output& output) { AppendOutput(output, header); });
  }
  for (const InferTensor& tensor : request.tensors) {
    AnswerPiece& piece = pieces->emplace_back();
    piece.begin = begin;
    ForEachOutput(tensor, [&](const Output& output) {
      const std::uint64_t payload = output.part.bytes;
      PutBlockStart(kInferResponseRawOutput, payload, Extend(header, BlockSize(payload) - payload));
      if (output.is_classes) {
        header->append(tensor.classes);
      } else {
        AddPart(output, header->size() - begin, &piece.parts);
      }
    });
    begin = piece.end = header->size();
  }
}

void EncodeInferStreamError(std::string_view id, const absl::Status& status, std::string* out) {
  const std::string_view text(status.message().data(), status.message().size());
  const std::size_t response = TextSize(id) + BlockSize(kFinal.size());
  char* at = Extend(out, TextSize(text) + BlockSize(response));
  if (!text.empty()) at = PutText(text, PutBlockStart(kInferStreamError, text.size(), at));
  at = PutBytes(kInferResponseId, id, PutBlockStart(kInferStreamResponse, response, at));
  PutBytes(kInferResponseParameters, kFinal, at);
}

}  // namespace softmax

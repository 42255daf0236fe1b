#include <string>
#include <string_view>

#include "server/wire/oip.h"
#include "server/wire/oip_tags.h"
#include "server/wire/put.h"

// Writes what the generated serializer would, as encode.cc.
namespace softmax::server {
namespace {

constexpr std::string_view kVersion = "1";
// The parameters' entry {"triton_final_response", true}.
constexpr std::string_view kFinal("\x0a\x15triton_final_response\x12\x02\x08\x01", 27);

std::size_t TextSize(std::string_view text) { return text.empty() ? 0 : BlockSize(text.size()); }

char* PutBytes(std::uint32_t tag, std::string_view text, char* at) {
  if (text.empty()) return at;
  at = PutBlockStart(tag, text.size(), at);
  return at + text.copy(at, text.size());
}

// One output's metadata: `contents` is the size of its InferTensorContents, 0 when it has none.
struct OutputSizes {
  std::uint64_t shape = 0;
  std::uint64_t contents = 0;
  std::uint64_t whole = 0;
};

OutputSizes SizesOf(const InferTensor& tensor, bool typed) {
  OutputSizes sizes;
  const DecodedRequest& request = tensor.request;
  for (std::uint32_t i = 0; i < request.rank; ++i) {
    sizes.shape += VarintSize(static_cast<std::uint64_t>(request.shape[i]));
  }
  const std::uint64_t payload = request.spec.output_bytes();
  if (typed && payload > 0) sizes.contents = BlockSize(payload);
  sizes.whole = TextSize(tensor.output) + TextSize(DatatypeName(request.spec.output_type)) + BlockSize(sizes.shape) +
                (sizes.contents == 0 ? 0 : BlockSize(sizes.contents));
  return sizes;
}

// Up to where typed contents begin.
void AppendOutput(const InferTensor& tensor, const OutputSizes& sizes, std::string* out) {
  const std::uint64_t payload = sizes.contents == 0 ? 0 : tensor.request.spec.output_bytes();
  char* at = Extend(out, BlockSize(sizes.whole) - payload);
  at = PutBlockStart(kInferResponseOutputs, sizes.whole, at);
  at = PutBytes(kInferTensorName, tensor.output, at);
  at = PutBytes(kInferTensorDatatype, DatatypeName(tensor.request.spec.output_type), at);
  at = PutBlockStart(kInferTensorShapePacked, sizes.shape, at);
  for (std::uint32_t i = 0; i < tensor.request.rank; ++i) {
    at = PutVarint(static_cast<std::uint64_t>(tensor.request.shape[i]), at);
  }
  if (payload == 0) return;
  at = PutBlockStart(kInferTensorContents, sizes.contents, at);
  const bool fp64 = tensor.request.spec.output_type == kernels::DataType::kFloat64;
  PutBlockStart(fp64 ? kInferFp64Packed : kInferFp32Packed, payload, at);
}

}  // namespace

void EncodeInferHeader(const InferRequest& request, bool in_stream, std::string* header, InferHeaderEnds* ends) {
  const std::string_view name = request.model->name;
  const bool tells_final = in_stream && request.tells_final;
  const std::uint64_t front =
      TextSize(name) + TextSize(kVersion) + TextSize(request.id) + (tells_final ? BlockSize(kFinal.size()) : 0);
  if (in_stream) {
    std::uint64_t size = front;
    for (const InferTensor& tensor : request.tensors) {
      size += BlockSize(SizesOf(tensor, request.typed).whole);
      if (!request.typed) size += BlockSize(tensor.request.spec.output_bytes());
    }
    PutBlockStart(kInferStreamResponse, size, Extend(header, BlockSize(size) - size));
  }
  char* at = Extend(header, front);
  at = PutBytes(kInferResponseModelName, name, at);
  at = PutBytes(kInferResponseModelVersion, kVersion, at);
  at = PutBytes(kInferResponseId, request.id, at);
  if (tells_final) PutBytes(kInferResponseParameters, kFinal, at);
  for (const InferTensor& tensor : request.tensors) {
    AppendOutput(tensor, SizesOf(tensor, request.typed), header);
    if (request.typed) ends->push_back(header->size());
  }
  if (request.typed) return;
  for (const InferTensor& tensor : request.tensors) {
    const std::uint64_t payload = tensor.request.spec.output_bytes();
    PutBlockStart(kInferResponseRawOutput, payload, Extend(header, BlockSize(payload) - payload));
    ends->push_back(header->size());
  }
}

void EncodeInferStreamError(std::string_view id, const absl::Status& status, std::string* out) {
  const std::string_view text(status.message().data(), status.message().size());
  const std::size_t response = TextSize(id);
  char* at = Extend(out, TextSize(text) + BlockSize(response));
  if (!text.empty()) at = PutText(text, PutBlockStart(kInferStreamError, text.size(), at));
  PutBytes(kInferResponseId, id, PutBlockStart(kInferStreamResponse, response, at));
}

}  // namespace softmax::server

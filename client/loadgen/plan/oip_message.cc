#include "client/loadgen/plan/oip_message.h"

#include <absl/strings/numbers.h>

#include <array>
#include <bit>
#include <iterator>
#include <string_view>

#include "client/softmax_client/fields.h"
#include "server/wire/cursor.h"
#include "server/wire/oip_tags.h"
#include "server/wire/put.h"

namespace softmax::client {
namespace {

using server::WireCursor;

constexpr std::string_view kDatatypes[] = {"", "FP32", "FP16", "BF16", "FP64"};
constexpr int kDepth = 100;

std::string_view DatatypeOf(DataType type) { return kDatatypes[static_cast<std::size_t>(type)]; }

void AppendBlock(std::uint32_t tag, std::string_view bytes, std::string* out) {
  char* const at = server::PutBlockStart(tag, bytes.size(), server::Extend(out, server::BlockSize(bytes.size())));
  bytes.copy(at, bytes.size());
}

// An entry of the parameters; `value` is a whole InferParameter.
void AppendParameter(std::string_view key, std::string_view value, std::string* out) {
  std::string entry;
  AppendBlock(server::kEntryKey, key, &entry);
  AppendBlock(server::kEntryValue, value, &entry);
  AppendBlock(server::kInferParameters, entry, out);
}

void AppendParameters(const RequestFields& fields, std::string* out) {
  if (fields.axis) {
    std::string value(1, static_cast<char>(server::kParameterInt64));
    const auto axis = static_cast<std::uint64_t>(static_cast<std::int64_t>(*fields.axis));
    server::PutVarint(axis, server::Extend(&value, server::VarintSize(axis)));
    AppendParameter("axis", value, out);
  }
  if (fields.scale) {
    const auto bits = std::bit_cast<std::array<char, sizeof(double)>>(*fields.scale);
    std::string value(1, static_cast<char>(server::kParameterDouble));
    value.append(bits.data(), bits.size());
    AppendParameter("scale", value, out);
  }
  if (fields.output_dtype) {
    std::string value;
    AppendBlock(server::kParameterString, DatatypeOf(*fields.output_dtype), &value);
    AppendParameter("output_dtype", value, out);
  }
}

void AddDimension(ResponseFields* out, std::uint64_t value) {
  if (out->rank < out->shape.size()) out->shape[out->rank] = static_cast<std::int64_t>(value);
  ++out->rank;
}

bool ReadOutputField(WireCursor* cursor, std::uint32_t tag, ResponseFields* out) {
  std::uint64_t value;
  std::string text;
  switch (tag) {
    case server::kInferTensorDatatype:
      if (!ReadText(cursor, &text)) return false;
      for (std::size_t type = 1; type < std::size(kDatatypes); ++type) {
        if (text == kDatatypes[type]) out->dtype = type;
      }
      return true;
    case server::kInferTensorShapePacked:
      return server::ReadPacked(cursor, [&](std::uint64_t v) { AddDimension(out, v); });
    case server::kInferTensorShape:
      if (!cursor->ReadVarint(&value)) return false;
      AddDimension(out, value);
      return true;
    default:
      return cursor->SkipField(tag, kDepth);
  }
}

bool ReadOutput(WireCursor* cursor, ResponseFields* out) {
  const auto on_field = [&](std::uint32_t tag) { return ReadOutputField(cursor, tag, out); };
  return ForEachFieldInside(cursor, on_field) && out->rank <= out->shape.size();
}

bool ReadField(WireCursor* cursor, std::uint32_t tag, bool* has_metadata, ResponseFields* out) {
  std::uint64_t length;
  std::string text;
  switch (tag) {
    case server::kInferResponseId:
      if (!ReadText(cursor, &text)) return false;
      return absl::SimpleAtoi(text, &out->id) || text.empty();
    case server::kInferResponseOutputs:
      if (*has_metadata) break;
      *has_metadata = true;
      return ReadOutput(cursor, out);
    case server::kInferResponseRawOutput:
      if (out->has_output) break;
      out->has_output = true;
      if (!cursor->ReadLength(&length)) return false;
      out->payload_offset = cursor->position();
      out->payload_bytes = length;
      return cursor->Skip(length);
    default:
      break;
  }
  return cursor->SkipField(tag, kDepth);
}

}  // namespace

void AppendInferRequestHeader(const RequestFields& fields, std::string* out) {
  AppendBlock(server::kInferModelName, fields.operation == Operation::kSoftmax ? "softmax" : "log_softmax", out);
  AppendBlock(server::kInferId, std::to_string(fields.id), out);
  AppendParameters(fields, out);
  std::string input;
  AppendBlock(server::kInferTensorName, "X", &input);
  AppendBlock(server::kInferTensorDatatype, DatatypeOf(fields.dtype), &input);
  std::string shape;
  for (const std::int64_t dim : fields.shape) {
    const auto value = static_cast<std::uint64_t>(dim);
    server::PutVarint(value, server::Extend(&shape, server::VarintSize(value)));
  }
  AppendBlock(server::kInferTensorShapePacked, shape, &input);
  AppendBlock(server::kInferInputs, input, out);
  server::PutBlockStart(server::kInferRawInput, fields.data_bytes,
                        server::Extend(out, 1 + server::VarintSize(fields.data_bytes)));
}

absl::Status DecodeInferResponse(Pieces pieces, ResponseFields* out) {
  *out = ResponseFields{};
  WireCursor cursor(pieces);
  bool has_metadata = false;
  const auto on_field = [&](std::uint32_t tag) { return ReadField(&cursor, tag, &has_metadata, out); };
  if (!ForEachField(&cursor, on_field)) return absl::InternalError("the answer is no ModelInferResponse");
  return absl::OkStatus();
}

}  // namespace softmax::client

#include "client/loadgen/plan/oip_message.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "client/softmax_client/fields.h"
#include "common/wire/cursor.h"
#include "common/wire/oip_tags.h"
#include "common/wire/put.h"

namespace softmax::client {
namespace {

constexpr std::string_view kDatatypes[] = {"", "FP32", "FP16", "BF16", "FP64"};
constexpr int kDepth = 100;

std::string_view DatatypeOf(DataType type) { return kDatatypes[static_cast<std::size_t>(type)]; }

// 0: none of them.
std::uint64_t TypeNamed(std::string_view datatype) {
  const auto* const at = std::find(std::begin(kDatatypes) + 1, std::end(kDatatypes), datatype);
  return at == std::end(kDatatypes) ? 0 : static_cast<std::uint64_t>(at - std::begin(kDatatypes));
}

void AppendBlock(std::uint32_t tag, std::string_view bytes, std::string* out) {
  char* const at = PutBlockStart(tag, bytes.size(), Extend(out, BlockSize(bytes.size())));
  bytes.copy(at, bytes.size());
}

// An entry of the parameters; `value` is a whole InferParameter.
void AppendParameter(std::string_view key, std::string_view value, std::string* out) {
  std::string entry;
  AppendBlock(kEntryKey, key, &entry);
  AppendBlock(kEntryValue, value, &entry);
  AppendBlock(kInferParameters, entry, out);
}

void AppendScalarParameter(std::string_view key, std::uint32_t tag, std::int64_t number, std::string* out) {
  std::string value(1, static_cast<char>(tag));
  const auto bits = static_cast<std::uint64_t>(number);
  PutVarint(bits, Extend(&value, VarintSize(bits)));
  AppendParameter(key, value, out);
}

void AppendParameters(const RequestFields& fields, std::string* out) {
  if (fields.axis) AppendScalarParameter("axis", kParameterInt64, *fields.axis, out);
  if (fields.scale) {
    const auto bits = std::bit_cast<std::array<char, sizeof(double)>>(*fields.scale);
    std::string value(1, static_cast<char>(kParameterDouble));
    value.append(bits.data(), bits.size());
    AppendParameter("scale", value, out);
  }
  if (fields.output_dtype) {
    std::string value;
    AppendBlock(kParameterString, DatatypeOf(*fields.output_dtype), &value);
    AppendParameter("output_dtype", value, out);
  }
  const SummaryOptions& summary = fields.summary;
  if (summary.top_k > 0) AppendScalarParameter("top_k", kParameterInt64, summary.top_k, out);
  if (summary.log_sum_exp) AppendScalarParameter("log_sum_exp", kParameterBool, 1, out);
  if (summary.entropy) AppendScalarParameter("entropy", kParameterBool, 1, out);
}

// The further outputs of the input "X".
constexpr std::pair<std::string_view, Summary::Part> kParts[] = {
    {"Y_top_values", Summary::kTopValues},  {"Y_top_indices", Summary::kTopIndices},
    {"Y_log_sum_exp", Summary::kLogSumExp}, {"Y_maximum", Summary::kMaximum},
    {"Y_entropy", Summary::kEntropy},
};

struct Output {
  std::string name;
  std::string datatype;
  std::vector<std::int64_t> shape;
};

struct Range {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

// An answer as it was read: raw contents number i are those of output number i.
struct Answer {
  std::uint64_t id = 0;
  std::vector<Output> outputs;
  std::vector<Range> raw;
};

bool ReadOutput(WireCursor* cursor, Output* out) {
  return ForEachFieldInside(cursor, [&](std::uint32_t tag) {
    const auto add = [&](std::uint64_t value) { out->shape.push_back(static_cast<std::int64_t>(value)); };
    std::uint64_t value;
    switch (tag) {
      case kInferTensorName:
        return ReadText(cursor, &out->name);
      case kInferTensorDatatype:
        return ReadText(cursor, &out->datatype);
      case kInferTensorShapePacked:
        return ReadPacked(cursor, add);
      case kInferTensorShape:
        if (!cursor->ReadVarint(&value)) return false;
        add(value);
        return true;
      default:
        return cursor->SkipField(tag, kDepth);
    }
  });
}

bool ReadField(WireCursor* cursor, std::uint32_t tag, Answer* out) {
  std::string text;
  switch (tag) {
    case kInferResponseId:
      if (!ReadText(cursor, &text)) return false;
      return absl::SimpleAtoi(text, &out->id) || text.empty();
    case kInferResponseOutputs:
      return ReadOutput(cursor, &out->outputs.emplace_back());
    case kInferResponseRawOutput: {
      Range& range = out->raw.emplace_back();
      if (!cursor->ReadLength(&range.bytes)) return false;
      range.offset = cursor->position();
      return cursor->Skip(range.bytes);
    }
    default:
      return cursor->SkipField(tag, kDepth);
  }
}

// 0: an element type that we do not ask for.
std::uint64_t SizeOfDatatype(std::string_view name) {
  if (name == "INT32") return sizeof(std::int32_t);
  const std::uint64_t type = TypeNamed(name);
  return type == 0 ? 0 : SizeOf(static_cast<DataType>(type));
}

absl::Status TakePart(const Output& output, const Range& range, Summary::Part part, ResponseFields* out) {
  const auto elements = ElementsOf(output.shape);
  const bool has_its_type = (output.datatype == "INT32") == (part == Summary::kTopIndices);
  if (!elements || !has_its_type || *elements * SizeOfDatatype(output.datatype) != range.bytes) {
    return absl::InternalError(absl::StrCat("the answer's ", output.name, " is of ", range.bytes, " bytes, ",
                                            output.datatype, " and shape [", absl::StrJoin(output.shape, ", "),
                                            "], which do not go together"));
  }
  out->has_summary = true;
  out->part_offset[part] = range.offset;
  out->part_bytes[part] = range.bytes;
  return absl::OkStatus();
}

absl::Status TakeTensorOf(const Output& output, const Range& range, ResponseFields* out) {
  if (output.shape.size() > out->shape.size()) {
    return absl::InternalError(absl::StrCat("the answer's ", output.name, " has rank ", output.shape.size()));
  }
  out->has_output = true;
  out->dtype = TypeNamed(output.datatype);
  out->rank = output.shape.size();
  std::copy(output.shape.begin(), output.shape.end(), out->shape.begin());
  out->payload_offset = range.offset;
  out->payload_bytes = range.bytes;
  return absl::OkStatus();
}

// An output of another name than the parts' is the tensor, if it is the first such.
absl::Status TakeOutput(const Output& output, const Range& range, ResponseFields* out) {
  for (const auto& [name, part] : kParts) {
    if (output.name == name) return TakePart(output, range, part, out);
  }
  return out->has_output ? absl::OkStatus() : TakeTensorOf(output, range, out);
}

}  // namespace

void AppendInferRequestHeader(const RequestFields& fields, std::string* out) {
  AppendBlock(kInferModelName, fields.operation == Operation::kSoftmax ? "softmax" : "log_softmax", out);
  AppendBlock(kInferId, std::to_string(fields.id), out);
  AppendParameters(fields, out);
  std::string input;
  AppendBlock(kInferTensorName, "X", &input);
  AppendBlock(kInferTensorDatatype, DatatypeOf(fields.dtype), &input);
  std::string shape;
  for (const std::int64_t dim : fields.shape) {
    const auto value = static_cast<std::uint64_t>(dim);
    PutVarint(value, Extend(&shape, VarintSize(value)));
  }
  AppendBlock(kInferTensorShapePacked, shape, &input);
  AppendBlock(kInferInputs, input, out);
  PutBlockStart(kInferRawInput, fields.data_bytes, Extend(out, 1 + VarintSize(fields.data_bytes)));
}

absl::Status DecodeInferResponse(Pieces pieces, ResponseFields* out) {
  *out = ResponseFields{};
  WireCursor cursor(pieces);
  Answer answer;
  const auto on_field = [&](std::uint32_t tag) { return ReadField(&cursor, tag, &answer); };
  if (!ForEachField(&cursor, on_field)) return absl::InternalError("the answer is no ModelInferResponse");
  out->id = answer.id;
  const std::size_t outputs = std::min(answer.outputs.size(), answer.raw.size());
  for (std::size_t i = 0; i < outputs; ++i) {
    if (absl::Status status = TakeOutput(answer.outputs[i], answer.raw[i], out); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace softmax::client

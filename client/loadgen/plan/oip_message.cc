#include "client/loadgen/plan/oip_message.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "client/softmax_client/fields.h"
#include "common/wire/cursor.h"
#include "common/wire/oip_models.h"
#include "common/wire/oip_parameters.h"
#include "common/wire/oip_tags.h"
#include "common/wire/put.h"
#include "common/wire/slices.h"
#include "inference/inference.pb.h"

namespace softmax::client {
namespace {

using Output = inference::ModelInferResponse::InferOutputTensor;

constexpr int kDepth = 100;

const char* DatatypeOf(DataType type) { return DatatypeName(static_cast<kernels::DataType>(type)); }

// The further outputs of the input "X".
constexpr std::pair<std::string_view, Summary::Part> kParts[] = {
    {"Y_top_values", Summary::kTopValues},  {"Y_top_indices", Summary::kTopIndices},
    {"Y_log_sum_exp", Summary::kLogSumExp}, {"Y_maximum", Summary::kMaximum},
    {"Y_entropy", Summary::kEntropy},
};

struct Range {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

// Parts the message into where each output's bytes are and, copied, all else. False: it cannot be read.
bool PartMessage(Pieces pieces, std::vector<Range>* raw, std::string* header) {
  WireCursor cursor(pieces);
  std::uint64_t begin = 0;  // of a field
  return ForEachField(&cursor, [&](std::uint32_t tag) {
    if (tag == kInferResponseRawOutput) {
      Range& range = raw->emplace_back();
      if (!cursor.ReadLength(&range.bytes)) return false;
      range.offset = cursor.position();
      if (!cursor.Skip(range.bytes)) return false;
    } else {
      if (!cursor.SkipField(tag, kDepth)) return false;
      const std::size_t before = header->size();
      header->resize(before + cursor.position() - begin);
      CopyFromSlices(pieces, begin, cursor.position() - begin, header->data() + before);
    }
    begin = cursor.position();
    return true;
  });
}

// 0: an element type that we do not ask for.
std::uint64_t SizeOfDatatype(std::string_view name) {
  if (name == "INT32") return sizeof(std::int32_t);
  const int type = DtypeOf(name);
  return type == 0 ? 0 : SizeOf(static_cast<DataType>(type));
}

absl::Status TakePart(const Output& output, const Range& range, Summary::Part part, ResponseFields* out) {
  const auto elements = ElementsOf({output.shape().data(), static_cast<std::size_t>(output.shape_size())});
  const bool has_its_type = (output.datatype() == "INT32") == (part == Summary::kTopIndices);
  if (!elements || !has_its_type || *elements * SizeOfDatatype(output.datatype()) != range.bytes) {
    return absl::InternalError(absl::StrCat("the answer's ", output.name(), " is of ", range.bytes, " bytes, ",
                                            output.datatype(), " and shape [", absl::StrJoin(output.shape(), ", "),
                                            "], which do not go together"));
  }
  out->has_summary = true;
  out->part_offset[part] = range.offset;
  out->part_bytes[part] = range.bytes;
  return absl::OkStatus();
}

absl::Status TakeTensorOf(const Output& output, const Range& range, ResponseFields* out) {
  if (static_cast<std::size_t>(output.shape_size()) > out->shape.size()) {
    return absl::InternalError(absl::StrCat("the answer's ", output.name(), " has rank ", output.shape_size()));
  }
  out->has_output = true;
  out->dtype = DtypeOf(output.datatype());
  out->rank = static_cast<std::size_t>(output.shape_size());
  std::copy(output.shape().begin(), output.shape().end(), out->shape.begin());
  out->payload_offset = range.offset;
  out->payload_bytes = range.bytes;
  return absl::OkStatus();
}

// An output of another name than the parts' is the tensor, if it is the first such.
absl::Status TakeOutput(const Output& output, const Range& range, ResponseFields* out) {
  for (const auto& [name, part] : kParts) {
    if (output.name() == name) return TakePart(output, range, part, out);
  }
  return out->has_output ? absl::OkStatus() : TakeTensorOf(output, range, out);
}

}  // namespace

void AppendInferRequestHeader(const RequestFields& fields, std::string* out) {
  inference::ModelInferRequest request;
  request.set_model_name(std::string(NameOf(fields.operation)));
  request.set_id(std::to_string(fields.id));
  auto& parameters = *request.mutable_parameters();
  if (fields.axis) parameters["axis"].set_int64_param(*fields.axis);
  if (fields.scale) parameters["scale"].set_double_param(*fields.scale);
  if (fields.output_dtype) parameters["output_dtype"].set_string_param(DatatypeOf(*fields.output_dtype));
  if (fields.summary.top_k > 0) parameters["top_k"].set_int64_param(fields.summary.top_k);
  if (fields.summary.log_sum_exp) parameters["log_sum_exp"].set_bool_param(true);
  if (fields.summary.entropy) parameters["entropy"].set_bool_param(true);
  auto* const input = request.add_inputs();
  input->set_name("X");
  input->set_datatype(DatatypeOf(fields.dtype));
  input->mutable_shape()->Assign(fields.shape.begin(), fields.shape.end());
  request.AppendToString(out);
  PutBlockStart(kInferRawInput, fields.data_bytes, Extend(out, 1 + VarintSize(fields.data_bytes)));
}

absl::Status DecodeInferResponse(Pieces pieces, ResponseFields* out) {
  *out = ResponseFields{};
  inference::ModelInferResponse answer;
  std::vector<Range> raw;
  std::string header;
  if (!PartMessage(pieces, &raw, &header) || !answer.ParseFromString(header) ||
      !(absl::SimpleAtoi(answer.id(), &out->id) || answer.id().empty())) {
    return absl::InternalError("the answer is no ModelInferResponse");
  }
  const std::size_t outputs = std::min(static_cast<std::size_t>(answer.outputs_size()), raw.size());
  for (std::size_t i = 0; i < outputs; ++i) {
    absl::Status status = TakeOutput(answer.outputs(static_cast<int>(i)), raw[i], out);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace softmax::client

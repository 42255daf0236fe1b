#include "common/wire/oip_decode.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "common/wire/contract.h"
#include "common/wire/decode.h"
#include "common/wire/fault.h"
#include "common/wire/oip_models.h"
#include "common/wire/oip_parameters.h"
#include "common/wire/oip_walk.h"
#include "common/wire/whole_message.h"

namespace softmax {
namespace {

// What an answer's header may have beside the outputs: the id, and each output's name, type, shape and lengths.
constexpr std::uint64_t kMostHeaderBytes = kMaxInferTextBytes + kMaxInferInputs * kInferOutputKinds * 256 + 256;
constexpr std::uint64_t kMostMessageBytes = std::numeric_limits<std::int32_t>::max();

absl::Status ApplyModel(const RawInferRequest& raw, InferRequest* out) {
  out->model = FindInferModel(raw.model_name, raw.model_version);
  return out->model != nullptr ? absl::OkStatus() : NoInferModel("model_", raw.model_name, raw.model_version);
}

absl::Status CheckCounts(const RawInferRequest& raw, const WireLimits& limits) {
  if (raw.inputs.empty()) return Invalid("inputs: has 0 tensors; must have at least 1");
  const auto sent =
      static_cast<std::size_t>(std::count_if(raw.inputs.begin(), raw.inputs.end(), [&](const RawInferInput& input) {
        return !limits.has_files || !input.place.any();
      }));
  if (!raw.raw.empty() && raw.raw.size() != sent) {
    return Invalid("raw_input_contents: has ", raw.raw.size(), " values; must have ", sent,
                   sent == raw.inputs.size() ? ", one for each of inputs, or none"
                                             : ", one for each of inputs that is not in shared memory, or none");
  }
  return absl::OkStatus();
}

absl::Status CheckNoParameter(const std::string& place, const std::optional<std::string>& key) {
  if (!key) return absl::OkStatus();
  return Invalid(place, ".parameters: ", Quoted(*key), " is not known here; must have none");
}

InferPlaces& PlacesOf(InferTensor* tensor) {
  if (tensor->places == nullptr) tensor->places = std::make_shared<InferPlaces>();
  return *tensor->places;
}

// `common`: what the parameters ask for.
absl::Status CheckName(const std::string& place, const RawInferInput& input, const RawRequest& common) {
  if (input.name.size() > kMaxInferNameBytes || !absl::StartsWith(input.name, "X")) {
    return Invalid(place, ".name: is ", Quoted(input.name), "; must be \"X\", or begin with it and have at most ",
                   kMaxInferNameBytes, " bytes");
  }
  for (const std::string_view ending : kInferEndings) {
    if (common.has_summary && !ending.empty() && input.name.ends_with(ending)) {
      return Invalid(place, ".name: is ", Quoted(input.name), "; must not end as the further outputs do, with ",
                     std::string(ending));
    }
  }
  return absl::OkStatus();
}

// The class_count of each of outputs[]; 0: it has none.
using ClassCounts = absl::InlinedVector<std::uint32_t, 1>;

absl::Status ReadClassCounts(const RawInferRequest& raw, const RawRequest& common, const WireLimits& limits,
                             ClassCounts* counts) {
  counts->assign(raw.outputs.size(), 0);
  for (std::size_t i = 0; i < raw.outputs.size(); ++i) {
    if (!raw.outputs[i].classification) continue;
    const std::string place = absl::StrCat("outputs[", i, "].parameters[\"classification\"]");
    if (common.top_k > 0) return Invalid(place, ": is set beside parameters[\"top_k\"]; must have one of them");
    if (absl::Status status = ReadTopK(place, *raw.outputs[i].classification, limits, &(*counts)[i]); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

// The outputs that the parameters offer beside the whole tensor.
InferOutputSet Further(const RawRequest& common) {
  InferOutputSet further;
  if (common.top_k > 0) {
    further.Add(InferOutput::kTopValues);
    further.Add(InferOutput::kTopIndices);
  }
  if (common.log_sum_exp) {
    further.Add(InferOutput::kLogSumExp);
    further.Add(InferOutput::kMaximum);
  }
  if (common.entropy) further.Add(InferOutput::kEntropy);
  return further;
}

// Which of an input's outputs has this name; nothing: none that there is.
std::optional<InferOutput> OutputNamed(std::string_view name, std::string_view whole, const RawRequest& common) {
  if (!name.starts_with(whole)) return std::nullopt;
  name.remove_prefix(whole.size());
  if (name.empty()) return InferOutput::kTensor;
  const InferOutputSet further = Further(common);
  for (std::size_t i = 0; i < kInferOutputKinds; ++i) {
    const auto output = static_cast<InferOutput>(i);
    if (name == kInferEndings[i] && further.Has(output)) return output;
  }
  return std::nullopt;
}

// What is wanted of the input whose whole answer has the name tensor->output, into its set and `native`.
void ChooseOutputs(const RawInferRequest& raw, const ClassCounts& counts, InferTensor* tensor, RawRequest* native) {
  InferOutputSet& wanted = tensor->outputs;
  std::uint32_t classes = 0;
  if (raw.outputs.empty()) {
    wanted = Further(*native);
    if (wanted.empty()) wanted.Add(InferOutput::kTensor);
  }
  for (std::size_t i = 0; i < raw.outputs.size(); ++i) {
    const std::optional<InferOutput> output = OutputNamed(raw.outputs[i].name, tensor->output, *native);
    if (!output) continue;
    const bool as_classes = *output == InferOutput::kTensor && counts[i] > 0;
    wanted.Add(as_classes ? InferOutput::kClasses : *output);
    if (as_classes) classes = counts[i];
  }
  if (classes > 0) {
    native->top_k = classes;
  } else if (!wanted.Has(InferOutput::kTopValues) && !wanted.Has(InferOutput::kTopIndices)) {
    native->top_k = 0;
  }
  native->log_sum_exp = wanted.Has(InferOutput::kLogSumExp) || wanted.Has(InferOutput::kMaximum);
  native->entropy = wanted.Has(InferOutput::kEntropy);
  native->has_summary = native->top_k > 0 || native->log_sum_exp || native->entropy;
  native->full = native->has_summary && wanted.Has(InferOutput::kTensor);
}

// Where the input's data are, into `native`; what is wrong with them in this protocol. `shared_bytes`: of those in
// shared memory.
absl::Status FindData(const RawInferRequest& raw, std::size_t index, const std::string& place,
                      std::uint64_t shared_bytes, RawRequest* native) {
  const RawInferInput& input = raw.inputs[index];
  const bool typed = input.fp32.bytes > 0 || input.fp64.bytes > 0 || input.other_contents > 0;
  if (input.place.any()) {
    if (typed) return Invalid(place, ".contents: is set beside a region of shared memory; must have one of them");
    native->data_size = shared_bytes;
    return absl::OkStatus();
  }
  if (!raw.raw.empty()) {
    if (typed) return Invalid(place, ".contents: is set beside raw_input_contents; must have one of them");
    const auto own = static_cast<std::size_t>(
        std::count_if(raw.inputs.begin(), raw.inputs.begin() + static_cast<std::ptrdiff_t>(index),
                      [](const RawInferInput& before) { return !before.place.any(); }));
    native->data_offset = raw.raw[own].offset;
    native->data_size = raw.raw[own].size;
    return absl::OkStatus();
  }
  if (!typed) return absl::OkStatus();
  const auto type = static_cast<kernels::DataType>(native->dtype);
  const bool is_fp64 = type == kernels::DataType::kFloat64;
  if (!is_fp64 && type != kernels::DataType::kFloat32) {
    return Invalid(place, ".contents: is set, and ", DatatypeName(type), " has no typed contents; must be sent in ",
                   "raw_input_contents");
  }
  const TypedValues& wanted = is_fp64 ? input.fp64 : input.fp32;
  if (input.other_contents > 0 || (is_fp64 ? input.fp32 : input.fp64).bytes > 0) {
    return Invalid(place, ".contents: has values of another type than ", DatatypeName(type), "; must have only ",
                   is_fp64 ? "fp64_contents" : "fp32_contents");
  }
  native->data_offset = wanted.offset;
  native->data_size = wanted.bytes;
  return absl::OkStatus();
}

// The native contract's words for a field, in this protocol's.
absl::Status InOurWords(const absl::Status& status, const std::string& place, const std::string& data) {
  const std::string_view text(status.message().data(), status.message().size());
  constexpr std::string_view kData = "input.data";
  constexpr std::string_view kInput = "input";
  if (text.starts_with(kData)) return Invalid(data, std::string(text.substr(kData.size())));
  if (text.starts_with(kInput)) return Invalid(place, std::string(text.substr(kInput.size())));
  return Invalid("parameters, with ", place, ": ", std::string(text));
}

absl::Status DecodeInput(const RawInferRequest& raw, std::size_t index, const RawRequest& common,
                         const ClassCounts& counts, const WireLimits& limits, InferTensor* out) {
  const RawInferInput& input = raw.inputs[index];
  const std::string place = absl::StrCat("inputs[", index, "]");
  if (absl::Status status = CheckName(place, input, common); !status.ok()) return status;
  InferPlace shared;
  if (absl::Status status = ReadPlace(place, index, input.place, limits, &shared); !status.ok()) return status;
  if (absl::Status status = CheckNoParameter(place, input.parameter); !status.ok()) return status;
  RawRequest native = common;
  native.has_input = true;
  native.dtype = DtypeOf(input.datatype);
  if (native.dtype == 0) {
    return Invalid(place, ".datatype: is ", Quoted(input.datatype),
                   "; must be \"FP32\", \"FP16\", \"BF16\" or \"FP64\"");
  }
  native.rank = input.rank;
  std::copy_n(input.shape, kMaxShapeRank, native.shape);
  if (absl::Status status = FindData(raw, index, place, shared.bytes, &native); !status.ok()) return status;
  out->output = "Y" + input.name.substr(1);
  ChooseOutputs(raw, counts, out, &native);
  if (absl::Status status = ApplyContract(native, limits, &out->request); !status.ok()) {
    std::string data = !raw.raw.empty() ? absl::StrCat("raw_input_contents[", index, "]") : place + ".contents";
    if (input.place.any()) data = place + ".parameters[\"shared_memory_byte_size\"]";
    return InOurWords(status, place, data);
  }
  if (!shared.region.empty()) PlacesOf(out).input = std::move(shared);
  const bool fp64 = native.dtype == static_cast<int>(kernels::DataType::kFloat64);
  const TypedValues& values = fp64 ? input.fp64 : input.fp32;
  out->gathered_pieces = values.pieces > 1 ? values.pieces : 0;  // raw contents have none
  out->input_offset = input.begin;
  TensorSpec& spec = out->request.spec;
  spec.pieces = out->gathered_pieces;
  out->axis =
      static_cast<std::uint32_t>(native.has_axis && native.axis >= 0
                                     ? native.axis
                                     : static_cast<std::int32_t>(input.rank) + (native.has_axis ? native.axis : -1));
  // Of a row that is shorter there are no more classes.
  if (out->outputs.Has(InferOutput::kClasses)) {
    spec.summary.top_k = static_cast<std::uint32_t>(
        std::clamp<std::int64_t>(spec.cols, 1, static_cast<std::int64_t>(spec.summary.top_k)));
    spec.texts = static_cast<std::uint64_t>(spec.rows()) * spec.summary.top_k;
    spec.text_bytes = spec.texts * MostClassBytes(spec);
  }
  return absl::OkStatus();
}

absl::Status PlaceOutput(const RawInferOutput& output, const std::string& field, InferOutput kind, InferPlace place,
                         InferTensor* tensor) {
  if (output.classification) {
    return absl::UnimplementedError(
        absl::StrCat(field, ".parameters: \"classification\": is not written to shared memory; must have one of both"));
  }
  const TensorSpec& spec = tensor->request.spec;
  const std::uint64_t bytes = kind == InferOutput::kTensor
                                  ? spec.tensor_bytes()
                                  : spec.summary_layout().bytes[kInferParts[static_cast<std::size_t>(kind)]];
  if (place.bytes < bytes) {
    return Invalid(field, ".parameters[\"shared_memory_byte_size\"]: is ", place.bytes, "; must be at least ", bytes,
                   ", the bytes of ", Quoted(output.name));
  }
  PlacesOf(tensor).outputs[static_cast<std::size_t>(kind)] = std::move(place);
  return absl::OkStatus();
}

// Each of the outputs that are asked for is there, and once; keeps only the tensors of which something is.
absl::Status CheckOutputs(const RawInferRequest& raw, const RawRequest& common, const WireLimits& limits,
                          InferRequest* out) {
  for (std::size_t i = 0; i < raw.outputs.size(); ++i) {
    const std::string place = absl::StrCat("outputs[", i, "]");
    const RawInferOutput& output = raw.outputs[i];
    const auto it = std::find_if(out->tensors.begin(), out->tensors.end(), [&](const InferTensor& tensor) {
      return OutputNamed(output.name, tensor.output, common).has_value();
    });
    if (it == out->tensors.end()) {
      return Invalid(place, ".name: is ", Quoted(output.name),
                     "; must be the name of an input with Y for its X, or that with an ending of the further outputs "
                     "that parameters ask for");
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (raw.outputs[j].name == output.name) {
        return Invalid(place, ".name: ", Quoted(output.name), " is there twice; must be there once");
      }
    }
    if (output.classification && it->output != output.name) {
      return Invalid(place, ".parameters: \"classification\" is there for ", Quoted(output.name),
                     "; must be there for whole tensors only");
    }
    InferPlace shared;
    if (absl::Status status = ReadPlace(place, i, output.place, limits, &shared); !status.ok()) return status;
    if (absl::Status status = CheckNoParameter(place, output.parameter); !status.ok()) return status;
    if (shared.region.empty()) continue;
    const InferOutput kind = *OutputNamed(output.name, it->output, common);
    if (absl::Status status = PlaceOutput(output, place, kind, std::move(shared), &*it); !status.ok()) return status;
  }
  const auto dropped = std::remove_if(out->tensors.begin(), out->tensors.end(),
                                      [](const InferTensor& tensor) { return tensor.outputs.empty(); });
  out->tensors.erase(dropped, out->tensors.end());
  return absl::OkStatus();
}

absl::Status CheckNamesAndSizes(const WireLimits& limits, const InferRequest& request) {
  std::uint64_t in = 0;
  std::uint64_t out = 0;
  for (std::size_t i = 0; i < request.tensors.size(); ++i) {
    const InferTensor& tensor = request.tensors[i];
    for (std::size_t j = 0; j < i; ++j) {
      if (request.tensors[j].output == tensor.output) {
        return Invalid("inputs[", i, "].name: is that of inputs[", j, "], too; must be its own");
      }
    }
    in += tensor.request.spec.input_bytes();
    out += tensor.request.spec.output_bytes();
    out += tensor.request.spec.text_bytes;
  }
  if (in > limits.max_request_bytes) {
    return Invalid("inputs: have ", in, " bytes together; must have at most ", limits.max_request_bytes,
                   " (max_request_bytes)");
  }
  const std::uint64_t most = std::min(limits.max_response_bytes, kMostMessageBytes - kMostHeaderBytes);
  if (out > most) {
    return Invalid("outputs: have ", out, " bytes together; must have at most ", most, " (max_response_bytes)");
  }
  return absl::OkStatus();
}

absl::Status ApplyRules(const RawInferRequest& raw, const WireLimits& limits, InferRequest* out) {
  if (absl::Status status = ApplyModel(raw, out); !status.ok()) return status;
  RawRequest common;
  if (absl::Status status = ApplyParameters(raw, limits, &common, out); !status.ok()) return status;
  if (absl::Status status = CheckCounts(raw, limits); !status.ok()) return status;
  ClassCounts counts;
  if (absl::Status status = ReadClassCounts(raw, common, limits, &counts); !status.ok()) return status;
  for (std::size_t i = 0; i < raw.inputs.size(); ++i) {
    if (absl::Status status = DecodeInput(raw, i, common, counts, limits, &out->tensors.emplace_back()); !status.ok()) {
      return status;
    }
  }
  if (absl::Status status = CheckNamesAndSizes(limits, *out); !status.ok()) return status;
  return CheckOutputs(raw, common, limits, out);
}

absl::Status DescribeFailure(const WireCursor& cursor, const RawInferRequest& raw) {
  const bool is_whole = cursor.fault() == WireFault::kManyFields;
  return Invalid(is_whole ? "message" : raw.field, ": ", DescribeFault(cursor));
}

}  // namespace

std::uint64_t MostClassBytes(const TensorSpec& spec) {
  std::string_view value = "1.000000";
  if (spec.is_log()) {
    switch (spec.output_type) {
      case kernels::DataType::kFloat16:
        value = "-65504.000000";
        break;
      case kernels::DataType::kFloat32:
      case kernels::DataType::kBFloat16:
        value = "-3.4028234663852886e+38";
        break;
      case kernels::DataType::kFloat64:
        value = "-1.7976931348623157e+308";
        break;
    }
  }
  const std::string index = absl::StrCat(":", std::max<std::int64_t>(spec.cols, 1) - 1);
  return sizeof(std::uint32_t) + value.size() + index.size();
}

void DecodeInferRequest(Slices slices, const WireLimits& limits, InferRequest* out) {
  *out = InferRequest{};
  WireCursor cursor(slices);
  cursor.LimitFields(kMaxInferFields);
  cursor.LimitSteps(limits.max_steps);
  const std::uint64_t bytes = cursor.remaining();
  RawInferRequest raw;
  const bool well_formed = WalkInferRequest(&cursor, &raw);
  if (cursor.fault() == WireFault::kOutOfSteps) {
    out->beyond_budget = true;
    out->status = OutOfSteps();
    return;
  }
  out->id = raw.id;
  out->status = well_formed ? ApplyRules(raw, limits, out) : DescribeFailure(cursor, raw);
  if (out->status.ok()) out->status = CheckMessage(bytes, limits);
  if (!out->status.ok()) {
    out->tensors.clear();
    out->status = OrCompressed(slices, std::move(out->status));
  }
}

}  // namespace softmax

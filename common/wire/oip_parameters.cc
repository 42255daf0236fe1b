#include "common/wire/oip_parameters.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>

#include "common/wire/oip_models.h"
#include "common/wire/whole_message.h"

namespace softmax {
namespace {

using Kind = InferParameter::Kind;

const char* KindName(Kind kind) {
  switch (kind) {
    case Kind::kNone:
      return "no value";
    case Kind::kBool:
      return "a bool_param";
    case Kind::kInt64:
      return "an int64_param";
    case Kind::kString:
      return "a string_param";
    case Kind::kDouble:
      return "a double_param";
    case Kind::kUint64:
      return "a uint64_param";
  }
  return "";
}

[[gnu::cold]] absl::Status WrongKind(const char* name, const InferParameter& parameter, const char* wanted) {
  return Invalid("parameters[\"", name, "\"]: has ", KindName(parameter.kind), "; must have ", wanted);
}

// A whole number of either sign; nothing when it is of another kind. One above the signed range comes as the largest.
std::optional<std::int64_t> IntegerOf(const InferParameter& parameter) {
  if (parameter.kind == Kind::kInt64) return static_cast<std::int64_t>(parameter.bits);
  if (parameter.kind != Kind::kUint64) return std::nullopt;
  return static_cast<std::int64_t>(std::min<std::uint64_t>(parameter.bits, std::numeric_limits<std::int64_t>::max()));
}

absl::Status ApplyAxis(const RawInferRequest& raw, RawRequest* native) {
  if (!raw.axis) return absl::OkStatus();
  const std::optional<std::int64_t> axis = IntegerOf(*raw.axis);
  if (!axis) return WrongKind("axis", *raw.axis, "an int64_param");
  native->has_axis = true;
  // What no rank has stays what no rank has.
  native->axis = static_cast<std::int32_t>(std::clamp<std::int64_t>(*axis, INT32_MIN, INT32_MAX));
  return absl::OkStatus();
}

absl::Status ApplyScale(const RawInferRequest& raw, RawRequest* native) {
  if (!raw.scale) return absl::OkStatus();
  native->has_scale = true;
  if (raw.scale->kind == Kind::kDouble) {
    native->scale = std::bit_cast<double>(raw.scale->bits);
  } else if (const std::optional<std::int64_t> whole = IntegerOf(*raw.scale)) {
    native->scale = static_cast<double>(*whole);
  } else {
    return WrongKind("scale", *raw.scale, "a double_param or int64_param");
  }
  return absl::OkStatus();
}

absl::Status ApplyOutputDtype(const RawInferRequest& raw, RawRequest* native) {
  if (!raw.output_dtype) return absl::OkStatus();
  if (raw.output_dtype->kind != Kind::kString) return WrongKind("output_dtype", *raw.output_dtype, "a string_param");
  native->output_dtype = DtypeOf(raw.output_dtype->text);
  if (native->output_dtype != 0) return absl::OkStatus();
  return Invalid("parameters[\"output_dtype\"]: is ", Quoted(raw.output_dtype->text),
                 "; must be \"FP32\", \"FP16\", \"BF16\" or \"FP64\"");
}

absl::Status ApplyTimeout(const RawInferRequest& raw, InferRequest* out) {
  if (!raw.timeout) return absl::OkStatus();
  const std::optional<std::int64_t> timeout = IntegerOf(*raw.timeout);
  if (!timeout) return WrongKind("timeout", *raw.timeout, "an int64_param");
  if (*timeout < 0) return Invalid("parameters[\"timeout\"]: is ", *timeout, "; must be >= 0 microseconds");
  // Longer than an hour is as good as none.
  out->timeout_us = static_cast<std::uint32_t>(std::min<std::int64_t>(*timeout, UINT32_MAX));
  return absl::OkStatus();
}

absl::Status ReadBool(const char* name, const std::optional<InferParameter>& parameter, bool* value) {
  if (!parameter) return absl::OkStatus();
  if (parameter->kind != Kind::kBool) return WrongKind(name, *parameter, "a bool_param");
  *value = parameter->bits != 0;
  return absl::OkStatus();
}

absl::Status ApplySummary(const RawInferRequest& raw, const WireLimits& limits, RawRequest* native) {
  if (raw.top_k) {
    if (absl::Status status = ReadTopK("parameters[\"top_k\"]", *raw.top_k, limits, &native->top_k); !status.ok()) {
      return status;
    }
  }
  if (absl::Status status = ReadBool("log_sum_exp", raw.log_sum_exp, &native->log_sum_exp); !status.ok()) {
    return status;
  }
  if (absl::Status status = ReadBool("entropy", raw.entropy, &native->entropy); !status.ok()) return status;
  native->has_summary = native->top_k > 0 || native->log_sum_exp || native->entropy;
  return absl::OkStatus();
}

absl::Status ReadSize(const std::string& where, const char* key, const InferParameter& parameter, std::uint64_t* size) {
  const std::optional<std::int64_t> number = IntegerOf(parameter);
  if (!number) return Invalid(where, key, "\"]: has ", KindName(parameter.kind), "; must have an int64_param");
  if (*number < 0) return Invalid(where, key, "\"]: is ", *number, "; must be >= 0 bytes");
  *size = static_cast<std::uint64_t>(*number);
  return absl::OkStatus();
}

}  // namespace

int DtypeOf(std::string_view name) {
  for (int dtype = 1; dtype <= 4; ++dtype) {
    if (name == DatatypeName(static_cast<kernels::DataType>(dtype))) return dtype;
  }
  return 0;
}

absl::Status ReadTopK(const std::string& place, const InferParameter& parameter, const WireLimits& limits,
                      std::uint32_t* k) {
  const std::optional<std::int64_t> number = IntegerOf(parameter);
  if (!number) return Invalid(place, ": has ", KindName(parameter.kind), "; must have an int64_param");
  if (*number < 1 || *number > limits.max_top_k) {
    return Invalid(place, ": is ", *number, "; must be from 1 to ", limits.max_top_k, " (max_top_k)");
  }
  *k = static_cast<std::uint32_t>(*number);
  return absl::OkStatus();
}

absl::Status ApplyParameters(const RawInferRequest& raw, const WireLimits& limits, RawRequest* native,
                             InferRequest* out) {
  if (raw.unknown) {
    return Invalid("parameters: ", Quoted(*raw.unknown),
                   " is not known here; known are axis, scale, output_dtype, timeout, top_k, log_sum_exp and entropy, "
                   "and ignored are priority, sequence_*, binary_data_output and content_type");
  }
  if (absl::Status status = ApplyAxis(raw, native); !status.ok()) return status;
  if (absl::Status status = ApplyScale(raw, native); !status.ok()) return status;
  if (absl::Status status = ApplyOutputDtype(raw, native); !status.ok()) return status;
  if (absl::Status status = ApplyTimeout(raw, out); !status.ok()) return status;
  bool ignored;  // there are no empty answers
  if (absl::Status status = ReadBool("triton_enable_empty_final_response", raw.empty_final, &ignored); !status.ok()) {
    return status;
  }
  if (absl::Status status = ApplySummary(raw, limits, native); !status.ok()) return status;
  native->operation = static_cast<std::int32_t>(out->model->operation);
  return absl::OkStatus();
}

absl::Status ReadPlace(const std::string& field, std::size_t index, const RawInferPlace& raw, const WireLimits& limits,
                       InferPlace* place) {
  if (!raw.any()) return absl::OkStatus();
  if (!limits.has_files) {
    return absl::UnimplementedError(
        absl::StrCat(field,
                     ".parameters: \"shared_memory_region\": there is no shared memory here "
                     "(oip_shared_memory); send raw_input_contents"));
  }
  const std::string where = absl::StrCat(field, ".parameters[\"");
  if (!raw.region || raw.region->kind != Kind::kString || raw.region->text.empty()) {
    return Invalid(where, "shared_memory_region\"]: has ", raw.region ? KindName(raw.region->kind) : "no value",
                   "; must have the name of a registered region, a string_param");
  }
  if (!raw.bytes) return Invalid(where, "shared_memory_byte_size\"]: has no value; must have an int64_param");
  if (absl::Status status = ReadSize(where, "shared_memory_byte_size", *raw.bytes, &place->bytes); !status.ok()) {
    return status;
  }
  if (raw.offset) {
    if (absl::Status status = ReadSize(where, "shared_memory_offset", *raw.offset, &place->offset); !status.ok()) {
      return status;
    }
  }
  place->region = raw.region->text;
  place->index = static_cast<std::uint32_t>(index);
  return absl::OkStatus();
}

}  // namespace softmax

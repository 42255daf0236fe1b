#include "common/wire/oip_walk.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "common/base/safe_text.h"
#include "common/wire/bounds.h"
#include "common/wire/oip_decode.h"
#include "common/wire/oip_tags.h"

namespace softmax {
namespace {

constexpr int kTopDepth = kWireDepth;

bool ReadText(WireCursor* cursor, std::string* text) {
  text->clear();
  std::uint64_t size;
  if (!cursor->ReadLength(&size)) return false;
  if (size > kMaxInferTextBytes) return cursor->Fail(WireFault::kLongText, kMaxInferTextBytes);
  if (!cursor->SpendBytes(size)) return false;
  text->resize(size);
  cursor->Read(size, text->data());
  if (IsUtf8(*text)) return true;
  text->clear();  // an answer that echoes it could not be read
  return cursor->Fail(WireFault::kNotUtf8, size);
}

bool WalkParameter(WireCursor* cursor, int depth, InferParameter* parameter) {
  using Kind = InferParameter::Kind;
  return ForEachFieldInside(cursor, [&](std::uint32_t tag) {
    switch (tag) {
      case kParameterBool:
        parameter->kind = Kind::kBool;
        return cursor->ReadVarint(&parameter->bits);
      case kParameterInt64:
        parameter->kind = Kind::kInt64;
        return cursor->ReadVarint(&parameter->bits);
      case kParameterString:
        parameter->kind = Kind::kString;
        return ReadText(cursor, &parameter->text);
      case kParameterDouble:
        parameter->kind = Kind::kDouble;
        return cursor->ReadFixed64(&parameter->bits);
      case kParameterUint64:
        parameter->kind = Kind::kUint64;
        return cursor->ReadVarint(&parameter->bits);
      default:
        return cursor->SkipField(tag, depth);
    }
  });
}

// An entry of a map: the last of several keys and all parts of several values count.
bool WalkEntry(WireCursor* cursor, int depth, RawInferRequest* request, std::string* key, InferParameter* value) {
  if (request->parameters++ == kMaxInferParameters) {
    return cursor->Fail(WireFault::kManyParameters, kMaxInferParameters);
  }
  return ForEachFieldInside(cursor, [&](std::uint32_t tag) {
    if (tag == kEntryKey) return ReadText(cursor, key);
    if (tag == kEntryValue) return WalkParameter(cursor, depth - 1, value);
    return cursor->SkipField(tag, depth);
  });
}

// What public SDKs say of how tensors travel over HTTP (binary_data...), or of how to read them (MLServer's), on gRPC,
// too: of tensors of numbers it changes nothing.
bool ChangesNothing(std::string_view key) {
  return key == "binary_data" || key == "binary_data_size" || key == "binary_data_output" || key == "content_type";
}

// A parameter of an input or output. `classification`: where the value of this key goes; null: it is not known, either.
// Of those that are not known the first one's name is all that is needed.
bool WalkTensorEntry(WireCursor* cursor, int depth, RawInferRequest* request, std::optional<std::string>* unknown,
                     RawInferPlace* place, std::optional<InferParameter>* classification) {
  std::string key;
  InferParameter value;
  if (!WalkEntry(cursor, depth, request, &key, &value)) return false;
  if (classification != nullptr && key == "classification") {
    *classification = std::move(value);
  } else if (key == "shared_memory_region") {
    place->region = std::move(value);
  } else if (key == "shared_memory_byte_size") {
    place->bytes = std::move(value);
  } else if (key == "shared_memory_offset") {
    place->offset = std::move(value);
  } else if (!unknown->has_value() && !ChangesNothing(key)) {
    *unknown = std::move(key);
  }
  return true;
}

bool IsIgnoredForRequest(std::string_view key) {
  return key == "priority" || key.starts_with("sequence_") || ChangesNothing(key);
}

bool WalkRequestEntry(WireCursor* cursor, int depth, RawInferRequest* request) {
  std::string key;
  InferParameter value;
  if (!WalkEntry(cursor, depth, request, &key, &value)) return false;
  struct Known {
    std::string_view key;
    std::optional<InferParameter> RawInferRequest::*value;
  };
  static constexpr std::array<Known, 8> kKnown = {{
      {"axis", &RawInferRequest::axis},
      {"scale", &RawInferRequest::scale},
      {"output_dtype", &RawInferRequest::output_dtype},
      {"timeout", &RawInferRequest::timeout},
      {"triton_enable_empty_final_response", &RawInferRequest::empty_final},
      {"top_k", &RawInferRequest::top_k},
      {"log_sum_exp", &RawInferRequest::log_sum_exp},
      {"entropy", &RawInferRequest::entropy},
  }};
  for (const Known& known : kKnown) {
    if (key != known.key) continue;
    request->*known.value = std::move(value);
    return true;
  }
  if (!IsIgnoredForRequest(key) && !request->unknown.has_value()) request->unknown = std::move(key);
  return true;
}

// One field of values of `size` bytes each, packed or one alone. `out`: where they are copied to; null: only counted.
bool ReadValues(WireCursor* cursor, bool packed, std::uint64_t size, TypedValues* values, std::byte** out) {
  std::uint64_t length = size;
  if (packed) {
    if (!cursor->ReadLength(&length)) return false;
    if (length % size != 0) return cursor->Fail(WireFault::kPackedOverhang, length);
    if (length == 0) return true;
  }
  cursor->GiveFieldBack();
  if (cursor->remaining() < length) return cursor->Fail(WireFault::kTruncated, cursor->remaining());
  if (values->bytes == 0) values->offset = cursor->position();
  values->bytes += length;
  ++values->pieces;
  if (*out == nullptr) return cursor->Skip(length);
  cursor->Read(length, *out);
  *out += length;
  return true;
}

// What is no FP32 or FP64: whether there is any is all that is needed.
bool WalkOtherContents(WireCursor* cursor, std::uint32_t tag, int depth, RawInferInput* input) {
  constexpr std::uint32_t kBytesContents = 8 << 3 | 2;
  const std::uint32_t number = tag >> 3;
  const bool is_integers = number < (kInferFp32 >> 3);
  const auto note = [&](std::uint64_t) { input->other_contents = number; };
  if (is_integers && (tag & 7) == 2) return ReadPacked(cursor, note);
  if (tag == kBytesContents || (is_integers && (tag & 7) == 0)) note(0);
  return cursor->SkipField(tag, depth);
}

bool WalkContents(WireCursor* cursor, int depth, RawInferInput* input, std::byte** fp32, std::byte** fp64) {
  return ForEachFieldInside(cursor, [&](std::uint32_t tag) {
    switch (tag) {
      case kInferFp32:
      case kInferFp32Packed:
        return ReadValues(cursor, tag == kInferFp32Packed, sizeof(float), &input->fp32, fp32);
      case kInferFp64:
      case kInferFp64Packed:
        return ReadValues(cursor, tag == kInferFp64Packed, sizeof(double), &input->fp64, fp64);
      default:
        return WalkOtherContents(cursor, tag, depth, input);
    }
  });
}

bool AddDimension(WireCursor* cursor, RawInferInput* input, std::uint64_t value) {
  if (input->rank == kMaxDimensions) return cursor->Fail(WireFault::kManyDimensions, kMaxDimensions);
  if (input->rank < kMaxShapeRank) input->shape[input->rank] = static_cast<std::int64_t>(value);
  ++input->rank;
  return true;
}

bool WalkInputField(WireCursor* cursor, std::uint32_t tag, int depth, RawInferRequest* request, RawInferInput* input) {
  std::uint64_t value;
  std::byte* none = nullptr;
  switch (tag) {
    case kInferTensorName:
      return ReadText(cursor, &input->name);
    case kInferTensorDatatype:
      return ReadText(cursor, &input->datatype);
    case kInferTensorShapePacked:
      return ReadPacked(cursor, [&](std::uint64_t v) { return AddDimension(cursor, input, v); });
    case kInferTensorShape:
      cursor->GiveFieldBack();
      return cursor->ReadVarint(&value) && AddDimension(cursor, input, value);
    case kInferTensorParameters:
      return WalkTensorEntry(cursor, depth - 1, request, &input->parameter, &input->place, nullptr);
    case kInferTensorContents:
      return WalkContents(cursor, depth - 1, input, &none, &none);
    default:
      return cursor->SkipField(tag, depth);
  }
}

bool WalkInput(WireCursor* cursor, int depth, RawInferRequest* request) {
  if (request->inputs.size() == kMaxInferInputs) return cursor->Fail(WireFault::kManyElements, kMaxInferInputs);
  RawInferInput& input = request->inputs.emplace_back();
  input.begin = cursor->position();
  return ForEachFieldInside(cursor,
                            [&](std::uint32_t tag) { return WalkInputField(cursor, tag, depth, request, &input); });
}

bool WalkOutput(WireCursor* cursor, int depth, RawInferRequest* request) {
  if (request->outputs.size() == kMaxInferInputs) return cursor->Fail(WireFault::kManyElements, kMaxInferInputs);
  RawInferOutput& output = request->outputs.emplace_back();
  return ForEachFieldInside(cursor, [&](std::uint32_t tag) {
    if (tag == kInferTensorName) return ReadText(cursor, &output.name);
    if (tag == kInferRequestedParameters) {
      return WalkTensorEntry(cursor, depth - 1, request, &output.parameter, &output.place, &output.classification);
    }
    return cursor->SkipField(tag, depth);
  });
}

bool WalkRaw(WireCursor* cursor, RawInferRequest* request) {
  if (request->raw.size() == kMaxInferInputs) return cursor->Fail(WireFault::kManyElements, kMaxInferInputs);
  std::uint64_t length;
  if (!cursor->ReadLength(&length)) return false;
  request->raw.push_back({cursor->position(), length});
  return cursor->Skip(length);
}

bool WalkField(WireCursor* cursor, std::uint32_t tag, RawInferRequest* request) {
  switch (tag) {
    case kInferModelName:
      request->field = "model_name";
      return ReadText(cursor, &request->model_name);
    case kInferModelVersion:
      request->field = "model_version";
      return ReadText(cursor, &request->model_version);
    case kInferId:
      request->field = "id";
      return ReadText(cursor, &request->id);
    case kInferParameters:
      request->field = "parameters";
      return WalkRequestEntry(cursor, kTopDepth - 1, request);
    case kInferInputs:
      request->field = "inputs";
      return WalkInput(cursor, kTopDepth - 1, request);
    case kInferOutputs:
      request->field = "outputs";
      return WalkOutput(cursor, kTopDepth - 1, request);
    case kInferRawInput:
      request->field = "raw_input_contents";
      return WalkRaw(cursor, request);
    default:
      request->field = "message";
      return cursor->SkipField(tag, kTopDepth);
  }
}

}  // namespace

bool WalkInferRequest(WireCursor* cursor, RawInferRequest* request) {
  return ForEachField(cursor, [&](std::uint32_t tag) { return WalkField(cursor, tag, request); });
}

void CopyTypedContents(Slices slices, const InferTensor& tensor, std::byte* destination) {
  const bool fp64 = tensor.request.spec.input_type == kernels::DataType::kFloat64;
  WireCursor cursor(slices);
  cursor.Skip(tensor.input_offset);
  RawInferInput again;
  std::byte* none = nullptr;
  std::byte** const fp32_out = fp64 ? &none : &destination;
  std::byte** const fp64_out = fp64 ? &destination : &none;
  // All of this has been walked, so that nothing fails.
  (void)ForEachFieldInside(&cursor, [&](std::uint32_t tag) {
    if (tag == kInferTensorContents) return WalkContents(&cursor, kWireDepth - 2, &again, fp32_out, fp64_out);
    return cursor.SkipField(tag, kWireDepth - 1);
  });
}

}  // namespace softmax

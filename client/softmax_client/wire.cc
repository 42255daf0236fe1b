#include "client/softmax_client/wire.h"

#include <bit>
#include <cstring>

#include "client/softmax_client/fields.h"

namespace softmax::client {
namespace {

template <typename T>
void AppendPackedField(std::uint32_t tag, std::span<const T> values, std::string* out) {
  if (values.empty()) return;
  std::size_t size = 0;
  for (const T value : values) size += VarintSize(static_cast<std::uint64_t>(value));
  AppendField(tag, size, out);
  for (const T value : values) AppendVarint(static_cast<std::uint64_t>(value), out);
}

void AppendScale(double scale, std::string* out) {
  AppendVarint(kRequestScale, out);
  const auto bits = std::bit_cast<std::uint64_t>(scale);
  for (int shift = 0; shift < 64; shift += 8) out->push_back(static_cast<char>(bits >> shift));
}

void AppendSummary(const SummaryOptions& summary, std::string* out) {
  std::string block;
  if (summary.top_k != 0) AppendField(kSummaryRequestTopK, summary.top_k, &block);
  if (!summary.indices.empty()) {
    static_assert(std::endian::native == std::endian::little);
    AppendField(kSummaryRequestIndices, summary.indices.size_bytes(), &block);
    block.append(reinterpret_cast<const char*>(summary.indices.data()), summary.indices.size_bytes());
  }
  if (summary.log_sum_exp) AppendField(kSummaryRequestLogSumExp, 1, &block);
  if (summary.entropy) AppendField(kSummaryRequestEntropy, 1, &block);
  if (summary.full) AppendField(kSummaryRequestFull, 1, &block);
  AppendField(kRequestSummary, block.size(), out);
  *out += block;
}

void AppendPlace(std::uint32_t tag, const PlaceFields& place, std::string* out) {
  const std::size_t token = place.region.size();
  AppendField(tag, 2 + token + (place.offset == 0 ? 0 : 1 + VarintSize(place.offset)), out);
  AppendField(kPlaceRegion, token, out);
  out->append(reinterpret_cast<const char*>(place.region.data()), token);
  if (place.offset != 0) AppendField(kPlaceOffset, place.offset, out);
}

// A token of another size is none that was given.
bool ReadPlace(WireCursor* cursor, std::optional<PlaceFields>* out) {
  PlaceFields& place = out->emplace();
  return ReadFields(cursor, Into{kPlaceRegion, &place.region}, Into{kPlaceOffset, &place.offset});
}

absl::Status Malformed(const char* where) {
  return absl::InternalError(std::string("the server's answer cannot be decoded: malformed ") + where);
}

bool ReadStatus(WireCursor* cursor, ResponseFields* out) {
  return ReadFields(cursor, Into{kStatusCode, &out->code}, Into{kStatusMessage, &out->message},
                    Into{kStatusRetryAfter, &out->retry_after_ms});
}

bool ReadTiming(WireCursor* cursor, ResponseFields* out) {
  ServerTiming& timing = out->timing;
  return ReadFields(cursor, Into{kTimingQueue, &timing.queue_ns}, Into{kTimingBatch, &timing.batch_ns},
                    Into{kTimingExecution, &timing.execution_ns}, Into{kTimingBatchRows, &timing.batch_rows});
}

bool AddDimension(std::uint64_t value, ResponseFields* out) {
  if (out->rank == kMaxRank) return false;
  out->shape[out->rank++] = static_cast<std::int64_t>(value);
  return true;
}

bool ReadOutput(WireCursor* cursor, ResponseFields* out) {
  out->has_output = true;
  return ForEachFieldInside(cursor, [&](std::uint32_t tag) {
    std::uint64_t value;
    bool fits = true;
    switch (tag) {
      case kTensorShape:
        return cursor->ReadVarint(&value) && AddDimension(value, out);
      case kTensorShapePacked:
        return ReadPacked(cursor, [&](std::uint64_t v) { fits = fits && AddDimension(v, out); }) && fits;
      case kTensorPlace:
        return ReadPlace(cursor, &out->place);
      case kTensorData:
        if (!cursor->ReadLength(&out->payload_bytes)) return false;
        out->payload_offset = cursor->position();
        return cursor->Skip(out->payload_bytes);
      default:
        return ReadField(cursor, tag, Into{kTensorDtype, &out->dtype});
    }
  });
}

bool ReadSummary(WireCursor* cursor, ResponseFields* out) {
  out->has_summary = true;
  return ForEachFieldInside(cursor, [&](std::uint32_t tag) {
    if (tag == kSummaryPlace) return ReadPlace(cursor, &out->summary_place);
    if (tag < kSummaryTopValues || tag > kSummaryEntropy || (tag & 7) != 2) {
      return SkipField(cursor, tag);
    }
    const std::size_t part = (tag - kSummaryTopValues) >> 3;
    if (!cursor->ReadLength(&out->part_bytes[part])) return false;
    out->part_offset[part] = cursor->position();
    return cursor->Skip(out->part_bytes[part]);
  });
}

bool ReadResponseField(WireCursor* cursor, std::uint32_t tag, ResponseFields* out) {
  switch (tag) {
    case kResponseStatus:
      return ReadStatus(cursor, out);
    case kResponseTiming:
      return ReadTiming(cursor, out);
    case kResponseSummary:
      return ReadSummary(cursor, out);
    case kResponseOutput:
      return ReadOutput(cursor, out);
    default:
      return ReadField(cursor, tag, Into{kResponseId, &out->id});
  }
}

}  // namespace

void AppendRequestHeader(const RequestFields& fields, Framing framing, std::string* out) {
  std::string tensor;
  AppendField(kTensorDtype, static_cast<std::uint64_t>(fields.dtype), &tensor);
  AppendPackedField(kTensorShapePacked, fields.shape, &tensor);
  if (fields.place) {
    AppendPlace(kTensorPlace, *fields.place, &tensor);
  } else {
    AppendField(kTensorData, fields.data_bytes, &tensor);
  }

  std::string request;
  if (fields.id != 0) AppendField(kRequestId, fields.id, &request);
  if (fields.operation != Operation::kSoftmax) {
    AppendField(kRequestOperation, static_cast<std::uint64_t>(fields.operation), &request);
  }
  if (fields.axis) {  // a negative int32 is sign-extended to 64 bits on the wire
    AppendField(kRequestAxis, static_cast<std::uint64_t>(std::int64_t{*fields.axis}), &request);
  }
  if (fields.scale) AppendScale(*fields.scale, &request);
  if (fields.output_dtype) {
    AppendField(kRequestOutputDtype, static_cast<std::uint64_t>(*fields.output_dtype), &request);
  }
  AppendPackedField(kRequestLengthsPacked, fields.lengths, &request);
  if (fields.timeout_us != 0) AppendField(kRequestTimeout, fields.timeout_us, &request);
  if (fields.summary.any()) AppendSummary(fields.summary, &request);
  if (fields.output_place) AppendPlace(kRequestOutputPlace, *fields.output_place, &request);
  if (fields.summary_place) AppendPlace(kRequestSummaryPlace, *fields.summary_place, &request);
  AppendField(kRequestInput, tensor.size() + fields.data_bytes, &request);
  request += tensor;

  if (framing == Framing::kStreamElement) {
    AppendField(kStreamElement, request.size() + fields.data_bytes, out);
  }
  *out += request;
}

absl::Status DecodeResponse(Pieces pieces, ResponseFields* out) {
  *out = ResponseFields();
  WireCursor cursor(pieces);
  const bool good = ForEachField(&cursor, [&](std::uint32_t tag) { return ReadResponseField(&cursor, tag, out); });
  return good ? absl::OkStatus() : Malformed("SoftmaxResponse");
}

absl::Status DecodeStreamResponse(Pieces pieces, std::vector<ResponseFields>* out) {
  out->clear();
  WireCursor cursor(pieces);
  const bool good = ForEachField(&cursor, [&](std::uint32_t tag) {
    if (tag != kStreamElement) return SkipField(&cursor, tag);
    ResponseFields& response = out->emplace_back();
    return ForEachFieldInside(&cursor,
                              [&](std::uint32_t inner) { return ReadResponseField(&cursor, inner, &response); });
  });
  return good ? absl::OkStatus() : Malformed("SoftmaxStreamResponse");
}

bool EqualsPieces(Pieces pieces, std::uint64_t offset, std::span<const std::byte> expected) {
  bool equal = true;
  VisitSlices(pieces, offset, expected.size(), [&](const std::uint8_t* data, std::uint64_t size) {
    equal = equal && std::memcmp(data, expected.data(), size) == 0;
    expected = expected.subspan(size);
  });
  return equal && expected.empty();
}

}  // namespace softmax::client

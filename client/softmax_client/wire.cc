#include "client/softmax_client/wire.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "client/softmax_client/fields.h"
#include "client/softmax_client/piece_reader.h"

namespace softmax::client {
namespace {

void AppendVarint(std::uint64_t value, std::string* out) {
  while (value >= 0x80) {
    out->push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out->push_back(static_cast<char>(value));
}

std::size_t VarintSize(std::uint64_t value) { return static_cast<std::size_t>(std::bit_width(value | 1) + 6) / 7; }

void AppendTag(std::uint32_t field, std::uint32_t wire_type, std::string* out) {
  AppendVarint(field << 3 | wire_type, out);
}

void AppendVarintField(std::uint32_t field, std::uint64_t value, std::string* out) {
  AppendTag(field, kVarint, out);
  AppendVarint(value, out);
}

template <typename T>
void AppendPackedField(std::uint32_t field, std::span<const T> values, std::string* out) {
  if (values.empty()) return;
  std::size_t size = 0;
  for (const T value : values) size += VarintSize(static_cast<std::uint64_t>(value));
  AppendTag(field, kBytes, out);
  AppendVarint(size, out);
  for (const T value : values) AppendVarint(static_cast<std::uint64_t>(value), out);
}

void AppendScale(double scale, std::string* out) {
  AppendTag(4, kFixed64, out);
  const auto bits = std::bit_cast<std::uint64_t>(scale);
  for (int shift = 0; shift < 64; shift += 8) out->push_back(static_cast<char>(bits >> shift));
}

absl::Status Malformed(const char* where) {
  return absl::InternalError(std::string("the server's answer cannot be decoded: malformed ") + where);
}

bool ReadStatus(PieceReader& reader, ResponseFields* out) {
  return ForEachFieldInside(reader, [&](std::uint32_t field, std::uint32_t type) {
    std::uint64_t value = 0;
    if (field == 2 && type == kBytes) {
      return reader.ReadLength(&value) && reader.ReadString(value, &out->message);
    }
    if ((field != 1 && field != 3) || type != kVarint) return reader.SkipValue(type);
    if (!reader.ReadVarint(&value)) return false;
    if (field == 1) out->code = static_cast<std::int32_t>(value);
    if (field == 3) out->retry_after_ms = static_cast<std::uint32_t>(value);
    return true;
  });
}

bool ReadTiming(PieceReader& reader, ResponseFields* out) {
  return ForEachFieldInside(reader, [&](std::uint32_t field, std::uint32_t type) {
    if (field > 4 || type != kVarint) return reader.SkipValue(type);
    std::uint64_t* const slots[] = {&out->timing.queue_ns, &out->timing.batch_ns, &out->timing.execution_ns,
                                    &out->timing.batch_rows};
    return reader.ReadVarint(slots[field - 1]);
  });
}

bool AddDimension(PieceReader& reader, ResponseFields* out) {
  std::uint64_t value = 0;
  if (!reader.ReadVarint(&value) || out->rank == kMaxRank) return false;
  out->shape[out->rank++] = static_cast<std::int64_t>(value);
  return true;
}

bool ReadShape(PieceReader& reader, ResponseFields* out) {
  std::uint64_t length = 0;
  if (!reader.ReadLength(&length)) return false;
  const std::uint64_t outer = reader.PushLimit(length);
  while (reader.remaining() > 0) {
    if (!AddDimension(reader, out)) return false;
  }
  reader.PopLimit(outer);
  return true;
}

bool ReadOutput(PieceReader& reader, ResponseFields* out) {
  out->has_output = true;
  return ForEachFieldInside(reader, [&](std::uint32_t field, std::uint32_t type) {
    if (field == 1 && type == kVarint) return reader.ReadVarint(&out->dtype);
    if (field == 2 && type == kVarint) return AddDimension(reader, out);
    if (field == 2 && type == kBytes) return ReadShape(reader, out);
    if (field != 15 || type != kBytes) return reader.SkipValue(type);
    if (!reader.ReadLength(&out->payload_bytes)) return false;
    out->payload_offset = reader.position();
    return reader.Skip(out->payload_bytes);
  });
}

bool ReadResponseField(PieceReader& reader, std::uint32_t field, std::uint32_t type, ResponseFields* out) {
  if (field == 1 && type == kVarint) return reader.ReadVarint(&out->id);
  if (field == 2 && type == kBytes) return ReadStatus(reader, out);
  if (field == 3 && type == kBytes) return ReadTiming(reader, out);
  if (field == 15 && type == kBytes) return ReadOutput(reader, out);
  return reader.SkipValue(type);
}

}  // namespace

void AppendRequestHeader(const RequestFields& fields, Framing framing, std::string* out) {
  std::string tensor;
  AppendVarintField(1, static_cast<std::uint64_t>(fields.dtype), &tensor);
  AppendPackedField(2, fields.shape, &tensor);
  AppendTag(15, kBytes, &tensor);
  AppendVarint(fields.data_bytes, &tensor);

  std::string request;
  if (fields.id != 0) AppendVarintField(1, fields.id, &request);
  if (fields.operation != Operation::kSoftmax) {
    AppendVarintField(2, static_cast<std::uint64_t>(fields.operation), &request);
  }
  if (fields.axis) {  // a negative int32 is sign-extended to 64 bits on the wire
    AppendVarintField(3, static_cast<std::uint64_t>(std::int64_t{*fields.axis}), &request);
  }
  if (fields.scale) AppendScale(*fields.scale, &request);
  if (fields.output_dtype) {
    AppendVarintField(5, static_cast<std::uint64_t>(*fields.output_dtype), &request);
  }
  AppendPackedField(6, fields.lengths, &request);
  if (fields.timeout_us != 0) AppendVarintField(7, fields.timeout_us, &request);
  AppendTag(15, kBytes, &request);
  AppendVarint(tensor.size() + fields.data_bytes, &request);
  request += tensor;

  if (framing == Framing::kStreamElement) {
    AppendTag(1, kBytes, out);
    AppendVarint(request.size() + fields.data_bytes, out);
  }
  *out += request;
}

absl::Status DecodeResponse(Pieces pieces, ResponseFields* out) {
  *out = ResponseFields();
  PieceReader reader(pieces);
  const bool good = ForEachField(
      reader, [&](std::uint32_t field, std::uint32_t type) { return ReadResponseField(reader, field, type, out); });
  return good ? absl::OkStatus() : Malformed("SoftmaxResponse");
}

absl::Status DecodeStreamResponse(Pieces pieces, std::vector<ResponseFields>* out) {
  out->clear();
  PieceReader reader(pieces);
  const bool good = ForEachField(reader, [&](std::uint32_t field, std::uint32_t type) {
    if (field != 1 || type != kBytes) return reader.SkipValue(type);
    ResponseFields& response = out->emplace_back();
    return ForEachFieldInside(reader, [&](std::uint32_t inner, std::uint32_t inner_type) {
      return ReadResponseField(reader, inner, inner_type, &response);
    });
  });
  return good ? absl::OkStatus() : Malformed("SoftmaxStreamResponse");
}

void CopyFromPieces(Pieces pieces, std::uint64_t offset, std::uint64_t size, void* destination) {
  auto* to = static_cast<std::uint8_t*>(destination);
  for (const auto& piece : pieces) {
    if (size == 0) return;
    if (offset >= piece.size()) {
      offset -= piece.size();
      continue;
    }
    const std::uint64_t step = std::min<std::uint64_t>(size, piece.size() - offset);
    std::memcpy(to, piece.data() + offset, step);
    to += step;
    size -= step;
    offset = 0;
  }
}

bool EqualsPieces(Pieces pieces, std::uint64_t offset, std::span<const std::byte> expected) {
  for (const auto& piece : pieces) {
    if (expected.empty()) return true;
    if (offset >= piece.size()) {
      offset -= piece.size();
      continue;
    }
    const std::uint64_t step = std::min<std::uint64_t>(expected.size(), piece.size() - offset);
    if (std::memcmp(piece.data() + offset, expected.data(), step) != 0) return false;
    expected = expected.subspan(step);
    offset = 0;
  }
  return expected.empty();
}

}  // namespace softmax::client

#include "client/softmax_client/server_info.h"

#include <string>
#include <utility>
#include <vector>

#include "client/softmax_client/fields.h"
#include "client/softmax_client/piece_reader.h"

namespace softmax::client {
namespace {

bool ReadText(PieceReader& reader, std::string* out) {
  std::uint64_t length = 0;
  return reader.ReadLength(&length) && reader.ReadString(length, out);
}

bool ReadFlag(PieceReader& reader, bool* out) {
  std::uint64_t value = 0;
  if (!reader.ReadVarint(&value)) return false;
  *out = value != 0;
  return true;
}

// Values that this library does not know are left out.
template <typename Enum>
bool ReadEnum(PieceReader& reader, Enum last, std::vector<Enum>* out) {
  std::uint64_t value = 0;
  if (!reader.ReadVarint(&value)) return false;
  if (value >= 1 && value <= static_cast<std::uint64_t>(last)) out->push_back(static_cast<Enum>(value));
  return true;
}

// A repeated enum: packed, or one at a time.
template <typename Enum>
bool ReadEnums(PieceReader& reader, std::uint32_t type, Enum last, std::vector<Enum>* out) {
  if (type == kVarint) return ReadEnum(reader, last, out);
  std::uint64_t length = 0;
  if (type != kBytes) return reader.SkipValue(type);
  if (!reader.ReadLength(&length)) return false;
  const std::uint64_t outer = reader.PushLimit(length);
  while (reader.remaining() > 0) {
    if (!ReadEnum(reader, last, out)) return false;
  }
  reader.PopLimit(outer);
  return true;
}

bool ReadLimits(PieceReader& reader, ServerLimits* limits) {
  return ForEachFieldInside(reader, [&](std::uint32_t field, std::uint32_t type) {
    if (type != kVarint) return reader.SkipValue(type);
    std::uint64_t value = 0;
    if (!reader.ReadVarint(&value)) return false;
    if (field == 1) limits->max_request_bytes = value;
    if (field == 2) limits->max_response_bytes = value;
    if (field == 3) limits->max_rank = static_cast<std::uint32_t>(value);
    if (field == 4) limits->max_rows = value;
    if (field == 5) limits->max_columns = value;
    if (field == 6) limits->max_requests_per_stream_message = static_cast<std::uint32_t>(value);
    if (field == 7) limits->max_in_flight_per_stream = static_cast<std::uint32_t>(value);
    return true;
  });
}

bool ReadField(PieceReader& reader, std::uint32_t field, std::uint32_t type, ServerInfo* info) {
  if (field == 1 && type == kBytes) return ReadText(reader, &info->version);
  if (field == 2 && type == kBytes) return ReadText(reader, &info->build);
  if (field == 3 && type == kBytes) return ReadText(reader, &info->backend);
  if (field == 4 && type == kBytes) return ReadText(reader, &info->devices.emplace_back());
  if (field == 5) return ReadEnums(reader, type, DataType::kFloat64, &info->dtypes);
  if (field == 6) return ReadEnums(reader, type, Operation::kLogSoftmax, &info->operations);
  if (field == 7 && type == kBytes) return ReadLimits(reader, &info->limits);
  if (field == 8 && type == kVarint) return ReadFlag(reader, &info->degraded);
  if (field == 9 && type == kVarint) return ReadFlag(reader, &info->unsafe_testing);
  if (field == 10 && type == kBytes) return ReadText(reader, &info->lost_devices.emplace_back());
  return reader.SkipValue(type);
}

}  // namespace

std::optional<ServerInfo> DecodeServerInfo(Pieces message) {
  ServerInfo info;
  PieceReader reader(message);
  const bool good = ForEachField(
      reader, [&](std::uint32_t field, std::uint32_t type) { return ReadField(reader, field, type, &info); });
  if (!good) return std::nullopt;
  return info;
}

}  // namespace softmax::client

#include "client/softmax_client/server_info.h"

#include "client/softmax_client/fields.h"

namespace softmax::client {
namespace {

using server::WireCursor;

template <typename T>
bool ReadNumber(WireCursor* cursor, T* out) {
  std::uint64_t value;
  if (!cursor->ReadVarint(&value)) return false;
  *out = static_cast<T>(value);
  return true;
}

// Values that this library does not know are left out.
template <typename Enum>
void AddEnum(std::uint64_t value, Enum last, std::vector<Enum>* out) {
  if (value >= 1 && value <= static_cast<std::uint64_t>(last)) out->push_back(static_cast<Enum>(value));
}

template <typename Enum>
bool ReadEnum(WireCursor* cursor, Enum last, std::vector<Enum>* out) {
  std::uint64_t value;
  if (!cursor->ReadVarint(&value)) return false;
  AddEnum(value, last, out);
  return true;
}

template <typename Enum>
bool ReadEnums(WireCursor* cursor, Enum last, std::vector<Enum>* out) {
  return server::ReadPacked(cursor, [&](std::uint64_t value) { AddEnum(value, last, out); });
}

bool ReadLimits(WireCursor* cursor, ServerLimits* limits) {
  return ForEachFieldInside(cursor, [&](std::uint32_t tag) {
    switch (tag) {
      case server::kLimitsRequestBytes:
        return ReadNumber(cursor, &limits->max_request_bytes);
      case server::kLimitsResponseBytes:
        return ReadNumber(cursor, &limits->max_response_bytes);
      case server::kLimitsRank:
        return ReadNumber(cursor, &limits->max_rank);
      case server::kLimitsRows:
        return ReadNumber(cursor, &limits->max_rows);
      case server::kLimitsColumns:
        return ReadNumber(cursor, &limits->max_columns);
      case server::kLimitsTopK:
        return ReadNumber(cursor, &limits->max_top_k);
      case server::kLimitsRequestsPerStreamMessage:
        return ReadNumber(cursor, &limits->max_requests_per_stream_message);
      case server::kLimitsInFlightPerStream:
        return ReadNumber(cursor, &limits->max_in_flight_per_stream);
      default:
        return SkipField(cursor, tag);
    }
  });
}

bool ReadField(WireCursor* cursor, std::uint32_t tag, ServerInfo* info) {
  switch (tag) {
    case server::kInfoVersion:
      return ReadText(cursor, &info->version);
    case server::kInfoBuild:
      return ReadText(cursor, &info->build);
    case server::kInfoBackend:
      return ReadText(cursor, &info->backend);
    case server::kInfoDevices:
      return ReadText(cursor, &info->devices.emplace_back());
    case server::kInfoDtypes:
      return ReadEnum(cursor, DataType::kFloat64, &info->dtypes);
    case server::kInfoDtypesPacked:
      return ReadEnums(cursor, DataType::kFloat64, &info->dtypes);
    case server::kInfoOperations:
      return ReadEnum(cursor, Operation::kLogSoftmax, &info->operations);
    case server::kInfoOperationsPacked:
      return ReadEnums(cursor, Operation::kLogSoftmax, &info->operations);
    case server::kInfoLimits:
      return ReadLimits(cursor, &info->limits);
    case server::kInfoDegraded:
      return ReadNumber(cursor, &info->degraded);
    case server::kInfoUnsafeTesting:
      return ReadNumber(cursor, &info->unsafe_testing);
    case server::kInfoLostDevices:
      return ReadText(cursor, &info->lost_devices.emplace_back());
    default:
      return SkipField(cursor, tag);
  }
}

}  // namespace

std::optional<ServerInfo> DecodeServerInfo(Pieces message) {
  ServerInfo info;
  WireCursor cursor(message);
  if (!ForEachField(&cursor, [&](std::uint32_t tag) { return ReadField(&cursor, tag, &info); })) return std::nullopt;
  return info;
}

}  // namespace softmax::client

#include "client/softmax_client/server_info.h"

#include "client/softmax_client/fields.h"
#include "kernels/operations.h"

namespace softmax::client {
namespace {

constexpr auto kLastOperation = static_cast<Operation>(kernels::kOperations.size());

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
  return ReadPacked(cursor, [&](std::uint64_t value) { AddEnum(value, last, out); });
}

bool ReadLimits(WireCursor* cursor, ServerLimits* limits) {
  return ForEachFieldInside(cursor, [&](std::uint32_t tag) {
    switch (tag) {
      case kLimitsRequestBytes:
        return ReadNumber(cursor, &limits->max_request_bytes);
      case kLimitsResponseBytes:
        return ReadNumber(cursor, &limits->max_response_bytes);
      case kLimitsRank:
        return ReadNumber(cursor, &limits->max_rank);
      case kLimitsRows:
        return ReadNumber(cursor, &limits->max_rows);
      case kLimitsColumns:
        return ReadNumber(cursor, &limits->max_columns);
      case kLimitsTopK:
        return ReadNumber(cursor, &limits->max_top_k);
      case kLimitsRequestsPerStreamMessage:
        return ReadNumber(cursor, &limits->max_requests_per_stream_message);
      case kLimitsInFlightPerStream:
        return ReadNumber(cursor, &limits->max_in_flight_per_stream);
      default:
        return SkipField(cursor, tag);
    }
  });
}

bool ReadRegions(WireCursor* cursor, RegionLimits* limits) {
  return ForEachFieldInside(cursor, [&](std::uint32_t tag) {
    switch (tag) {
      case kRegionLimitsSocket:
        return ReadText(cursor, &limits->socket);
      case kRegionLimitsBytes:
        return ReadNumber(cursor, &limits->max_bytes);
      case kRegionLimitsBytesPerConnection:
        return ReadNumber(cursor, &limits->max_bytes_per_connection);
      case kRegionLimitsDeviceBytes:
        return ReadNumber(cursor, &limits->max_device_bytes);
      case kRegionLimitsDeviceBytesPerConnection:
        return ReadNumber(cursor, &limits->max_device_bytes_per_connection);
      case kRegionLimitsTensorBytes:
        return ReadNumber(cursor, &limits->max_tensor_bytes);
      default:
        return SkipField(cursor, tag);
    }
  });
}

bool ReadField(WireCursor* cursor, std::uint32_t tag, ServerInfo* info) {
  switch (tag) {
    case kInfoVersion:
      return ReadText(cursor, &info->version);
    case kInfoBuild:
      return ReadText(cursor, &info->build);
    case kInfoBackend:
      return ReadText(cursor, &info->backend);
    case kInfoDevices:
      return ReadText(cursor, &info->devices.emplace_back());
    case kInfoDtypes:
      return ReadEnum(cursor, DataType::kFloat64, &info->dtypes);
    case kInfoDtypesPacked:
      return ReadEnums(cursor, DataType::kFloat64, &info->dtypes);
    case kInfoOperations:
      return ReadEnum(cursor, kLastOperation, &info->operations);
    case kInfoOperationsPacked:
      return ReadEnums(cursor, kLastOperation, &info->operations);
    case kInfoLimits:
      return ReadLimits(cursor, &info->limits);
    case kInfoDegraded:
      return ReadNumber(cursor, &info->degraded);
    case kInfoUnsafeTesting:
      return ReadNumber(cursor, &info->unsafe_testing);
    case kInfoLostDevices:
      return ReadText(cursor, &info->lost_devices.emplace_back());
    case kInfoRegions:
      return ReadRegions(cursor, &info->regions.emplace());
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

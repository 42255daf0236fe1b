#include "client/softmax_client/fields.h"
#include "client/softmax_client/wire.h"
#include "kernels/operations.h"

namespace softmax::client {
namespace {

constexpr auto kLastOperation = static_cast<Operation>(kernels::kOperations.size());

// Values that this library does not know are left out.
template <typename Enum>
bool ReadEnums(WireCursor* cursor, bool packed, Enum last, std::vector<Enum>* out) {
  const auto add = [&](std::uint64_t value) {
    if (value >= 1 && value <= static_cast<std::uint64_t>(last)) out->push_back(static_cast<Enum>(value));
  };
  if (packed) return ReadPacked(cursor, add);
  std::uint64_t value;
  if (!cursor->ReadVarint(&value)) return false;
  add(value);
  return true;
}

bool ReadLimits(WireCursor* cursor, ServerLimits* limits) {
  return ReadFields(cursor, Into{kLimitsRequestBytes, &limits->max_request_bytes},
                    Into{kLimitsResponseBytes, &limits->max_response_bytes}, Into{kLimitsRank, &limits->max_rank},
                    Into{kLimitsRows, &limits->max_rows}, Into{kLimitsColumns, &limits->max_columns},
                    Into{kLimitsTopK, &limits->max_top_k},
                    Into{kLimitsRequestsPerStreamMessage, &limits->max_requests_per_stream_message},
                    Into{kLimitsInFlightPerStream, &limits->max_in_flight_per_stream});
}

bool ReadRegions(WireCursor* cursor, RegionLimits* limits) {
  return ReadFields(cursor, Into{kRegionLimitsSocket, &limits->socket}, Into{kRegionLimitsBytes, &limits->max_bytes},
                    Into{kRegionLimitsBytesPerConnection, &limits->max_bytes_per_connection},
                    Into{kRegionLimitsDeviceBytes, &limits->max_device_bytes},
                    Into{kRegionLimitsDeviceBytesPerConnection, &limits->max_device_bytes_per_connection},
                    Into{kRegionLimitsTensorBytes, &limits->max_tensor_bytes});
}

bool ReadInfoField(WireCursor* cursor, std::uint32_t tag, ServerInfo* info) {
  switch (tag) {
    case kInfoDevices:
      return ReadValue(cursor, &info->devices.emplace_back());
    case kInfoDtypes:
    case kInfoDtypesPacked:
      return ReadEnums(cursor, tag == kInfoDtypesPacked, DataType::kFloat64, &info->dtypes);
    case kInfoOperations:
    case kInfoOperationsPacked:
      return ReadEnums(cursor, tag == kInfoOperationsPacked, kLastOperation, &info->operations);
    case kInfoLimits:
      return ReadLimits(cursor, &info->limits);
    case kInfoLostDevices:
      return ReadValue(cursor, &info->lost_devices.emplace_back());
    case kInfoRegions:
      return ReadRegions(cursor, &info->regions.emplace());
    default:
      return ReadField(cursor, tag, Into{kInfoVersion, &info->version}, Into{kInfoBuild, &info->build},
                       Into{kInfoBackend, &info->backend}, Into{kInfoDegraded, &info->degraded},
                       Into{kInfoUnsafeTesting, &info->unsafe_testing});
  }
}

}  // namespace

std::optional<ServerInfo> DecodeServerInfo(Pieces message) {
  ServerInfo info;
  WireCursor cursor(message);
  const auto read = [&](std::uint32_t tag) { return ReadInfoField(&cursor, tag, &info); };
  return ForEachField(&cursor, read) ? std::make_optional(info) : std::nullopt;
}

}  // namespace softmax::client

#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

// The tags (field number << 3 | wire type) of proto/softmax/v1/softmax.proto that are read and written by hand, by the
// server or the client. Every tag has one byte.
namespace softmax {

// The bytes of a number on the wire.
constexpr std::size_t VarintSize(std::uint64_t value) {
  return (static_cast<std::size_t>(std::bit_width(value | 1)) + 6) / 7;
}

enum RequestTag : std::uint32_t {
  kRequestId = 1 << 3,
  kRequestOperation = 2 << 3,
  kRequestAxis = 3 << 3,
  kRequestScale = 4 << 3 | 1,
  kRequestOutputDtype = 5 << 3,
  kRequestLengths = 6 << 3,
  kRequestLengthsPacked = 6 << 3 | 2,
  kRequestTimeout = 7 << 3,
  kRequestSummary = 8 << 3 | 2,
  kRequestOutputPlace = 9 << 3 | 2,
  kRequestSummaryPlace = 10 << 3 | 2,
  kRequestInput = 15 << 3 | 2,
};

enum SummaryRequestTag : std::uint32_t {
  kSummaryRequestTopK = 1 << 3,
  kSummaryRequestIndices = 2 << 3 | 2,
  kSummaryRequestLogSumExp = 3 << 3,
  kSummaryRequestEntropy = 4 << 3,
  kSummaryRequestFull = 5 << 3,
};

enum TensorTag : std::uint32_t {
  kTensorDtype = 1 << 3,
  kTensorShape = 2 << 3,
  kTensorShapePacked = 2 << 3 | 2,
  kTensorPlace = 3 << 3 | 2,
  kTensorData = 15 << 3 | 2,
};

enum PlaceTag : std::uint32_t {
  kPlaceRegion = 1 << 3 | 2,
  kPlaceOffset = 2 << 3,
};

enum ResponseTag : std::uint32_t {
  kResponseId = 1 << 3,
  kResponseStatus = 2 << 3 | 2,
  kResponseTiming = 3 << 3 | 2,
  kResponseSummary = 4 << 3 | 2,
  kResponseOutput = 15 << 3 | 2,
};

// Of a Summary: in the order of its fields.
enum SummaryTag : std::uint32_t {
  kSummaryTopValues = 1 << 3 | 2,
  kSummaryTopIndices = 2 << 3 | 2,
  kSummaryValuesAt = 3 << 3 | 2,
  kSummaryLogSumExp = 4 << 3 | 2,
  kSummaryMaximum = 5 << 3 | 2,
  kSummaryEntropy = 6 << 3 | 2,
  kSummaryPlace = 7 << 3 | 2,
};

enum StatusTag : std::uint32_t {
  kStatusCode = 1 << 3,
  kStatusMessage = 2 << 3 | 2,
  kStatusRetryAfter = 3 << 3,
};

enum TimingTag : std::uint32_t {
  kTimingQueue = 1 << 3,
  kTimingBatch = 2 << 3,
  kTimingExecution = 3 << 3,
  kTimingBatchRows = 4 << 3,
};

// `requests` of a SoftmaxStreamRequest and `responses` of a SoftmaxStreamResponse alike.
constexpr std::uint32_t kStreamElement = 1 << 3 | 2;

enum InfoTag : std::uint32_t {
  kInfoVersion = 1 << 3 | 2,
  kInfoBuild = 2 << 3 | 2,
  kInfoBackend = 3 << 3 | 2,
  kInfoDevices = 4 << 3 | 2,
  kInfoDtypes = 5 << 3,
  kInfoDtypesPacked = 5 << 3 | 2,
  kInfoOperations = 6 << 3,
  kInfoOperationsPacked = 6 << 3 | 2,
  kInfoLimits = 7 << 3 | 2,
  kInfoDegraded = 8 << 3,
  kInfoUnsafeTesting = 9 << 3,
  kInfoLostDevices = 10 << 3 | 2,
  kInfoRegions = 11 << 3 | 2,
};

enum RegionLimitsTag : std::uint32_t {
  kRegionLimitsSocket = 1 << 3 | 2,
  kRegionLimitsBytes = 2 << 3,
  kRegionLimitsBytesPerConnection = 3 << 3,
  kRegionLimitsDeviceBytes = 4 << 3,
  kRegionLimitsDeviceBytesPerConnection = 5 << 3,
  kRegionLimitsTensorBytes = 6 << 3,
};

enum LimitsTag : std::uint32_t {
  kLimitsRequestBytes = 1 << 3,
  kLimitsResponseBytes = 2 << 3,
  kLimitsRank = 3 << 3,
  kLimitsRows = 4 << 3,
  kLimitsColumns = 5 << 3,
  kLimitsRequestsPerStreamMessage = 6 << 3,
  kLimitsInFlightPerStream = 7 << 3,
};

// Of Limits, in two bytes.
constexpr std::uint32_t kLimitsTopK = 18 << 3;

}  // namespace softmax

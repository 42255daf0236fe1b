#pragma once

#include <absl/status/status.h>

#include <array>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/softmax_client/options.h"
#include "common/wire/slices.h"

// Writes requests and reads answers of proto/softmax/v1/softmax.proto by hand, so that a tensor's
// bytes are never copied into a message. No gRPC here; a test holds it against the generated code.
namespace softmax::client {

using Pieces = Slices;

// Whether a message stands alone or is one element of a stream message, which then needs its own
// tag and length.
enum class Framing { kUnary, kStreamElement };

// A place in a region, as it travels.
struct PlaceFields {
  std::array<std::uint8_t, 16> region = {};
  std::uint64_t offset = 0;

  bool operator==(const PlaceFields&) const = default;
};

struct RequestFields {
  std::uint64_t id = 0;
  Operation operation = Operation::kSoftmax;
  std::optional<std::int32_t> axis;
  std::optional<double> scale;
  std::optional<DataType> output_dtype;
  std::span<const std::uint32_t> lengths;
  std::uint32_t timeout_us = 0;
  SummaryOptions summary;  // written unless it asks for nothing
  DataType dtype = DataType::kFloat32;
  std::span<const std::int64_t> shape;
  std::optional<PlaceFields> place;  // of the input, which has no bytes in the message then
  std::optional<PlaceFields> output_place;
  std::optional<PlaceFields> summary_place;
  std::uint64_t data_bytes = 0;  // 0 where there is a place
};

// Appends everything of a serialized SoftmaxRequest but the tensor's bytes, which must follow
// directly.
void AppendRequestHeader(const RequestFields& fields, Framing framing, std::string* out);

// One decoded SoftmaxResponse. The payload is a range of the message that it was decoded from.
struct ResponseFields {
  std::uint64_t id = 0;
  std::int32_t code = 0;  // google.rpc.Code; 0 is OK
  std::string message;
  std::uint32_t retry_after_ms = 0;
  ServerTiming timing;
  bool has_output = false;
  std::uint64_t dtype = 0;  // as sent: the caller checks it
  std::size_t rank = 0;
  std::array<std::int64_t, kMaxRank> shape = {};
  std::uint64_t payload_offset = 0;  // from the start of the whole message
  std::uint64_t payload_bytes = 0;
  std::optional<PlaceFields> place;  // of the output
  bool has_summary = false;
  std::optional<PlaceFields> summary_place;
  std::array<std::uint64_t, Summary::kParts> part_offset = {};  // of the summary's parts, as the payload's
  std::array<std::uint64_t, Summary::kParts> part_bytes = {};

  // Of the tensor and the summary's parts.
  std::uint64_t bytes() const { return std::accumulate(part_bytes.begin(), part_bytes.end(), payload_bytes); }
};

// Unknown fields, and known ones with a wrong wire type, are skipped. Not OK: the bytes cannot be
// decoded.
absl::Status DecodeResponse(Pieces pieces, ResponseFields* out);
absl::Status DecodeStreamResponse(Pieces pieces, std::vector<ResponseFields>* out);

// Reads a serialized GetServerInfoResponse. By hand, so that programs with generated code of the contract of their own
// can link the library: protobuf allows a message one definition. Nothing: the bytes cannot be decoded.
std::optional<ServerInfo> DecodeServerInfo(Pieces message);

// Whether the bytes from `offset` of the whole message on equal `expected`, without copying them.
bool EqualsPieces(Pieces pieces, std::uint64_t offset, std::span<const std::byte> expected);

}  // namespace softmax::client

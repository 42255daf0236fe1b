#include "client/softmax_client/server_info.h"

#include <string>

#include "client/softmax_client/channel.h"
#include "softmax/v1/softmax.pb.h"

namespace softmax::client {
namespace {

ServerInfo FromMessage(const softmax::v1::GetServerInfoResponse& message) {
  ServerInfo info;
  info.version = message.version();
  info.build = message.build();
  info.backend = message.backend();
  info.devices.assign(message.devices().begin(), message.devices().end());
  for (const int dtype : message.dtypes()) info.dtypes.push_back(static_cast<DataType>(dtype));
  for (const int op : message.operations()) info.operations.push_back(static_cast<Operation>(op));
  const softmax::v1::Limits& limits = message.limits();
  info.limits.max_request_bytes = limits.max_request_bytes();
  info.limits.max_response_bytes = limits.max_response_bytes();
  info.limits.max_rank = limits.max_rank();
  info.limits.max_rows = limits.max_rows();
  info.limits.max_columns = limits.max_columns();
  info.limits.max_requests_per_stream_message = limits.max_requests_per_stream_message();
  info.limits.max_in_flight_per_stream = limits.max_in_flight_per_stream();
  info.degraded = message.degraded();
  info.unsafe_testing = message.unsafe_testing();
  return info;
}

}  // namespace

std::optional<ServerInfo> DecodeServerInfo(const grpc::ByteBuffer& message) {
  const ReceivedPieces received(message);
  std::string bytes;
  for (const auto& piece : received.pieces()) bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  softmax::v1::GetServerInfoResponse response;
  if (!response.ParseFromString(bytes)) return std::nullopt;
  return FromMessage(response);
}

}  // namespace softmax::client

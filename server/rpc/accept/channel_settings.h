#pragma once

#include <grpcpp/server_builder.h>

#include <cstdint>

namespace softmax::server {

// What a message may be larger than its payload: shape, lengths of a few rows, tags.
constexpr std::uint64_t kHeaderAllowanceBytes = 64u << 10;

// The transport's settings, one set for the service and for the echo server it is measured against.
struct ChannelSettings {
  int max_concurrent_streams = 256;
  int keepalive_time_ms = 60000;
  int keepalive_timeout_ms = 20000;
  int min_ping_interval_ms = 5000;
  int max_connection_idle_ms = 0;       // 0: never closed
  int max_connection_age_ms = 0;        // 0: never closed
  int max_connection_age_grace_ms = 0;  // for the calls under way
};

// The largest message that a payload within its limit needs. Rows' lengths travel beside it: at worst one byte for each
// 2-byte element (one column, 16-bit type).
inline std::uint64_t MaxMessageBytes(std::uint64_t max_payload_bytes) {
  return max_payload_bytes + max_payload_bytes / 2 + kHeaderAllowanceBytes;
}

// Values measured or explained in docs/decisions/transport.md ("Transport settings").
inline void ApplyServerSettings(const ChannelSettings& settings, grpc::ServerBuilder* builder) {
  // gRPC 1.51 looks at a message's size when it is there whole, so that its limit saves nothing, and says neither what
  // is too large nor to whom it counts it. The decoder does.
  builder->SetMaxReceiveMessageSize(-1);
  builder->SetMaxSendMessageSize(-1);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, 16777215);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, settings.max_concurrent_streams);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, settings.keepalive_time_ms);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, settings.keepalive_timeout_ms);
  // Clients' usual keepalive of 10 s passes, on streams that are silent and on connections that have no call.
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, settings.min_ping_interval_ms);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  // The filter that counts a connection's calls is left out where it has nothing to do.
  if (settings.max_connection_idle_ms > 0) {
    builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, settings.max_connection_idle_ms);
  }
  if (settings.max_connection_age_ms > 0) {
    builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, settings.max_connection_age_ms);
    builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, settings.max_connection_age_grace_ms);
  }
  builder->AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 16384);
  builder->AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10000);
  // Fewer filters, and no compression bombs: compressed requests are refused by their encoding.
  builder->AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, 0);
  builder->AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0);
  builder->AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
}

}  // namespace softmax::server

#include "client/softmax_client/channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <climits>

namespace softmax::client {

std::shared_ptr<grpc::Channel> CreateChannel(const std::string& target, const ChannelSettings& settings) {
  grpc::ChannelArguments args;
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // gRPC's own retries stop at 256 KiB and hold the request's memory for longer.
  args.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  args.SetInt(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, 16777215);
  args.SetInt(GRPC_ARG_ENABLE_CHANNELZ, 0);
  args.SetInt(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0);
  args.SetInt(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  args.SetMaxSendMessageSize(-1);
  args.SetMaxReceiveMessageSize(static_cast<int>(std::clamp<std::int64_t>(settings.max_receive_bytes, -1, INT_MAX)));
  if (settings.keepalive_time.count() > 0) {
    args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, static_cast<int>(settings.keepalive_time.count()));
    args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, static_cast<int>(settings.keepalive_timeout.count()));
  }
  return grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), args);
}

ReceivedPieces::ReceivedPieces(const grpc::ByteBuffer& message) {
  if (!message.Valid() || !message.Dump(&slices_).ok()) return;
  views_.reserve(slices_.size());
  for (const grpc::Slice& slice : slices_) views_.emplace_back(slice.begin(), slice.size());
}

}  // namespace softmax::client

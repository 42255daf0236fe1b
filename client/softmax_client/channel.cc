#include "client/softmax_client/channel.h"

#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <climits>

#include "client/softmax_client/target.h"

namespace softmax::client {
namespace {

// A server that was restarted is found again soon; gRPC's own values are 1 s and 2 min.
constexpr int kFirstReconnectMs = 100;
constexpr int kLastReconnectMs = 2000;
// What does not answer at all is given up after so long, where gRPC waits for 20 s: its name may lead elsewhere by
// then.
constexpr int kConnectMs = 5000;
// A name is looked up again whenever a connection has ended, but not more often; gRPC's own value is 30 s.
constexpr int kBetweenLookupsMs = 1000;

void SetBalancing(const ChannelSettings& settings, grpc::ChannelArguments* args) {
  if (!settings.round_robin) return;
  args->SetServiceConfigJSON(
      settings.health_checks ? R"({"loadBalancingConfig":[{"round_robin":{}}],"healthCheckConfig":{"serviceName":""}})"
                             : R"({"loadBalancingConfig":[{"round_robin":{}}]})");
}

}  // namespace

std::shared_ptr<grpc::ChannelCredentials> MakeCredentials(const TlsOptions& tls) {
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = tls.root_certificates;
  options.pem_cert_chain = tls.certificate_chain;
  options.pem_private_key = tls.private_key;
  return grpc::SslCredentials(options);
}

std::shared_ptr<grpc::Channel> CreateChannel(const std::string& target, const ChannelSettings& settings) {
  grpc::ChannelArguments args;
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // gRPC's own retries stop at 256 KiB and hold the request's memory for longer. What no server has seen is sent again
  // by Resends.
  args.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  args.SetInt(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, 16777215);
  args.SetInt(GRPC_ARG_ENABLE_CHANNELZ, 0);
  args.SetInt(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0);
  args.SetInt(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstReconnectMs);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kLastReconnectMs);
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectMs);  // of one attempt to connect, whatever it is called
  args.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, kBetweenLookupsMs);
  args.SetMaxSendMessageSize(-1);
  args.SetMaxReceiveMessageSize(static_cast<int>(std::clamp<std::int64_t>(settings.max_receive_bytes, -1, INT_MAX)));
  if (settings.keepalive_time.count() > 0) {
    args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, static_cast<int>(settings.keepalive_time.count()));
    args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, static_cast<int>(settings.keepalive_timeout.count()));
  }
  // The DNS of a target must not be able to set how calls are sent.
  args.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  if (settings.no_proxy || IsOnThisMachine(target)) args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  if (!settings.authority.empty()) args.SetString(GRPC_ARG_DEFAULT_AUTHORITY, settings.authority);
  SetBalancing(settings, &args);
  return grpc::CreateCustomChannel(
      target, settings.credentials ? settings.credentials : grpc::InsecureChannelCredentials(), args);
}

ReceivedPieces::ReceivedPieces(const grpc::ByteBuffer& message) {
  if (!message.Valid() || !message.Dump(&slices_).ok()) return;
  views_.reserve(slices_.size());
  for (const grpc::Slice& slice : slices_) views_.emplace_back(slice.begin(), slice.size());
}

bool PauseInGrpc(std::chrono::nanoseconds time, const std::stop_token& stop) {
  grpc::CompletionQueue queue;
  grpc::Alarm alarm;
  alarm.Set(&queue, std::chrono::system_clock::now() + time, nullptr);
  bool over = false;
  void* tag = nullptr;
  {
    const std::stop_callback cut_short(stop, [&alarm] { alarm.Cancel(); });
    queue.Next(&tag, &over);
  }
  queue.Shutdown();
  for (bool ok = false; queue.Next(&tag, &ok);) {
  }
  return over && !stop.stop_requested();
}

}  // namespace softmax::client

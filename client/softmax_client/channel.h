#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "client/softmax_client/options.h"
#include "client/softmax_client/wire.h"

// What the library, the command line client and the load generator share of gRPC. Internal: not for
// users of the library.
namespace softmax::client {

inline constexpr char kSoftmaxMethod[] = "/softmax.v1.SoftmaxService/Softmax";
inline constexpr char kSoftmaxStreamMethod[] = "/softmax.v1.SoftmaxService/SoftmaxStream";
inline constexpr char kGetServerInfoMethod[] = "/softmax.v1.SoftmaxService/GetServerInfo";

struct ChannelSettings {
  std::int64_t max_receive_bytes = -1;  // -1: no limit
  // A connection that has been silent for so long is probed, and cut when the probe stays
  // unanswered for `keepalive_timeout`. Zero: never (an answer may then be waited for in vain until
  // the call's deadline).
  std::chrono::milliseconds keepalive_time{0};
  std::chrono::milliseconds keepalive_timeout{20000};
  std::shared_ptr<grpc::ChannelCredentials> credentials;  // nullptr: plain text
  std::string authority;                                  // empty: the target's host
  // Never by a proxy of the environment; what is on this machine goes by none anyway.
  bool no_proxy = false;
  // Calls go in turn to every address that the target's name has, and connections that break are made anew at once.
  bool round_robin = false;
  // With round_robin: only to those that report SERVING.
  bool health_checks = false;
};

std::shared_ptr<grpc::ChannelCredentials> MakeCredentials(const TlsOptions& tls);

// One channel is one connection (with round_robin one to each address): channels to one address never share it. Does
// not connect yet.
std::shared_ptr<grpc::Channel> CreateChannel(const std::string& target, const ChannelSettings& settings);

// The slices of a received message, kept alive and laid out for the decoder.
class ReceivedPieces {
 public:
  explicit ReceivedPieces(const grpc::ByteBuffer& message);
  Pieces pieces() const { return views_; }

 private:
  std::vector<grpc::Slice> slices_;
  std::vector<std::span<const std::uint8_t>> views_;
};

// Waits on this thread. False: it was stopped before the time was over.
//
// The wait is on a completion queue, because gRPC has no threads of its own that look at sockets: what is connecting
// meanwhile would otherwise not get on.
bool PauseInGrpc(std::chrono::nanoseconds time, const std::stop_token& stop);

}  // namespace softmax::client

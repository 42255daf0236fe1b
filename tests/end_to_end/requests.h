#pragma once

#include <grpcpp/channel.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "softmax/v1/softmax.pb.h"

namespace softmax::testing {

// A channel with a connection of its own, without gRPC's retries and limits of messages.
std::shared_ptr<grpc::Channel> OwnChannel(const std::string& target);

// A request of this shape, of fp32 zeros.
v1::SoftmaxRequest RequestOfZeros(const std::vector<std::int64_t>& shape, std::uint64_t id = 0);

}  // namespace softmax::testing

#include "tests/end_to_end/requests.h"

#include <grpcpp/create_channel.h>

namespace softmax::testing {

std::shared_ptr<grpc::Channel> OwnChannel(const std::string& target) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetMaxReceiveMessageSize(-1);
  return grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), arguments);
}

v1::SoftmaxRequest RequestOfZeros(const std::vector<std::int64_t>& shape, std::uint64_t id) {
  v1::SoftmaxRequest request;
  request.set_id(id);
  request.mutable_input()->set_dtype(v1::DATA_TYPE_FLOAT32);
  std::size_t bytes = 4;
  for (const std::int64_t dim : shape) {
    request.mutable_input()->add_shape(dim);
    bytes *= static_cast<std::size_t>(dim);
  }
  request.mutable_input()->set_data(std::string(bytes, '\0'));
  return request;
}

}  // namespace softmax::testing

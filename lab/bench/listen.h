#pragma once

#include <grpcpp/grpcpp.h>

#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace softmax::bench {

// Starts the builder's server, without credentials, and prints a line "listening on ADDRESS" for each address, with the
// port that was found for port 0. Null, and why on standard error, when one cannot be had. The service outlives the
// server.
inline std::unique_ptr<grpc::Server> Listen(const std::vector<std::string>& addresses, grpc::Service* service,
                                            grpc::ServerBuilder* builder) {
  std::vector<int> ports(addresses.size());
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // a taken port is an error
  for (std::size_t i = 0; i < ports.size(); ++i) {
    builder->AddListeningPort(addresses[i], grpc::InsecureServerCredentials(), &ports[i]);
  }
  builder->RegisterService(service);
  std::unique_ptr<grpc::Server> server = builder->BuildAndStart();
  if (server == nullptr) {
    std::cerr << "cannot listen on " << addresses.front() << "\n";
    return nullptr;
  }
  for (std::size_t i = 0; i < ports.size(); ++i) {
    std::string address = addresses[i];
    if (address.ends_with(":0")) address.replace(address.size() - 1, 1, std::to_string(ports[i]));
    std::cout << "listening on " << address << std::endl;
  }
  return server;
}

}  // namespace softmax::bench

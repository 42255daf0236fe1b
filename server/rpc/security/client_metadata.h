#pragma once

#include <grpcpp/support/string_ref.h>

#include <map>

namespace softmax::server {

// As grpc::ServerContext has it: what a call's client says beside its message.
using ClientMetadata = std::multimap<grpc::string_ref, grpc::string_ref>;

}  // namespace softmax::server

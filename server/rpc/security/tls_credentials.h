#pragma once

#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "server/rpc/security/tls_files.h"

namespace softmax::server {

// Credentials that give each new connection the current set. `files` outlives the server.
std::shared_ptr<grpc::ServerCredentials> ReloadingCredentials(const TlsFiles& files);

}  // namespace softmax::server

#pragma once

#include <absl/status/status.h>

#include "server/rpc/security/tls_files.h"

namespace softmax::server {

// Whether certificate and key belong together, all three can be read, and clients can connect, as a handshake with
// oneself shows it; names the file by its path in `paths`.
absl::Status CheckPem(const TlsFiles::Paths& paths, const TlsFiles::Pem& pem);

}  // namespace softmax::server

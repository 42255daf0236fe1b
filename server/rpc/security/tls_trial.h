#pragma once

#include <string>

namespace softmax::server {

// What is wrong with a certificate chain and its key (PEM), as a handshake with oneself shows it: the server's side is
// set as gRPC sets its own, the client's trusts every issuer. OpenSSL refuses more than a look at the files can tell:
// by its security level, small keys and old hashes, anywhere in the chain. Empty: clients can connect.
std::string TlsProblem(const std::string& certificate, const std::string& key);

// Why none of these certificates (PEM) can vouch for a client: their keys are too small, or they have expired. Empty:
// one can.
std::string AuthoritiesProblem(const std::string& authorities);

}  // namespace softmax::server

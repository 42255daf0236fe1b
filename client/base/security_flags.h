#pragma once

#include <absl/status/statusor.h>

#include <optional>
#include <string>

#include "client/softmax_client/options.h"

namespace CLI {
class App;
}

// How the connections of both programs are secured, and who asks.
namespace softmax::client {

struct Credentials {
  std::optional<TlsOptions> tls;  // unset: plain text
  std::string authority;          // empty: the address's host
  std::string token;              // goes with every call and stream; empty: none
};

// As they stand on the command line.
struct SecurityFlags {
  bool tls = false;
  std::string ca;
  std::string certificate;
  std::string key;
  std::string authority;
  std::string token_file;
};

void AddSecurityFlags(CLI::App& app, SecurityFlags* flags);

// Reads the files that were named. INVALID_ARGUMENT names flag, file and what is wrong, never what is in it.
absl::StatusOr<Credentials> ReadCredentials(const SecurityFlags& flags);

// Tells the library of them.
void SetCredentials(const Credentials& credentials, ClientOptions* options);

}  // namespace softmax::client

#pragma once

#include <string>

namespace softmax::client {

struct Identity {
  std::string certificate;  // PEM
  std::string private_key;  // PEM
};

// A new authority, which signs itself.
Identity MakeAuthority(const std::string& name);

// A certificate for that DNS name, and that address, valid for an hour.
Identity IssueFor(const std::string& name, const Identity& authority, const std::string& ip = "");

}  // namespace softmax::client

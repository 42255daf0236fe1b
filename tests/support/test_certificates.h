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

// What a certificate may be like beside that.
struct IdentityKind {
  std::string key = "P-256";  // a curve, RSA-BITS, or ED25519
  int valid_from_s = -60;     // from now
  int valid_until_s = 3600;
  std::string hash = "SHA256";  // of the authority's signature; empty with an authority whose key needs none
  std::string usage;            // extendedKeyUsage; empty: none
};
Identity MakeAuthority(const std::string& name, const IdentityKind& kind);
Identity IssueFor(const std::string& name, const Identity& authority, const std::string& ip, const IdentityKind& kind);

}  // namespace softmax::client

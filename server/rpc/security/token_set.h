#pragma once

#include <absl/status/statusor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace softmax::server {

// The bearer tokens that are let in, as their SHA-256: who reads the file cannot come in. Made for long random tokens;
// a password would be guessed from its hash. Immutable.
class TokenSet {
 public:
  using Digest = std::array<std::uint8_t, 32>;
  static constexpr std::size_t kMaxTokens = 10000;

  // One digest of 64 hexadecimal digits a line. Blanks around it, empty lines, and what follows a # are ignored.
  // INVALID_ARGUMENT names the line and never quotes it: somebody may have put a token there. So does a file without
  // any digest, which would shut everybody out.
  static absl::StatusOr<TokenSet> Parse(std::string_view text);

  // The time it takes says nothing about the digests in the set, only how many they are.
  bool Contains(std::string_view token) const;
  std::size_t size() const { return digests_.size(); }

 private:
  std::vector<Digest> digests_;
};

TokenSet::Digest DigestOf(std::string_view token);

// The token of an `authorization` header; empty when it is not "Bearer TOKEN" (the word in any case, RFC 6750's
// characters, at most 4096 of them).
std::string_view TokenOf(std::string_view authorization);

}  // namespace softmax::server

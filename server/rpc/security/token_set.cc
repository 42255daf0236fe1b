#include "server/rpc/security/token_set.h"

#include <absl/strings/ascii.h>
#include <absl/strings/escaping.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <optional>

namespace softmax::server {
namespace {

constexpr std::size_t kMaxTokenBytes = 4096;

std::optional<TokenSet::Digest> ParseDigest(absl::string_view text) {
  TokenSet::Digest digest;
  const auto is_digit = [](unsigned char c) { return absl::ascii_isxdigit(c); };
  if (text.size() != 2 * digest.size() || !std::all_of(text.begin(), text.end(), is_digit)) return std::nullopt;
  const std::string bytes = absl::HexStringToBytes(text);
  std::copy(bytes.begin(), bytes.end(), digest.begin());
  return digest;
}

// RFC 6750's b64token, the padding anywhere.
bool IsTokenCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || std::string_view("-._~+/=").find(c) != std::string::npos;
}

}  // namespace

absl::StatusOr<TokenSet> TokenSet::Parse(std::string_view text) {
  TokenSet set;
  std::size_t number = 0;
  for (absl::string_view line : absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    ++number;
    const absl::string_view trimmed = absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
    if (trimmed.empty()) continue;
    const auto digest = ParseDigest(trimmed);
    if (!digest.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", number, ": expected the SHA-256 of a token, 64 hexadecimal digits, and found ",
                       trimmed.size(), " characters"));
    }
    if (set.digests_.size() == kMaxTokens) {
      return absl::InvalidArgumentError(absl::StrCat("line ", number, ": more than ", kMaxTokens, " tokens"));
    }
    set.digests_.push_back(*digest);
  }
  if (set.digests_.empty()) return absl::InvalidArgumentError("holds no token's SHA-256");
  return set;
}

TokenSet::Digest DigestOf(std::string_view token) {
  TokenSet::Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), digest.data());
  return digest;
}

bool TokenSet::Contains(std::string_view token) const {
  const Digest digest = DigestOf(token);
  int found = 0;
  for (const Digest& known : digests_) {
    found |= static_cast<int>(CRYPTO_memcmp(known.data(), digest.data(), digest.size()) == 0);
  }
  return found != 0;
}

std::string_view TokenOf(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (!absl::StartsWithIgnoreCase(absl::string_view(authorization.data(), authorization.size()),
                                  absl::string_view(kScheme.data(), kScheme.size()))) {
    return {};
  }
  const std::string_view token = authorization.substr(kScheme.size());
  const bool good = token.size() <= kMaxTokenBytes && std::all_of(token.begin(), token.end(), &IsTokenCharacter);
  return good ? token : std::string_view();
}

}  // namespace softmax::server

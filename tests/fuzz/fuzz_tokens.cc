// libFuzzer over the file of bearer tokens, and over the header that carries one. Byte 0: 0 the file, else the header.
#include <string>

#include "server/rpc/security/token_set.h"
#include "tests/fuzz/require.h"

namespace softmax::server {
namespace {

using softmax::testing::ExactCopy;
using softmax::testing::Require;
using softmax::testing::RequireReason;

void CheckFile(std::string_view text) {
  const absl::StatusOr<TokenSet> set = TokenSet::Parse(text);
  if (set.ok()) {
    Require(set->size() >= 1 && set->size() <= TokenSet::kMaxTokens, "a set that is taken lets somebody in");
    Require(set->size() * 64 <= text.size(), "every token has its 64 digits");
    Require(!set->Contains(text), "the file itself is no token");
    return;
  }
  const std::string_view reason(set.status().message().data(), set.status().message().size());
  RequireReason(reason, 200);
  for (const char c : reason) Require(c >= 0x20 && c < 0x7f, "a reason is printable");
}

void CheckHeader(std::string_view header) {
  const std::string_view token = TokenOf(header);
  if (token.empty()) return;
  Require(token.size() + 7 == header.size() && token.data() == header.data() + 7, "all that follows `Bearer `");
  for (const char c : token) Require(c > 0x20 && c < 0x7f && c != '"', "no token has blanks, quotes or controls");
}

}  // namespace
}  // namespace softmax::server

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const softmax::testing::ExactCopy copy(data + 1, size - 1);
  if (data[0] == 0) {
    softmax::server::CheckFile(copy.text());
  } else {
    softmax::server::CheckHeader(copy.text());
  }
  return 0;
}

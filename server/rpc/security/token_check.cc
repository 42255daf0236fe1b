#include "server/rpc/security/token_check.h"

#include <absl/strings/str_cat.h>

namespace softmax::server {

absl::StatusOr<std::unique_ptr<Tokens>> Tokens::Load(const std::string& path) {
  std::unique_ptr<Tokens> tokens(new Tokens(path));
  if (absl::StatusOr<bool> loaded = tokens->Refresh(); !loaded.ok()) return loaded.status();
  return tokens;
}

absl::StatusOr<bool> Tokens::Refresh() {
  if (!changes_.Look()) return false;
  const absl::StatusOr<std::string> text = ReadSecretFile(path_, Readers::kOwners);
  if (!text.ok()) return text.status();
  absl::StatusOr<TokenSet> set = TokenSet::Parse(*text);
  if (!set.ok()) return absl::InvalidArgumentError(absl::StrCat(path_, ": ", std::string(set.status().message())));
  {
    MutexLock lock(mu_);
    current_ = std::make_shared<const TokenSet>(std::move(*set));
  }
  version_.fetch_add(1, std::memory_order_release);
  return true;
}

std::shared_ptr<const TokenSet> Tokens::current() const {
  MutexLock lock(mu_);
  return current_;
}

absl::Status TokenCheck::Judge(const ClientMetadata& metadata) {
  if (const std::uint64_t version = tokens_->version(); version != version_) {
    set_ = tokens_->current();
    version_ = version;
  }
  const auto [begin, end] = metadata.equal_range("authorization");
  if (begin == end) return absl::UnauthenticatedError("authorization: missing; send \"Bearer TOKEN\"");
  if (std::next(begin) != end) return absl::UnauthenticatedError("authorization: sent more than once");
  const std::string_view token = TokenOf({begin->second.data(), begin->second.size()});
  if (token.empty()) return absl::UnauthenticatedError("authorization: expected \"Bearer TOKEN\"");
  if (!set_->Contains(token)) return absl::PermissionDeniedError("authorization: this token is not accepted");
  return absl::OkStatus();
}

}  // namespace softmax::server

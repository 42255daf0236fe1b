#include "server/rpc/security/token_check.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/temp_folder.h"

namespace softmax::server {
namespace {

// echo -n secret | sha256sum
constexpr char kSecret[] = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

// What the check sees of a call.
struct FakeCall {
  ClientMetadata client_metadata() const {
    ClientMetadata metadata;
    for (const std::string& header : authorization) metadata.emplace("authorization", header);
    return metadata;
  }
  std::vector<std::string> authorization;
};

TEST(TokenCheck, ATokenComesOnceAndIsKnown) {
  const testing::TempFolder folder;
  const auto tokens = Tokens::Load(folder.Write("tokens", kSecret));
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  TokenCheck check(tokens->get());
  const std::string good = "Bearer secret";
  EXPECT_EQ(check.Authorize(FakeCall{{good}}), absl::OkStatus());
  EXPECT_EQ(check.Authorize(FakeCall{}), absl::UnauthenticatedError("authorization: missing; send \"Bearer TOKEN\""));
  for (const std::string& second : {good, std::string("Bearer other"), std::string()}) {
    const auto twice = absl::UnauthenticatedError("authorization: sent more than once");
    EXPECT_EQ(check.Authorize(FakeCall{{good, second}}), twice);
    EXPECT_EQ(check.Authorize(FakeCall{{second, good}}), twice);
  }
  EXPECT_EQ(check.Authorize(FakeCall{{"Basic secret"}}),
            absl::UnauthenticatedError("authorization: expected \"Bearer TOKEN\""));
  EXPECT_EQ(check.Authorize(FakeCall{{"Bearer other"}}),
            absl::PermissionDeniedError("authorization: this token is not accepted"));
}

TEST(TokenCheck, ASetThatHasChangedHoldsForTheNextCall) {
  const testing::TempFolder folder;
  const auto tokens = Tokens::Load(folder.Write("tokens", kSecret));
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  TokenCheck check(tokens->get());
  EXPECT_TRUE(check.Authorize(FakeCall{{"Bearer secret"}}).ok());
  folder.Write("tokens", std::string(63, '0') + "1");
  EXPECT_TRUE(*(*tokens)->Refresh());
  EXPECT_TRUE(absl::IsPermissionDenied(check.Authorize(FakeCall{{"Bearer secret"}})));
}

TEST(TokenCheck, WithoutTokensNobodyIsAsked) { EXPECT_TRUE(TokenCheck(nullptr).Authorize(FakeCall{}).ok()); }

}  // namespace
}  // namespace softmax::server

#include "server/rpc/security/token_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "server/rpc/security/token_check.h"
#include "tests/support/temp_folder.h"

namespace softmax::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// echo -n secret | sha256sum; echo -n other | sha256sum
constexpr char kSecret[] = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
constexpr char kOther[] = "d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa";

TEST(TokenSet, HoldsTheTokensWhoseDigestsItReads) {
  const auto set = TokenSet::Parse(std::string("# clients\n\n  ") + kSecret + "  # the first\r\n" + kOther);
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->size(), 2u);
  EXPECT_TRUE(set->Contains("secret"));
  EXPECT_TRUE(set->Contains("other"));
  for (const char* wrong : {"", "Secret", "secret ", "secre", kSecret}) EXPECT_FALSE(set->Contains(wrong)) << wrong;
}

TEST(TokenSet, TakesDigestsInEitherCase) {
  std::string upper = kSecret;
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  EXPECT_TRUE(TokenSet::Parse(upper)->Contains("secret"));
}

TEST(TokenSet, RefusesWhatIsNoDigestWithoutQuotingIt) {
  const std::string digest = kSecret;
  for (const std::string& bad : {std::string("hunter2"), digest.substr(1), digest + "0", "g" + digest.substr(1),
                                 digest + " " + digest, std::string(64, '\0')}) {
    const auto set = TokenSet::Parse(digest + "\n" + bad + "\n");
    ASSERT_FALSE(set.ok()) << bad;
    EXPECT_THAT(std::string(set.status().message()), HasSubstr("line 2"));
    EXPECT_THAT(std::string(set.status().message()), Not(HasSubstr("hunter2")));
  }
}

TEST(TokenSet, RefusesAFileThatWouldShutEverybodyOut) {
  for (const char* empty : {"", "\n\n", "# nobody\n"}) EXPECT_FALSE(TokenSet::Parse(empty).ok());
}

TEST(TokenSet, HasALimit) {
  std::string text;
  for (std::size_t i = 0; i <= TokenSet::kMaxTokens; ++i) text += std::string(kSecret) + "\n";
  EXPECT_THAT(std::string(TokenSet::Parse(text).status().message()), HasSubstr("more than 10000"));
}

TEST(TokenOf, ReadsTheHeaderAsRfc6750WritesIt) {
  EXPECT_EQ(TokenOf("Bearer abc.DEF-1_2~3+4/5=="), "abc.DEF-1_2~3+4/5==");
  EXPECT_EQ(TokenOf("bearer x"), "x");
  for (const char* bad :
       {"", "Bearer", "Bearer ", "Basic abc", "Bearerabc", "Bearer a b", "Bearer a\tb", "Bearer  a", "Bearer \xff"}) {
    EXPECT_EQ(TokenOf(bad), "") << bad;
  }
  EXPECT_EQ(TokenOf("Bearer " + std::string(4096, 'x')).size(), 4096u);
  EXPECT_EQ(TokenOf("Bearer " + std::string(4097, 'x')), "");
}

TEST(Tokens, ABadFileLeavesTheLastGoodOneInForce) {
  const testing::TempFolder folder;
  const std::string path = folder.Write("tokens", kSecret);
  const auto tokens = Tokens::Load(path);
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_FALSE(*(*tokens)->Refresh());  // nothing new
  folder.Write("tokens", "rubbish");
  const absl::StatusOr<bool> bad = (*tokens)->Refresh();
  EXPECT_THAT(std::string(bad.status().message()), HasSubstr(path + ": line 1"));
  EXPECT_TRUE((*tokens)->current()->Contains("secret"));
  EXPECT_TRUE((*tokens)->Refresh().ok());  // said once
  folder.Write("tokens", kOther);
  EXPECT_TRUE(*(*tokens)->Refresh());
  EXPECT_FALSE((*tokens)->current()->Contains("secret"));
  EXPECT_TRUE((*tokens)->current()->Contains("other"));
}

TEST(Tokens, AFileThatIsNotThereIsNamed) {
  EXPECT_THAT(std::string(Tokens::Load("/nonexistent/tokens").status().message()),
              HasSubstr("/nonexistent/tokens: No such file"));
}

}  // namespace
}  // namespace softmax::server

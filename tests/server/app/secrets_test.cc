#include "server/app/secrets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "server/base/log.h"
#include "tests/support/temp_folder.h"

namespace softmax::server {
namespace {

using ::testing::HasSubstr;

TEST(Secrets, AChangeIsLoggedOnceAndWhatIsWrongToo) {
  const softmax::testing::TempFolder folder;
  Config config;
  config.token_file = folder.Write("tokens", std::string(64, 'a'));
  const auto secrets = Secrets::Load(config);
  ASSERT_TRUE(secrets.ok()) << secrets.status();
  EXPECT_EQ((*secrets)->tls(), nullptr);
  ASSERT_NE((*secrets)->tokens(), nullptr);
  ASSERT_TRUE(InitLogging("info", "text").ok());
  const auto log_of_refresh = [&] {
    ::testing::internal::CaptureStderr();
    (*secrets)->Refresh();
    FlushLogging();
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(log_of_refresh(), "");
  folder.Write("tokens", std::string(64, 'b'));
  EXPECT_THAT(log_of_refresh(), HasSubstr("token file changed; new calls see the new one\n"));
  EXPECT_EQ(log_of_refresh(), "");
  folder.Write("tokens", "rubbish");
  EXPECT_THAT(log_of_refresh(), HasSubstr("token file changed and cannot be used, the last good one stays: "));
}

}  // namespace
}  // namespace softmax::server

#include "server/rpc/security/tls_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/client/support/test_certificates.h"
#include "tests/support/temp_folder.h"

namespace softmax::server {
namespace {

using ::testing::HasSubstr;

class TlsFilesTest : public ::testing::Test {
 protected:
  const client::Identity authority_ = client::MakeAuthority("servers");
  const client::Identity first_ = client::IssueFor("localhost", authority_);
  const client::Identity second_ = client::IssueFor("localhost", authority_);
  const testing::TempFolder folder_;
  const TlsFiles::Paths paths_{folder_.Write("cert.pem", first_.certificate),
                               folder_.Write("key.pem", first_.private_key),
                               folder_.Write("ca.pem", authority_.certificate)};
};

TEST_F(TlsFilesTest, SaysWhichFileIsWrongAndWhy) {
  const struct {
    const char* name;
    std::string text;
    const char* why;
  } cases[] = {{"cert.pem", "rubbish", "holds no certificate in PEM"},
               {"cert.pem", second_.certificate, "is not the key of the certificate in"},
               {"key.pem", "", "holds no private key in PEM"},
               {"key.pem", second_.private_key, "is not the key of the certificate in"},
               {"ca.pem", first_.private_key, "holds no certificate in PEM"}};
  for (const auto& [name, text, why] : cases) {
    folder_.Write("cert.pem", first_.certificate);
    folder_.Write("key.pem", first_.private_key);
    folder_.Write("ca.pem", authority_.certificate);
    ASSERT_TRUE(TlsFiles::Load(paths_).ok());
    folder_.Write(name, text);
    const auto files = TlsFiles::Load(paths_);
    ASSERT_FALSE(files.ok()) << name;
    EXPECT_EQ(files.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(files.status().message()), HasSubstr(why)) << name;
  }
  unlink(folder_.path("key.pem").c_str());
  EXPECT_THAT(std::string(TlsFiles::Load(paths_).status().message()), HasSubstr("key.pem: No such file"));
}

TEST_F(TlsFilesTest, ACertificateBesideTheOldKeyWaitsForItsOwn) {
  const auto files = *TlsFiles::Load(paths_);
  const std::uint64_t version = files->current()->version;
  folder_.Write("cert.pem", second_.certificate);
  EXPECT_FALSE(files->Refresh().ok());
  EXPECT_EQ(files->current()->version, version);
  EXPECT_EQ(files->current()->pem.certificate, first_.certificate);
  EXPECT_EQ(*files->Refresh(), false);  // said once
  folder_.Write("key.pem", second_.private_key);
  EXPECT_EQ(*files->Refresh(), true);
  EXPECT_GT(files->current()->version, version);
  EXPECT_EQ(files->current()->pem.certificate, second_.certificate);
  EXPECT_EQ(files->current()->pem.key, second_.private_key);
}

// As Kubernetes does it: the files are links into a folder behind one link, and that is replaced.
TEST_F(TlsFilesTest, AReplacedLinkIsSeen) {
  namespace fs = std::filesystem;
  for (const auto& [name, identity] : {std::pair{"one", &first_}, {"two", &second_}}) {
    fs::create_directory(folder_.path(name));
    folder_.Write(std::string(name) + "/cert.pem", identity->certificate);
    folder_.Write(std::string(name) + "/key.pem", identity->private_key);
  }
  fs::create_directory_symlink(folder_.path("one"), folder_.path("current"));
  const auto files = *TlsFiles::Load({folder_.path("current/cert.pem"), folder_.path("current/key.pem"), ""});
  EXPECT_FALSE(*files->Refresh());
  fs::create_directory_symlink(folder_.path("two"), folder_.path("next"));
  fs::rename(folder_.path("next"), folder_.path("current"));
  EXPECT_TRUE(*files->Refresh());
  EXPECT_EQ(files->current()->pem.certificate, second_.certificate);
}

}  // namespace
}  // namespace softmax::server

#include "server/rpc/security/tls_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "server/rpc/security/token_check.h"
#include "tests/support/eventually.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_certificates.h"

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

// gRPC takes each of these and then fails every handshake.
TEST_F(TlsFilesTest, WhatNoClientCouldConnectToIsRefusedByName) {
  const client::Identity small_authority = client::MakeAuthority("small", {.key = "RSA-1024"});
  const client::Identity under_small = client::IssueFor("localhost", small_authority, "");
  const auto issue = [&](const client::IdentityKind& kind) {
    return client::IssueFor("localhost", authority_, "", kind);
  };
  const struct {
    client::Identity identity;
    const char* why;
  } cases[] = {{issue({.key = "RSA-1024"}), "key too small"},
               {issue({.key = "P-192"}), "key too small"},
               {issue({.hash = "SHA1"}), "md too weak"},
               {{under_small.certificate + small_authority.certificate, under_small.private_key}, "key too small"},
               {issue({.valid_from_s = -100, .valid_until_s = -10}), "expired"},
               {issue({.valid_from_s = 1000}), "not yet valid"},
               {issue({.usage = "clientAuth"}), "purpose"}};
  const auto files = *TlsFiles::Load(paths_);
  for (const auto& [identity, why] : cases) {
    folder_.Write("cert.pem", identity.certificate);
    folder_.Write("key.pem", identity.private_key);
    const auto fresh = TlsFiles::Load(paths_);
    ASSERT_FALSE(fresh.ok()) << why;
    EXPECT_THAT(std::string(fresh.status().message()), HasSubstr(paths_.certificate + ": "));
    EXPECT_THAT(std::string(fresh.status().message()), HasSubstr(why));
    EXPECT_EQ(files->Refresh().status(), fresh.status());
    EXPECT_EQ(files->current()->pem.certificate, first_.certificate) << why;
    EXPECT_EQ(*files->Refresh(), false) << why;  // said once
  }
}

TEST_F(TlsFilesTest, WhatClientsCanConnectToIsTaken) {
  const client::Identity expired_root = client::MakeAuthority("old", {.valid_until_s = -10});
  const client::Identity under_expired = client::IssueFor("localhost", expired_root, "");
  const client::Identity edwards = client::MakeAuthority("edwards", {.key = "ED25519", .hash = ""});
  const auto issue = [&](const client::IdentityKind& kind) {
    return client::IssueFor("localhost", authority_, "", kind);
  };
  for (const client::Identity& identity :
       {issue({.key = "RSA-2048"}), issue({.key = "RSA-4096"}), issue({.key = "P-384"}), issue({.key = "P-521"}),
        issue({.key = "ED25519"}), issue({.hash = "SHA512"}), issue({.usage = "serverAuth,clientAuth"}), authority_,
        client::Identity{first_.certificate + authority_.certificate, first_.private_key},
        // Clients may know another way than by an authority that has expired.
        client::Identity{under_expired.certificate + expired_root.certificate, under_expired.private_key},
        client::IssueFor("localhost", edwards, "", {.hash = ""})}) {
    folder_.Write("cert.pem", identity.certificate);
    folder_.Write("key.pem", identity.private_key);
    EXPECT_EQ(TlsFiles::Load(paths_).status(), absl::OkStatus()) << identity.certificate;
  }
}

TEST_F(TlsFilesTest, AuthoritiesOfWhichNoneCanVouchAreRefused) {
  const std::string small = client::MakeAuthority("small", {.key = "RSA-1024"}).certificate;
  const std::string expired = client::MakeAuthority("old", {.valid_until_s = -10}).certificate;
  for (const auto& [text, why] :
       {std::pair{small, "key is too small"}, {expired, "has expired"}, {small + expired, ""}}) {
    folder_.Write("ca.pem", text);
    const auto files = TlsFiles::Load(paths_);
    ASSERT_FALSE(files.ok()) << why;
    EXPECT_THAT(std::string(files.status().message()), HasSubstr(paths_.client_authorities + ": "));
    EXPECT_THAT(std::string(files.status().message()), HasSubstr(why));
    folder_.Write("ca.pem", text + authority_.certificate);
    EXPECT_EQ(TlsFiles::Load(paths_).status(), absl::OkStatus()) << why;
  }
}

TEST_F(TlsFilesTest, ACertificateThatIsNotValidYetIsTakenWhenItIs) {
  const auto files = *TlsFiles::Load(paths_);
  const client::Identity soon = client::IssueFor("localhost", authority_, "", {.valid_from_s = 2});
  folder_.Write("key.pem", soon.private_key);
  folder_.Write("cert.pem", soon.certificate);
  EXPECT_FALSE(files->Refresh().ok());
  EXPECT_TRUE(testing::Eventually([&] {
    const auto changed = files->Refresh();
    EXPECT_TRUE(changed.ok()) << changed.status();
    return !changed.ok() || *changed;
  }));
  EXPECT_EQ(files->current()->pem.certificate, soon.certificate);
}

TEST_F(TlsFilesTest, AKeyThatOthersMayReadIsNotTaken) {
  const auto files = *TlsFiles::Load(paths_);
  for (const mode_t mode : {0644, 0604, 0602}) {
    folder_.Write("cert.pem", second_.certificate);
    folder_.Write("key.pem", second_.private_key);
    ASSERT_EQ(chmod(paths_.key.c_str(), mode), 0);
    const absl::Status status = files->Refresh().status();
    EXPECT_THAT(std::string(status.message()), HasSubstr(paths_.key + ": its mode 06"));
    EXPECT_EQ(files->current()->pem.certificate, first_.certificate);
  }
  ASSERT_EQ(chmod(paths_.key.c_str(), 0640), 0);
  EXPECT_EQ(*files->Refresh(), true);
  EXPECT_EQ(files->current()->pem.certificate, second_.certificate);
  // The old key, found open later: new connections keep it, and the log says so.
  ASSERT_EQ(chmod(paths_.key.c_str(), 0644), 0);
  EXPECT_FALSE(files->Refresh().ok());
  EXPECT_EQ(files->current()->pem.certificate, second_.certificate);
}

TEST_F(TlsFilesTest, TokensThatOthersMayReadAreNotTaken) {
  const std::string one(64, '1');
  const std::string path = folder_.Write("tokens", one);
  const auto tokens = *Tokens::Load(path);
  for (const mode_t mode : {0644, 0604, 0602}) {
    folder_.Write("tokens", one + "\n" + std::string(64, '2'));
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    EXPECT_THAT(std::string(tokens->Refresh().status().message()), HasSubstr(path + ": its mode 06"));
    EXPECT_EQ(tokens->current()->size(), 1u);
  }
  ASSERT_EQ(chmod(path.c_str(), 0640), 0);
  EXPECT_EQ(*tokens->Refresh(), true);
  EXPECT_EQ(tokens->current()->size(), 2u);
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

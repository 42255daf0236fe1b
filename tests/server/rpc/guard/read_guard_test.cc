#include "server/rpc/guard/read_guard.h"

#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "server/rpc/guard/tls_reads.h"

namespace softmax::server {
namespace {

constexpr std::uint64_t kStreams = 100;
constexpr char kHello[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

std::string Frame(int type, int flags, std::uint32_t stream) {
  std::string frame("\0\0\0", 3);
  frame += static_cast<char>(type);
  frame += static_cast<char>(flags);
  for (int shift = 24; shift >= 0; shift -= 8) frame += static_cast<char>(stream >> shift);
  return frame;
}
std::string SettingsAck() { return Frame(4, 1, 0); }
// More calls than any client may begin at once.
std::string Flood() {
  std::string bytes = kHello;
  for (std::uint32_t call = 0; call < kStreams + FrameMeter::kSpareCalls + 1; ++call)
    bytes += Frame(1, 5, 2 * call + 1);
  return bytes;
}

bool Passes(const ReadGuard::Account& account, std::string bytes) { return ReadGuard::Passes(account, bytes); }

class ReadGuardTest : public ::testing::Test {
 protected:
  ReadGuardTest() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends_), 0); }
  ~ReadGuardTest() override {
    for (const int fd : ends_) close(fd);
  }
  int server() const { return ends_[0]; }
  void ClientSends(const std::string& bytes) const {
    EXPECT_EQ(send(ends_[1], bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  // As gRPC does, until nothing is left; how much of it was let through.
  static std::size_t ReadAll(int fd) {
    std::size_t all = 0;
    while (true) {
      char bytes[4096];
      iovec piece{bytes, sizeof(bytes)};
      msghdr message{};
      message.msg_iov = &piece;
      message.msg_iovlen = 1;
      const ssize_t got = recvmsg(fd, &message, 0);
      if (got <= 0) return all;
      all += static_cast<std::size_t>(got);
    }
  }
  // The client has said all that it wants to say.
  std::size_t ReadToTheEnd() const {
    shutdown(ends_[1], SHUT_WR);
    return ReadAll(server());
  }

  int ends_[2] = {-1, -1};
};

TEST_F(ReadGuardTest, AFloodDoesNotPass) {
  const auto account = ReadGuard::Watch(server(), kStreams);
  ASSERT_TRUE(account.has_value());
  ClientSends(Flood());
  EXPECT_LT(ReadToTheEnd(), Flood().size());
  EXPECT_TRUE(account->ended());
}

// The accept loop sees a client's end before gRPC has read what came before it.
TEST_F(ReadGuardTest, WhatArrivedBeforeTheClientsEndIsJudgedAsWell) {
  const auto account = ReadGuard::Watch(server(), kStreams);
  ASSERT_TRUE(account.has_value());
  ClientSends(Flood());
  ReadGuard::Forget(*account);
  EXPECT_LT(ReadToTheEnd(), Flood().size());
  EXPECT_TRUE(account->ended());
}

TEST_F(ReadGuardTest, AfterTheEndNothingPasses) {
  const auto account = ReadGuard::Watch(server(), kStreams);
  ASSERT_TRUE(account.has_value());
  ClientSends(Flood());
  ASSERT_LT(ReadAll(server()), Flood().size());
  EXPECT_EQ(ReadAll(server()), 0u);  // what was in the socket already
  ReadGuard::Forget(*account);
  EXPECT_EQ(ReadAll(server()), 0u);
}

// Answers that a client has taken let it send frames that grant windows: one for each kBytesPerFrame.
TEST_F(ReadGuardTest, AnswersThatAreTakenEarnFrames) {
  const auto account = ReadGuard::Watch(server(), kStreams);
  ASSERT_TRUE(account.has_value());
  EXPECT_TRUE(Passes(*account, kHello));
  constexpr std::uint64_t kFrames = FrameMeter::kSpareFrames / 2;
  const auto passes = [&] {
    bool all = true;
    for (std::uint64_t i = 0; i < kFrames; ++i) all = Passes(*account, Frame(8, 0, 0)) && all;
    return all;
  };
  for (int round = 0; round < 8; ++round) {
    ASSERT_TRUE(passes()) << round;
    account->AnswerSent(kFrames * FrameMeter::kBytesPerFrame);
    account->AnswerTaken(kFrames * FrameMeter::kBytesPerFrame);
  }
  // From here on nothing is taken, and time forgives less than comes.
  bool all = true;
  for (int round = 0; round < 8; ++round) all = passes() && all;
  EXPECT_FALSE(all);
  EXPECT_TRUE(account->ended());
}

// A number that another socket has by now is none of the guard's.
TEST_F(ReadGuardTest, ANumberUsedAgainPassesUnseen) {
  const auto account = ReadGuard::Watch(server(), kStreams);
  ASSERT_TRUE(account.has_value());
  ReadGuard::Forget(*account);
  int other[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, other), 0);
  ASSERT_EQ(dup2(other[0], server()), server());
  close(other[0]);
  ASSERT_EQ(send(other[1], Flood().data(), Flood().size(), MSG_NOSIGNAL), static_cast<ssize_t>(Flood().size()));
  close(other[1]);
  EXPECT_EQ(ReadAll(server()), Flood().size());
}

TEST_F(ReadGuardTest, TheStageIsWhatTheClientHasDone) {
  const auto account = ReadGuard::Watch(server(), kStreams);
  ASSERT_TRUE(account.has_value());
  const auto after = [&](const std::string& bytes) {
    ClientSends(bytes);
    char sink[4096];
    iovec piece{sink, sizeof(sink)};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    EXPECT_EQ(recvmsg(server(), &message, 0), static_cast<ssize_t>(bytes.size()));
    return account->stage();
  };
  EXPECT_EQ(after(kHello + Frame(4, 0, 0)), ReadGuard::Stage::kHandshake);
  EXPECT_EQ(after(SettingsAck()), ReadGuard::Stage::kUnused);
  EXPECT_EQ(after(Frame(6, 1, 0)), ReadGuard::Stage::kUnused);
  EXPECT_EQ(after(Frame(1, 5, 1)), ReadGuard::Stage::kCalled);
}

// Decrypted bytes are judged by the session; what belongs to no session does not get as far as that.
TEST_F(ReadGuardTest, EncryptedBytesPassToTheirOwnSessionOnly) {
  const auto account = ReadGuard::Watch(server(), kStreams, ReadGuard::Bytes::kEncrypted);
  ASSERT_TRUE(account.has_value());
  SSL_CTX* const context = SSL_CTX_new(TLS_server_method());
  SSL* const before = SSL_new(context);  // no scope: somebody else's
  ClientSends("a");
  EXPECT_EQ(ReadAll(server()), 0u);
  SSL* session = nullptr;
  SSL* second = nullptr;
  {
    const TlsScope scope(server());
    session = SSL_new(context);
    second = SSL_new(context);
  }
  SSL* const after = SSL_new(context);
  ClientSends("b");
  EXPECT_EQ(ReadToTheEnd(), 1u);
  for (SSL* ssl : {before, session, second, after}) SSL_free(ssl);
  SSL_CTX_free(context);
  EXPECT_TRUE(Passes(*account, kHello));
  EXPECT_FALSE(Passes(*account, Flood().substr(sizeof(kHello) - 1)));
  EXPECT_FALSE(Passes(*account, "x"));
}

TEST_F(ReadGuardTest, ASessionThatIsMadeLateGetsNothing) {
  const auto account = ReadGuard::Watch(server(), kStreams, ReadGuard::Bytes::kEncrypted);
  ASSERT_TRUE(account.has_value());
  { const TlsScope scope(server()); }
  SSL_CTX* const context = SSL_CTX_new(TLS_server_method());
  SSL* const late = SSL_new(context);
  ClientSends("a");
  EXPECT_EQ(ReadToTheEnd(), 0u);
  SSL_free(late);
  SSL_CTX_free(context);
}

// An account of a connection whose number another has by now.
TEST_F(ReadGuardTest, ASessionThatOutlivesItsConnectionGetsNothing) {
  const auto account = ReadGuard::Watch(server(), kStreams, ReadGuard::Bytes::kEncrypted);
  ASSERT_TRUE(account.has_value());
  ReadGuard::Forget(*account);
  EXPECT_TRUE(Passes(*account, kHello));
  const auto next = ReadGuard::Watch(server(), kStreams);
  ASSERT_TRUE(next.has_value());
  EXPECT_FALSE(Passes(*account, "x"));
  EXPECT_FALSE(next->ended());
}

TEST(ReadGuard, ANumberThatCannotBeWatchedIsSaid) { EXPECT_FALSE(ReadGuard::Watch(1 << 20, kStreams).has_value()); }

}  // namespace
}  // namespace softmax::server

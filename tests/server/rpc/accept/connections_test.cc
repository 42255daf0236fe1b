#include "server/rpc/accept/connections.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "tests/support/loopback.h"

namespace softmax::server {
namespace {

int AnyDescriptor() { return open("/dev/null", O_RDWR | O_CLOEXEC); }

// The two ends of a TCP connection that sends at once. The writer's is the Connection's to close.
struct TcpPair {
  TcpPair() {
    const int listener = softmax::testing::StreamSocket();
    const int port = softmax::testing::BindToLoopback(listener);
    EXPECT_EQ(listen(listener, 1), 0);
    reader = softmax::testing::ConnectedToLoopback(port);
    writer = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    const int one = 1;
    EXPECT_EQ(setsockopt(writer, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)), 0);
    close(listener);
  }
  ~TcpPair() { close(reader); }

  // What has arrived. On loopback that is all that was sent.
  std::string Read() const {
    char bytes[64];
    const ssize_t got = recv(reader, bytes, sizeof(bytes), MSG_DONTWAIT);
    return got > 0 ? std::string(bytes, static_cast<std::size_t>(got)) : std::string();
  }

  int reader = -1;
  int writer = -1;
};

void Answer(Connection* connection, std::string_view bytes) {
  const CorkScope together(&connection->cork());
  EXPECT_EQ(write(connection->fd(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
}

// A call of a connection that has ended may come late, when its descriptor's number is another connection's already.
TEST(Connections, ANameUsedAgainIsNoConnectionOfTheServerThatHadIt) {
  Connections connections{Connections::Options{}};
  const int old_fd = AnyDescriptor();
  connections.Add("fd:7", old_fd, "10.0.0.1:1", /*server=*/0);
  ASSERT_NE(connections.Find("fd:7", 0), nullptr);
  EXPECT_EQ(connections.Find("fd:7", 0)->peer(), "10.0.0.1:1");
  EXPECT_EQ(connections.Find("fd:7", 1), nullptr);

  connections.Add("fd:7", AnyDescriptor(), "10.0.0.2:2", /*server=*/1);
  EXPECT_EQ(connections.Find("fd:7", 0)->peer(), "10.0.0.1:1");  // still the one that it had
  ASSERT_NE(connections.Find("fd:7", 1), nullptr);
  EXPECT_EQ(connections.Find("fd:7", 1)->peer(), "10.0.0.2:2");
  connections.Remove("fd:7", old_fd, /*server=*/0);  // the newer one stays
  EXPECT_EQ(connections.Find("fd:7", 0), nullptr);
  EXPECT_EQ(connections.Find("fd:7", 1)->peer(), "10.0.0.2:2");
  EXPECT_EQ(connections.size(), 1u);
}

// On one server the name is the newer connection's at once, and the older one's end does not take it away.
TEST(Connections, ANameUsedAgainOnItsServerIsTheNewerConnection) {
  Connections connections{Connections::Options{}};
  const int old_fd = AnyDescriptor();
  connections.Add("fd:7", old_fd, "10.0.0.1:1", /*server=*/0);
  connections.Add("fd:7", AnyDescriptor(), "10.0.0.2:2", /*server=*/0);
  EXPECT_EQ(connections.Find("fd:7", 0)->peer(), "10.0.0.2:2");
  connections.Remove("fd:7", old_fd, /*server=*/0);
  ASSERT_NE(connections.Find("fd:7", 0), nullptr);
  EXPECT_EQ(connections.Find("fd:7", 0)->peer(), "10.0.0.2:2");
  EXPECT_EQ(connections.size(), 1u);
}

// Servers' buckets are shared from some number on: their connections stay apart.
TEST(Connections, ManyServersKeepTheirsApart) {
  Connections connections{Connections::Options{}};
  constexpr std::size_t kServers = 40;
  for (std::size_t server = 0; server < kServers; ++server) {
    connections.Add("fd:" + std::to_string(server), AnyDescriptor(), std::to_string(server), server);
  }
  for (std::size_t server = 0; server < kServers; ++server) {
    for (std::size_t other = 0; other < kServers; ++other) {
      const auto found = connections.Find("fd:" + std::to_string(other), server);
      EXPECT_EQ(found != nullptr, server == other) << server << " " << other;
    }
  }
}

// Connections whose one connection has been sent more than its socket takes, and looks at it ten times a second.
class SlowReaderTest : public ::testing::Test {
 protected:
  static constexpr Nanoseconds kTimeout = std::chrono::seconds(10);
  static constexpr Nanoseconds kLook = std::chrono::milliseconds(100);

  SlowReaderTest() { Use(pair_.writer, pair_.reader); }
  void Use(int writer, int reader) {
    connection_ = std::make_unique<Connection>(writer, "peer", 0);
    reader_ = reader;
    Fill();
  }
  void Fill() {
    const std::string bytes(64 << 10, 'x');
    while (send(connection_->fd(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) {
    }
  }
  void Read(std::size_t bytes) {
    std::string drop(bytes, 0);
    recv(reader_, drop.data(), drop.size(), MSG_DONTWAIT);
    Fill();
  }
  // How long an answer stays that is sent now, if between two looks the reader does so.
  Nanoseconds Stays(const std::function<void()>& reader, bool memory_is_short = false) {
    const TimePoint sent = now_;
    while (connections_.OverdueAt(connection_.get(), sent, memory_is_short, now_) > now_) {
      reader();
      now_ += kLook;
    }
    return now_ - sent;
  }

  const TcpPair pair_;
  Connections connections_{{.answer_timeout = kTimeout}};
  std::unique_ptr<Connection> connection_;
  int reader_ = -1;
  TimePoint now_ = SteadyClock::now();
};

TEST_F(SlowReaderTest, WhoDoesNotReadHasTheAnswerTimeout) {
  EXPECT_EQ(Stays([] {}), kTimeout);
  Read(1 << 20);  // of an answer before
  EXPECT_EQ(Stays([] {}), kTimeout);
}

TEST_F(SlowReaderTest, WhoReadsSteadilyHasTenTimes) {
  EXPECT_EQ(Stays([this] { Read(300 << 10); }), 10 * kTimeout);
}

TEST_F(SlowReaderTest, WhoStopsReadingHasTheAnswerTimeoutFromThenOn) {
  int looks = 0;
  const Nanoseconds stays = Stays([&] {
    if (++looks <= 200) Read(300 << 10);
  });
  EXPECT_GE(stays, 200 * kLook + kTimeout - std::chrono::seconds(1));
  EXPECT_LE(stays, 200 * kLook + kTimeout);
}

TEST_F(SlowReaderTest, WhileMemoryIsShortReadingIsNoReason) {
  EXPECT_EQ(Stays([this] { Read(300 << 10); }, /*memory_is_short=*/true), kTimeout);
}

TEST_F(SlowReaderTest, ThroughAUnixSocketToo) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  Use(ends[0], ends[1]);
  EXPECT_EQ(Stays([] {}), kTimeout);
  const auto read = [&] {
    char drop[4096];
    recv(ends[1], drop, sizeof(drop), MSG_DONTWAIT);
  };
  EXPECT_GT(Stays(read), kTimeout + std::chrono::seconds(1));
  close(ends[1]);
}

TEST(Connections, AConnectionThatIsRemovedHasLeft) {
  Connections connections{Connections::Options{}};
  const int fd = AnyDescriptor();
  connections.Add("fd:7", fd, "10.0.0.1:1", /*server=*/0);
  const std::shared_ptr<Connection> connection = connections.Find("fd:7", 0);
  EXPECT_FALSE(connection->left());
  connections.Remove("fd:7", fd, /*server=*/0);
  EXPECT_TRUE(connection->left());
}

// gRPC closes the descriptor, whose number may be another socket's then.
TEST(Connections, TheGuardForgetsAConnectionThatIsRemoved) {
  Connections connections{Connections::Options{}};
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const auto account = ReadGuard::Watch(ends[0], /*streams=*/1);
  ASSERT_TRUE(account.has_value());
  const int fd = dup(ends[0]);
  connections.Add("fd:7", fd, "10.0.0.1:1", /*server=*/0, *account);
  close(ends[0]);
  connections.Remove("fd:7", fd, /*server=*/0);
  int others[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, others), 0);
  ASSERT_EQ(dup2(others[0], ends[0]), ends[0]);
  // More calls than the guard lets a connection begin.
  std::string flood = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  for (std::uint32_t stream = 1; stream < 4 * FrameMeter::kSpareCalls; stream += 2) {
    flood += std::string("\0\0\0\1\5\0\0", 7) + static_cast<char>(stream >> 8) + static_cast<char>(stream);
  }
  ASSERT_EQ(write(others[1], flood.data(), flood.size()), static_cast<ssize_t>(flood.size()));
  std::string got(flood.size(), '\0');
  iovec piece{got.data(), got.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  EXPECT_EQ(recvmsg(ends[0], &message, 0), static_cast<ssize_t>(got.size()));
  for (const int each : {ends[0], ends[1], others[0], others[1]}) close(each);
}

TEST(CorkScope, AnnouncedAnswersArriveWithTheLastOfThem) {
  const TcpPair pair;
  Connection connection(pair.writer, "peer", 0);
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 3; ++i) connection.cork().Announce();
    Answer(&connection, "a");
    Answer(&connection, "b");
    EXPECT_EQ(pair.Read(), "");
    Answer(&connection, "c");
    EXPECT_EQ(pair.Read(), "abc");
  }
}

TEST(CorkScope, ALoneOrUnexpectedAnswerArrivesAtOnce) {
  const TcpPair pair;
  Connection connection(pair.writer, "peer", 0);
  Answer(&connection, "refused");
  EXPECT_EQ(pair.Read(), "refused");
  connection.cork().Announce();
  Answer(&connection, "alone");
  EXPECT_EQ(pair.Read(), "alone");
  const CorkScope of_no_connection(nullptr);
}

// An answer that nobody announced takes the place of one that was: nothing waits for what never comes.
TEST(CorkScope, NothingStaysBehindWhenAnotherAnswerComesInBetween) {
  const TcpPair pair;
  Connection connection(pair.writer, "peer", 0);
  connection.cork().Announce();
  connection.cork().Announce();
  Answer(&connection, "a");
  Answer(&connection, "x");
  EXPECT_EQ(pair.Read(), "ax");
  Answer(&connection, "b");
  EXPECT_EQ(pair.Read(), "b");
}

TEST(CorkScope, AUnixSocketIsWrittenAsEver) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  Connection connection(ends[0], "peer", 0);
  connection.cork().Announce();
  connection.cork().Announce();
  Answer(&connection, "a");
  Answer(&connection, "b");
  char bytes[4];
  EXPECT_EQ(recv(ends[1], bytes, sizeof(bytes), MSG_DONTWAIT), 2);
  close(ends[1]);
}

}  // namespace
}  // namespace softmax::server

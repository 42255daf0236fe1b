#include "server/rpc/accept/acceptor.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <mutex>
#include <string>

#include "server/base/listen.h"
#include "tests/support/eventually.h"
#include "tests/support/loopback.h"
#include "tests/support/temp_folder.h"

namespace softmax::server {
namespace {

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr int kPatienceMs = 5000;

// Keeps what comes in, as gRPC would.
class FakeDoor final : public SocketHandoff {
 public:
  explicit FakeDoor(std::atomic<int>* entered) : SocketHandoff(1), entered_(entered) { fds_.reserve(1000); }
  ~FakeDoor() override {
    for (int fd : fds_) close(fd);
  }
  Protocol protocol() const override { return Protocol::kHttp2; }
  std::string PeerOf(int fd) const override { return "fd:" + std::to_string(fd); }
  void HandOff(int fd, std::size_t /*server*/) override {
    fds_.push_back(fd);
    entered_->fetch_add(1);
  }
  // Of those that have entered.
  const std::vector<int>& fds() const { return fds_; }

 private:
  std::atomic<int>* const entered_;
  std::vector<int> fds_;
};

class AcceptorTest : public ::testing::Test {
 protected:
  void Start(std::uint32_t max_connections, Nanoseconds greeting_timeout = std::chrono::hours(1),
             bool displaces = false) {
    Acceptor::Options options;
    options.places = {{"127.0.0.1:0", 0}};
    options.greeting_timeout = greeting_timeout;
    acceptor_ = *Acceptor::Create(options);
    std::vector<Acceptor::Destination> destinations(1);
    auto door = std::make_unique<FakeDoor>(&entered_);
    door_ = door.get();
    destinations[0].handoff = std::move(door);
    destinations[0].connections = &connections_;
    destinations[0].max_connections = max_connections;
    destinations[0].displaces = displaces;
    acceptor_->Start(std::move(destinations));
  }
  ~AcceptorTest() override {
    if (acceptor_ != nullptr) acceptor_->Stop();
    acceptor_.reset();
    for (int fd : clients_) close(fd);
  }

  int Connect(std::string_view says = "") {
    const int fd = testing::ConnectedToLoopback(testing::PortOf(acceptor_->addresses().front()));
    Say(fd, says);
    clients_.push_back(fd);
    return fd;
  }
  static void Say(int fd, std::string_view text) {
    if (!text.empty()) send(fd, text.data(), text.size(), MSG_NOSIGNAL);
  }
  // All the server says until it closes; "?" when it does not.
  static std::string ReadToEnd(int fd) {
    std::string all;
    char buffer[512];
    while (true) {
      pollfd ready{fd, POLLIN, 0};
      if (poll(&ready, 1, kPatienceMs) <= 0) return "?";
      const ssize_t got = recv(fd, buffer, sizeof(buffer), 0);
      if (got <= 0) return all;
      all.append(buffer, static_cast<std::size_t>(got));
    }
  }
  bool Entered(int count) const {
    return testing::Eventually([&] { return entered_ >= count; }) && entered_ == count;
  }
  // Lets one more in. Connections are taken, and read, in their order: those before have been by then.
  void LetTheOthersBeSeen() {
    const int before = entered_;
    Connect(kPreface);
    EXPECT_TRUE(Entered(before + 1));
  }

  std::atomic<int> entered_{0};
  Connections connections_{Connections::Options{}};
  std::unique_ptr<Acceptor> acceptor_;
  const FakeDoor* door_ = nullptr;
  std::vector<int> clients_;
};

TEST_F(AcceptorTest, ASilentCrowdKeepsNobodyOut) {
  Start(/*max_connections=*/4);
  for (int i = 0; i < 50; ++i) Connect();
  for (int i = 0; i < 4; ++i) {
    Connect(kPreface);
    EXPECT_TRUE(Entered(i + 1));
  }
  EXPECT_EQ(connections_.room_counts().made[static_cast<std::size_t>(Use::kSilent)], 50u);
}

TEST_F(AcceptorTest, WhoDoesNotGoOnAfterItsGreetingKeepsNobodyOut) {
  Start(/*max_connections=*/4);
  std::vector<int> crowd;
  for (int i = 0; i < 20; ++i) {
    crowd.push_back(Connect(kPreface));
    EXPECT_TRUE(Entered(i + 1));
  }
  for (int i = 0; i < 16; ++i) EXPECT_EQ(ReadToEnd(crowd[static_cast<std::size_t>(i)]), "");  // the oldest first
  EXPECT_EQ(connections_.size(), 4u);
  EXPECT_EQ(connections_.room_counts().made[static_cast<std::size_t>(Use::kHandshake)], 16u);
}

// A call has its connection, and the connection its place.
TEST_F(AcceptorTest, ConnectionsWithCallsUnderWayStay) {
  Start(/*max_connections=*/4);
  std::vector<std::shared_ptr<Connection>> calls;
  for (int i = 0; i < 4; ++i) {
    Connect(kPreface);
    EXPECT_TRUE(Entered(i + 1));
    calls.push_back(connections_.Find("fd:" + std::to_string(door_->fds()[static_cast<std::size_t>(i)]), 0));
    ASSERT_NE(calls.back(), nullptr);
  }
  EXPECT_EQ(ReadToEnd(Connect(kPreface)), "");  // the fifth is one too many
  EXPECT_EQ(entered_, 4);
  EXPECT_EQ(connections_.room_counts().refused, 1u);
  calls.pop_back();
  // A newcomer may come before the thread looks again.
  EXPECT_TRUE(testing::Eventually([&] {
    Connect(kPreface);
    return entered_ > 4;
  }));
}

// A network whose connection was ended for a flood is greeted later; it is in nobody's way meanwhile.
TEST_F(AcceptorTest, WhoComesBackAfterAFloodWaits) {
  Start(/*max_connections=*/4);
  Connect(kPreface);
  ASSERT_TRUE(Entered(1));
  const std::shared_ptr<Connection> connection = connections_.Find("fd:" + std::to_string(door_->fds()[0]), 0);
  ASSERT_NE(connection, nullptr);
  for (int messages = 0; messages < 2; ++messages) connection->SentTooMuch();  // the guard ends it
  const TimePoint ended = SteadyClock::now();
  Connect(kPreface);
  EXPECT_TRUE(Entered(2));
  EXPECT_GE(SteadyClock::now() - ended, LateGreetings::kFirst / 2);
}

TEST_F(AcceptorTest, AGreetingMayComeInPieces) {
  Start(4);
  const int fd = Connect();
  for (char c : kPreface) {
    EXPECT_EQ(entered_, 0);
    Say(fd, {&c, 1});
    testing::LetPass(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(Entered(1));
}

TEST_F(AcceptorTest, SilenceEnds) {
  Start(4, std::chrono::milliseconds(300));
  const int silent = Connect();
  const int half = Connect(kPreface.substr(0, 10));
  EXPECT_EQ(ReadToEnd(silent), "");
  EXPECT_EQ(ReadToEnd(half), "");
  EXPECT_EQ(entered_, 0);
  testing::Eventually([&] { return acceptor_->refused() >= 2; });  // counted once they are closed
  EXPECT_EQ(acceptor_->refused(), 2u);
}

TEST_F(AcceptorTest, WhoHangsUpInTheMiddleOfItsGreetingIsForgottenAtOnce) {
  Start(4);  // the greeting may take an hour
  const int half = Connect(kPreface.substr(0, 10));
  LetTheOthersBeSeen();
  shutdown(half, SHUT_WR);
  EXPECT_EQ(ReadToEnd(half), "");
  const int at_once = Connect();
  Say(at_once, kPreface.substr(0, 10));
  shutdown(at_once, SHUT_WR);
  EXPECT_EQ(ReadToEnd(at_once), "");
  EXPECT_EQ(entered_, 1);
}

TEST_F(AcceptorTest, OtherProtocolsAreTurnedAway) {
  Start(4);
  EXPECT_EQ(ReadToEnd(Connect("GET / HTTP/1.1\r\nHost: x\r\n\r\n")).substr(0, 24), "HTTP/1.1 400 Bad Request");
  EXPECT_EQ(ReadToEnd(Connect(std::string(5000, '\xff'))), "");
  EXPECT_EQ(entered_, 0);
  EXPECT_EQ(acceptor_->refused(), 2u);
}

// The process runs out of descriptors while many dribble: accepting goes on when its pause is over, not when they stop.
TEST_F(AcceptorTest, DribblingGreetingsDoNotHoldUpAccepting) {
  Start(/*max_connections=*/100);
  std::vector<int> dribbling;
  for (int i = 0; i < 40; ++i) dribbling.push_back(Connect(kPreface.substr(0, 1)));
  LetTheOthersBeSeen();
  std::vector<int> taken;
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit few = before;
  few.rlim_cur = static_cast<rlim_t>(dribbling.back()) + 60;
  const int late = testing::StreamSocket();
  const int port = testing::PortOf(acceptor_->addresses().front());
  setrlimit(RLIMIT_NOFILE, &few);
  for (int fd = dup(0); fd >= 0; fd = dup(0)) taken.push_back(fd);
  EXPECT_TRUE(testing::ConnectToLoopback(late, port));
  Say(late, kPreface);
  // Accepting fails, and rests for 50 ms. There is no descriptor left to look for that with.
  testing::LetPass(std::chrono::milliseconds(20));
  for (int fd : taken) close(fd);
  setrlimit(RLIMIT_NOFILE, &before);
  // Somebody says something every 5 ms, one after another, for 800 ms.
  std::size_t said = 0;
  EXPECT_TRUE(testing::Eventually(
      [&] {
        Say(dribbling[said % 40], kPreface.substr(1 + said / 40, 1));
        ++said;
        return entered_ == 2;
      },
      std::chrono::milliseconds(800), std::chrono::milliseconds(5)));
  close(late);
}

TEST_F(AcceptorTest, WhereConnectionsDisplaceOthersDescriptorsAreKeptForThem) {
  Start(/*max_connections=*/4, std::chrono::hours(1), /*displaces=*/true);
  clients_.push_back(testing::StreamSocket());
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit few = before;
  few.rlim_cur = static_cast<rlim_t>(clients_[0]) + 60;
  setrlimit(RLIMIT_NOFILE, &few);
  std::vector<int> taken;
  for (int fd = dup(0); fd >= 0; fd = dup(0)) taken.push_back(fd);
  EXPECT_TRUE(testing::ConnectToLoopback(clients_[0], testing::PortOf(acceptor_->addresses().front())));
  Say(clients_[0], kPreface);
  EXPECT_TRUE(Entered(1));
  for (int fd : taken) close(fd);
  setrlimit(RLIMIT_NOFILE, &before);
}

bool Reaches(int family, int port) {
  const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(static_cast<std::uint16_t>(port));
  v6.sin6_addr = in6addr_loopback;
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = v6.sin6_port;
  v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool reached = family == AF_INET6 ? connect(fd, reinterpret_cast<const sockaddr*>(&v6), sizeof(v6)) == 0
                                          : connect(fd, reinterpret_cast<const sockaddr*>(&v4), sizeof(v4)) == 0;
  close(fd);
  return reached;
}

int PortOf(const std::string& address) { return std::stoi(address.substr(address.rfind(':') + 1)); }

TEST(Listen, AnIpv6WildcardAloneServesBothFamilies) {
  Acceptor::Options options;
  options.places = {{"[::]:0", 0}};
  const auto acceptor = Acceptor::Create(options);
  ASSERT_TRUE(acceptor.ok()) << acceptor.status();
  const int port = PortOf((*acceptor)->addresses()[0]);
  EXPECT_TRUE(Reaches(AF_INET, port));
  EXPECT_TRUE(Reaches(AF_INET6, port));
}

TEST(Listen, BothWildcardsMayHaveOnePort) {
  const auto free = Listen("0.0.0.0:0");
  ASSERT_EQ(free.problem, "");
  const std::string port = std::to_string(PortOf(free.address));
  close(free.fds[0]);
  for (const std::vector<Acceptor::Place>& places :
       {std::vector<Acceptor::Place>{{"0.0.0.0:" + port, 0}, {"[::]:" + port, 0}},
        {{"[::]:" + port, 0}, {"0.0.0.0:" + port, 0}}}) {
    Acceptor::Options options;
    options.places = places;
    const auto acceptor = Acceptor::Create(options);
    ASSERT_TRUE(acceptor.ok()) << acceptor.status();
    EXPECT_TRUE(Reaches(AF_INET, std::stoi(port)));
    EXPECT_TRUE(Reaches(AF_INET6, std::stoi(port)));
  }
  // Two servers, one for each family, are a mistake.
  Acceptor::Options options;
  options.places = {{"0.0.0.0:" + port, 0}, {"[::]:" + port, 1}};
  EXPECT_FALSE(Acceptor::Create(options).ok());
}

TEST(Listen, LocalhostIsBothLoopbackAddresses) {
  for (const int again : {0, 1}) {
    const auto listening = Listen("localhost:0");
    ASSERT_EQ(listening.problem, "");
    const int port = PortOf(listening.address);
    EXPECT_EQ(listening.address, "localhost:" + std::to_string(port)) << again;
    EXPECT_EQ(listening.fds.size(), 2u);
    EXPECT_TRUE(Reaches(AF_INET, port));
    EXPECT_TRUE(Reaches(AF_INET6, port));
    // Half of it is not enough.
    for (const int fd : {listening.fds[0], listening.fds[1]}) {
      EXPECT_NE(Listen(listening.address).problem, "");
      close(fd);
    }
    const auto same = Listen(listening.address);
    ASSERT_EQ(same.problem, "");
    for (const int fd : same.fds) close(fd);
  }
}

TEST(Listen, AUnixSocketHasItsMode) {
  const testing::TempFolder folder;
  for (const unsigned mode : {0600u, 0660u, 0666u}) {
    const auto listening = Listen("unix:" + folder.path("s"), mode);
    ASSERT_EQ(listening.problem, "");
    struct stat info {};
    ASSERT_EQ(stat(folder.path("s").c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, mode);
    close(listening.fds[0]);
    unlink(folder.path("s").c_str());
  }
}

TEST(Listen, ADeadServersSocketIsReplacedALiveOnesIsNot) {
  const testing::TempFolder folder;
  const std::string address = "unix:" + folder.path("s");
  const auto first = Listen(address);
  ASSERT_EQ(first.problem, "");
  const auto second = Listen(address);
  EXPECT_EQ(second.problem, "the address is in use");
  close(first.fds[0]);  // as a kill would leave it: the file stays
  const auto third = Listen(address);
  EXPECT_EQ(third.problem, "");
  close(third.fds[0]);
  folder.Write("s", "a file");
  EXPECT_EQ(Listen(address).problem, "a file that is no socket is there");
}

}  // namespace
}  // namespace softmax::server

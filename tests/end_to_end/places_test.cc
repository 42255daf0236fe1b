// Who has a place when --max-connections are open, and who waits for one after a flood.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tests/end_to_end/faulty_service.h"
#include "tests/end_to_end/http2_frames.h"
#include "tests/end_to_end/server_process.h"
#include "tests/end_to_end/service.h"
#include "tests/support/eventually.h"
#include "tests/support/loopback.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_certificates.h"

namespace softmax::testing {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPlaces = 8;
constexpr int kHearsMs = 10000;
constexpr char kHere[] = "127.0.0.1";
constexpr char kElsewhere[] = "127.0.0.2";

std::string Preface() { return kHttp2Preface; }
std::string Settings() { return Http2Frame(4, 0, 0); }
std::string Ack() { return Http2Frame(4, 1, 0); }
std::string Ping() { return Http2Frame(6, 0, 0, std::string(8, 'p')); }
std::string Headers(const std::string& path, bool ends, std::uint32_t stream = 1) {
  return Http2Frame(kHeaders, ends ? kEndHeaders | kEndStream : kEndHeaders, stream, CallHeaders(path));
}

// A connection from an address of loopback's own.
class Raw {
 public:
  Raw(const std::string& target, const char* source, const std::string& says) : fd_(StreamSocket()) {
    sockaddr_in address = LoopbackAt(0);
    inet_pton(AF_INET, source, &address.sin_addr);
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_TRUE(ConnectToLoopback(fd_, PortOf(target)));
    Say(says);
  }
  ~Raw() { close(fd_); }
  Raw(const Raw&) = delete;
  Raw& operator=(const Raw&) = delete;

  bool Say(const std::string& bytes) const {
    return send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
  }
  // Whether something comes within that time.
  bool Hears(int within_ms = kHearsMs) const {
    char bytes[4096];
    pollfd ready{fd_, POLLIN, 0};
    return poll(&ready, 1, within_ms) > 0 && recv(fd_, bytes, sizeof(bytes), 0) > 0;
  }
  // Whether a Ping is answered: then all that was said before it has been read.
  bool HearsPong() const {
    std::string heard;
    char bytes[4096];
    while (heard.find(Http2Frame(6, 1, 0, std::string(8, 'p'))) == std::string::npos) {
      pollfd ready{fd_, POLLIN, 0};
      const ssize_t got = poll(&ready, 1, kHearsMs) > 0 ? recv(fd_, bytes, sizeof(bytes), 0) : 0;
      if (got <= 0) return false;
      heard.append(bytes, static_cast<std::size_t>(got));
    }
    return true;
  }
  bool IsClosed() const {
    char bytes[4096];
    ssize_t got = 1;
    while (got > 0) got = recv(fd_, bytes, sizeof(bytes), MSG_DONTWAIT);
    return got == 0 || errno != EAGAIN;
  }
  bool ComesToBeClosed() const {
    return Eventually([this] { return IsClosed(); });
  }

 private:
  int fd_;
};
using Crowd = std::vector<std::unique_ptr<Raw>>;

Crowd MakeCrowd(const std::string& target, const char* source, int size, const std::string& says) {
  Crowd crowd;
  for (int i = 0; i < size; ++i) crowd.push_back(std::make_unique<Raw>(target, source, says));
  return crowd;
}

class Places : public ::testing::Test {
 protected:
  explicit Places(std::vector<std::string> flags = {}) : flags_(std::move(flags)) {
    flags_.push_back("--max-connections=" + std::to_string(kPlaces));
    server_ = std::make_unique<ServerProcess>(flags_);
  }
  std::unique_ptr<client::Client> NewClient() const {
    client::ClientOptions options;
    options.target = server_->target();
    options.deadline = std::chrono::seconds(5);
    options.retry.max_attempts = 1;
    Edit(&options);
    auto client = client::Client::Create(options);
    EXPECT_TRUE(client.ok()) << client.status();
    return std::move(*client);
  }
  virtual void Edit(client::ClientOptions* /*options*/) const {}
  static absl::Status Call(client::Client& client) { return client.Softmax(MakeQuestion({3}, 1).view()).status(); }
  int Ended(const std::string& reason) const {
    const std::string value =
        MetricOf(server_->metrics(), "softmax_connections_ended_total{reason=\"" + reason + "\"} ");
    return value.empty() ? 0 : std::stoi(value);
  }
  // Whether that many connections come to be there, and to have said what they have said.
  bool Settles(int connections) const {
    return Eventually(
        [&] { return MetricOf(server_->metrics(), "softmax_connections ") == std::to_string(connections); });
  }

  std::vector<std::string> flags_;
  std::unique_ptr<ServerProcess> server_;
};

// They say HTTP/2's preface and nothing more, from the newcomer's own address, for ever.
TEST_F(Places, ConnectionsThatDoNotGoOnKeepNobodyOut) {
  const Crowd crowd = MakeCrowd(server_->target(), kHere, kPlaces, Preface());
  EXPECT_TRUE(Settles(kPlaces));
  const auto client = NewClient();
  EXPECT_EQ(Call(*client), absl::OkStatus());
  // Nor do those that come after it.
  const Crowd more = MakeCrowd(server_->target(), kHere, 10 * kPlaces, Preface());
  EXPECT_EQ(Call(*NewClient()), absl::OkStatus());
  EXPECT_EQ(Call(*client), absl::OkStatus());
  // Of the crowd some may find no place until the accept thread looks again.
  EXPECT_GT(Ended("handshake") + Ended("silent") + Ended("no_place"), 10 * kPlaces);
  EXPECT_EQ(Ended("idle"), 0);
  EXPECT_LE(Ended("no_place"), kPlaces);
  EXPECT_TRUE(server_->LogComesToHave("which has not finished its handshake, makes room for another (1 so far)"))
      << server_->Log();
}

// They finish the exchange of SETTINGS, and make no call.
TEST_F(Places, UnusedConnectionsKeepNobodyOut) {
  const Crowd crowd = MakeCrowd(server_->target(), kElsewhere, kPlaces, Preface() + Settings() + Ack() + Ping());
  for (const auto& one : crowd) EXPECT_TRUE(one->HearsPong());
  EXPECT_TRUE(Settles(kPlaces));
  const auto client = NewClient();
  EXPECT_EQ(Call(*client), absl::OkStatus());
  EXPECT_GE(Ended("unused"), 1);
  EXPECT_TRUE(crowd.front()->ComesToBeClosed());
  EXPECT_FALSE(crowd.back()->IsClosed());
}

// An address that has every place, for connections that had calls, gives up half of them to another's newcomers, and
// its own newcomers get none of these.
TEST_F(Places, NoAddressHasMoreThanItsShare) {
  const std::string used = Preface() + Settings() + Ack() + Headers("/x/y", /*ends=*/true);
  const Crowd crowd = MakeCrowd(server_->target(), kElsewhere, kPlaces, used);
  for (const auto& one : crowd) EXPECT_TRUE(one->Hears());
  EXPECT_TRUE(Settles(kPlaces));
  LetPass(std::chrono::milliseconds(100));
  const Crowd others = MakeCrowd(server_->target(), kHere, kPlaces, used);
  const auto open_of = [](const Crowd& some) {
    return std::count_if(some.begin(), some.end(), [](const auto& one) { return !one->IsClosed(); });
  };
  EXPECT_TRUE(Eventually([&] { return open_of(crowd) == kPlaces / 2; })) << open_of(crowd);
  EXPECT_TRUE(Eventually([&] { return open_of(others) == kPlaces / 2; })) << open_of(others);
  const Crowd more = MakeCrowd(server_->target(), kElsewhere, 3 * kPlaces, used);
  EXPECT_TRUE(Eventually([&] { return open_of(more) == 0; })) << open_of(more);
  EXPECT_EQ(open_of(others), kPlaces / 2);
  EXPECT_GE(Ended("idle"), kPlaces / 2);
  EXPECT_GE(Ended("no_place"), 3 * kPlaces);
}

TEST_F(Places, ConnectionsWithCallsUnderWayKeepTheirs) {
  const std::string calling =
      Preface() + Settings() + Ack() + Headers("/softmax.v1.SoftmaxService/SoftmaxStream", /*ends=*/false);
  const Crowd crowd = MakeCrowd(server_->target(), kElsewhere, kPlaces, calling);
  for (const auto& one : crowd) EXPECT_TRUE(one->Hears());
  EXPECT_TRUE(Settles(kPlaces));
  LetPass(std::chrono::milliseconds(100));
  const Raw newcomer(server_->target(), kHere, Preface() + Settings());
  EXPECT_TRUE(newcomer.ComesToBeClosed());
  for (const auto& one : crowd) EXPECT_FALSE(one->IsClosed());
  EXPECT_EQ(Ended("no_place"), 1);
}

// What comes from an address whose connections were ended is greeted later and later; from others, at once.
TEST_F(Places, WhoComesBackAfterFloodsIsGreetedLate) {
  const std::string flood = [] {
    std::string calls = Preface() + Settings();
    for (std::uint32_t i = 0; i < 3000; ++i) calls += Headers("/x/y", /*ends=*/true, 2 * i + 1);
    return calls;
  }();
  for (int ends = 0; ends < 4; ++ends) {
    const Raw attacker(server_->target(), kElsewhere, "");
    (void)attacker.Say(flood);
    ASSERT_TRUE(attacker.ComesToBeClosed());
  }
  EXPECT_EQ(Ended("calls"), 4);
  const auto began = Clock::now();
  const Raw again(server_->target(), kElsewhere, Preface() + Settings());
  const Raw other(server_->target(), kHere, Preface() + Settings());
  EXPECT_TRUE(other.Hears());
  EXPECT_FALSE(again.Hears(/*within_ms=*/0));
  EXPECT_TRUE(again.Hears());
  EXPECT_GT(Clock::now() - began, std::chrono::milliseconds(400));  // 800 after the fourth
}

class TlsPlaces : public Places {
 protected:
  TlsPlaces() : Places(WithTls()) {}
  static std::vector<std::string> WithTls() {
    return {"--tls-cert=" + folder().Write("cert.pem", identity().certificate),
            "--tls-key=" + folder().Write("key.pem", identity().private_key),
            "--tls-client-ca=" + folder().Write("ca.pem", authority().certificate)};
  }
  void Edit(client::ClientOptions* options) const override {
    const client::Identity caller = client::IssueFor("caller", authority());
    options->tls = client::TlsOptions{authority().certificate, caller.certificate, caller.private_key};
  }
  static const TempFolder& folder() {
    static const TempFolder folder;
    return folder;
  }
  static const client::Identity& authority() {
    static const client::Identity authority = client::MakeAuthority("authority");
    return authority;
  }
  static const client::Identity& identity() {
    static const client::Identity identity = client::IssueFor("localhost", authority(), "127.0.0.1");
    return identity;
  }
};

// A hello, and then nothing: neither a certificate nor the handshake's end.
TEST_F(TlsPlaces, HandshakesThatStopKeepNobodyOut) {
  const std::string hello = std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + std::string(32, 'r');
  const Crowd crowd = MakeCrowd(server_->target(), kElsewhere, kPlaces, hello);
  EXPECT_TRUE(Settles(kPlaces));
  EXPECT_EQ(Call(*NewClient()), absl::OkStatus());
  EXPECT_GE(Ended("handshake"), 1);
  EXPECT_EQ(Ended("no_place"), 0);
}

}  // namespace
}  // namespace softmax::testing

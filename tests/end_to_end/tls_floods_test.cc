// What came over TLS: whose flood it is, for a connection is not taken for another by anything that its client says.
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "server/rpc/guard/read_guard.h"
#include "tests/end_to_end/http2_frames.h"
#include "tests/end_to_end/service.h"
#include "tests/support/eventually.h"
#include "tests/support/loopback.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_certificates.h"

namespace softmax::testing {
namespace {

constexpr int kPatienceMs = 10000;

class Socket {
 public:
  explicit Socket(const std::string& target) : fd_(ConnectedToLoopback(PortOf(target))) {}
  ~Socket() { Close(); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  bool Send(const std::string& bytes) const {
    std::size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t got = send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (got <= 0) return false;
      sent += static_cast<std::size_t>(got);
    }
    return true;
  }
  // What comes next; empty: the end.
  std::string Receive() const {
    char bytes[16384];
    pollfd ready{fd_, POLLIN, 0};
    if (poll(&ready, 1, kPatienceMs) <= 0) return "";
    const ssize_t got = recv(fd_, bytes, sizeof(bytes), 0);
    return got > 0 ? std::string(bytes, static_cast<std::size_t>(got)) : "";
  }

 private:
  int fd_;
};

// A TLS client whose bytes the test carries, so that they can be sent twice.
class Session {
 public:
  explicit Session(int max_version) : context_(SSL_CTX_new(TLS_client_method())), ssl_(SSL_new(context_)) {
    SSL_set_max_proto_version(ssl_, max_version);
    const unsigned char h2[] = "\2h2";
    SSL_set_alpn_protos(ssl_, h2, 3);
    in_ = BIO_new(BIO_s_mem());
    out_ = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl_, in_, out_);
    SSL_set_connect_state(ssl_);
  }
  ~Session() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // The hello has a share for the first of them only.
  void UseGroups(const char* groups) { EXPECT_EQ(SSL_set1_groups_list(ssl_, groups), 1); }
  std::string Hello() {
    EXPECT_LT(SSL_do_handshake(ssl_), 1);
    return ToSend();
  }
  // Finishes what Hello has begun.
  bool Finish(const Socket& socket) {
    while (SSL_is_init_finished(ssl_) == 0) {
      const std::string came = socket.Receive();
      if (came.empty()) return false;
      BIO_write(in_, came.data(), static_cast<int>(came.size()));
      (void)SSL_do_handshake(ssl_);
      if (!socket.Send(ToSend())) return false;
    }
    return true;
  }
  // Whether the server comes to say this.
  bool Hears(const Socket& socket, const std::string& words) {
    std::string said;
    char bytes[4096];
    for (;;) {
      for (int got = 0; (got = SSL_read(ssl_, bytes, sizeof(bytes))) > 0;) {
        said.append(bytes, static_cast<std::size_t>(got));
      }
      if (said.find(words) != std::string::npos) return true;
      const std::string came = socket.Receive();
      if (came.empty()) return false;
      BIO_write(in_, came.data(), static_cast<int>(came.size()));
    }
  }
  std::string Encrypted(const std::string& bytes) {
    EXPECT_EQ(SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size())), static_cast<int>(bytes.size()));
    return ToSend();
  }

 private:
  std::string ToSend() {
    std::string all(BIO_ctrl_pending(out_), '\0');
    BIO_read(out_, all.data(), static_cast<int>(all.size()));
    return all;
  }

  SSL_CTX* context_;
  SSL* ssl_;
  BIO* in_;
  BIO* out_;
};

class TlsFloods : public ::testing::Test {
 protected:
  // Sends frames that carry nothing until the server ends the connection; whether it did.
  static bool IsEnded(Session* session, const Socket& socket) {
    std::string bytes = kHttp2Preface + Http2Frame(kSettings, 0, 0);
    for (int chunks = 0; chunks < 1000; ++chunks) {
      if (!socket.Send(session->Encrypted(bytes))) return true;
      bytes.clear();
      for (int i = 0; i < 1000; ++i) bytes += Http2Frame(kWindow, 0, 0, BigEndian(1, 4));
    }
    return false;
  }
  static std::uint64_t Ended() { return server::ReadGuard::ended(server::FrameMeter::Verdict::kFrames); }

  const TempFolder folder_;
  const client::Identity authority_ = client::MakeAuthority("authority");
  const client::Identity identity_ = client::IssueFor("localhost", authority_, "127.0.0.1");
  Service service_{[this](server::Config& config) {
    config.tls_cert = folder_.Write("cert.pem", identity_.certificate);
    config.tls_key = folder_.Write("key.pem", identity_.private_key);
  }};
};

// One ClientHello, and so one random number, on two connections: one of them stands for whoever saw it pass.
TEST_F(TlsFloods, AHelloSentAgainTakesNoConnectionsPlace) {
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    for (const bool other_closes : {true, false}) {
      for (const bool other_is_first : {true, false}) {
        SCOPED_TRACE(::testing::Message() << version << other_closes << other_is_first);
        const std::uint64_t before = Ended();
        Session session(version);
        const std::string hello = session.Hello();
        Socket flood(service_.target());
        Socket other(service_.target());
        for (const Socket* socket : {other_is_first ? &other : &flood, other_is_first ? &flood : &other}) {
          ASSERT_TRUE(socket->Send(hello));
          LetPass(std::chrono::milliseconds(50));
        }
        ASSERT_NE(other.Receive(), "");  // the server has seen it
        if (other_closes) {
          other.Close();
          LetPass(std::chrono::milliseconds(50));
        }
        ASSERT_TRUE(session.Finish(flood));
        EXPECT_TRUE(IsEnded(&session, flood));
        EXPECT_EQ(Ended(), before + 1);
        // Who did nothing is not ended for it: its handshake has time left.
        if (!other_closes) {
          EXPECT_TRUE(other.Send("\x16"));
          LetPass(std::chrono::milliseconds(20));
          EXPECT_TRUE(other.Send("\x03"));
        }
      }
    }
  }
}

// The server asks for a second hello, which has the first one's random number, and the first comes in pieces.
TEST_F(TlsFloods, AHelloThatIsAskedForAgainOrComesInPiecesHidesNothing) {
  const std::uint64_t before = Ended();
  Session session(TLS1_3_VERSION);
  session.UseGroups("X448:P-256");
  const std::string hello = session.Hello();
  const Socket flood(service_.target());
  for (const std::size_t at : {std::size_t{0}, std::size_t{5}, std::size_t{43}, std::size_t{100}}) {
    const std::size_t end = at == 0 ? 5 : at == 5 ? 43 : at == 43 ? 100 : hello.size();
    ASSERT_TRUE(flood.Send(hello.substr(at, end - at)));
    LetPass(std::chrono::milliseconds(10));
  }
  ASSERT_TRUE(session.Finish(flood));
  EXPECT_TRUE(IsEnded(&session, flood));
  EXPECT_EQ(Ended(), before + 1);
}

// The guard reads, and changes, what TLS carries.
TEST_F(TlsFloods, FirstMessagesAreCutAtTheLengthThatTheyClaimAndOfEndedCallsNotWaitedFor) {
  Session session(TLS1_3_VERSION);
  const Socket socket(service_.target());
  ASSERT_TRUE(socket.Send(session.Hello()));
  ASSERT_TRUE(session.Finish(socket));
  const auto call = [](std::uint32_t stream, const std::string& path) {
    return Http2Frame(kHeaders, kEndHeaders, stream, CallHeaders(path));
  };
  const std::string claim = std::string("\0\xff\xff\xff\xff", 5) + std::string(95, 'x');
  ASSERT_TRUE(socket.Send(session.Encrypted(kHttp2Preface + Http2Frame(kSettings, 0, 0) +
                                            call(1, "/grpc.health.v1.Health/Check") + Http2Frame(kData, 0, 1, claim))));
  EXPECT_TRUE(session.Hears(socket, "the message has 4294967295 bytes"));
  ASSERT_TRUE(socket.Send(session.Encrypted(call(3, "/no/such") + call(5, "/softmax.v1.SoftmaxService/Softmax"))));
  EXPECT_TRUE(session.Hears(socket, "/no/such is not known here"));
  EXPECT_TRUE(Eventually([] { return server::ReadGuard::waiting_calls() == 1; }));
}

}  // namespace
}  // namespace softmax::testing

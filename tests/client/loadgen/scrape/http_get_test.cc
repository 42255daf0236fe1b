#include "client/loadgen/scrape/http_get.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>
#include <thread>

#include "client/loadgen/scrape/server_metrics.h"
#include "tests/support/eventually.h"
#include "tests/support/loopback.h"

namespace softmax::client {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr auto kLong = std::chrono::minutes(1);  // so large that only the rule under test can end a call

// A listening socket on the loopback that nobody serves.
class Listener {
 public:
  Listener() : fd_(testing::StreamSocket()), port_(testing::BindToLoopback(fd_)) { EXPECT_EQ(listen(fd_, 4), 0); }
  ~Listener() { Close(); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  int fd() const { return fd_; }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

 private:
  int fd_;
  int port_ = 0;
};

// Takes one connection, reads the question and gives the answer; a byte every `pause` when that is not zero.
class OneAnswer {
 public:
  explicit OneAnswer(std::string answer, milliseconds pause = milliseconds(0))
      : thread_([this, answer = std::move(answer), pause] { Serve(answer, pause); }) {}
  ~OneAnswer() {
    shutdown(listener_.fd(), SHUT_RDWR);  // wakes accept() when nobody came
    thread_.join();
  }

  std::string address() const { return listener_.address(); }
  const std::string& question() {
    thread_.join();
    thread_ = std::thread([] {});
    return question_;
  }

 private:
  void Serve(const std::string& answer, milliseconds pause) {
    const int fd = accept(listener_.fd(), nullptr, nullptr);
    if (fd < 0) return;
    std::array<char, 4096> piece;
    while (question_.find("\r\n\r\n") == std::string::npos) {
      const ssize_t got = recv(fd, piece.data(), piece.size(), 0);
      if (got <= 0) break;
      question_.append(piece.data(), static_cast<std::size_t>(got));
    }
    const std::size_t step = pause.count() > 0 ? 1 : answer.size() + 1;
    for (std::size_t at = 0; at < answer.size(); at += step) {
      const std::string part = answer.substr(at, step);
      if (send(fd, part.data(), part.size(), MSG_NOSIGNAL) < 0) break;
      testing::LetPass(pause);
    }
    close(fd);
  }

  Listener listener_;
  std::string question_;
  std::thread thread_;  // last: uses the others
};

absl::StatusOr<std::string> Get(const std::string& address, HttpLimits limits = {.timeout = kLong}) {
  const absl::StatusOr<HttpLocation> location = ParseHttpLocation(address, "/metrics");
  if (!location.ok()) return location.status();
  return HttpGet(*location, limits);
}

void ExpectError(const absl::Status& status, absl::StatusCode code, const std::string& words) {
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(words));
  EXPECT_EQ(status.message().find('\n'), absl::string_view::npos) << "a warning is one line";
}

TEST(HttpGet, AsksForThePathAndGivesTheBody) {
  OneAnswer server("HTTP/1.1 200 OK\r\ncontent-length:  6 \r\n\r\na 1\nb2, and more that was not promised");
  const absl::StatusOr<std::string> body = Get(absl::StrCat("http://", server.address(), "/here?x=1"));
  ASSERT_TRUE(body.ok()) << body.status();
  EXPECT_EQ(*body, "a 1\nb2");
  EXPECT_THAT(server.question(), HasSubstr("GET /here?x=1 HTTP/1.0\r\n"));
  EXPECT_THAT(server.question(), HasSubstr(absl::StrCat("Host: ", server.address(), "\r\n")));
}

TEST(HttpGet, ReadsToTheEndWithoutALength) {
  const std::string body(300'000, 'x');
  OneAnswer server("HTTP/1.0 200 OK\r\n\r\n" + body);
  EXPECT_EQ(*Get(server.address()), body);
}

TEST(HttpGet, SaysWhatAnswersInstead) {
  struct Case {
    std::string answer;
    absl::StatusCode code;
    std::string words;
  };
  const Case cases[] = {
      {"HTTP/1.1 404 Not Found\r\nX: y\r\n\r\nno", absl::StatusCode::kNotFound, "answers HTTP/1.1 404 Not Found"},
      {"SSH-2.0-OpenSSH_9.2\r\n", absl::StatusCode::kDataLoss, "does not answer in HTTP"},
      {"", absl::StatusCode::kDataLoss, "does not answer in HTTP"},
      {"HTTP/1.1\r\n\r\n", absl::StatusCode::kDataLoss, "does not answer in HTTP"},
      {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", absl::StatusCode::kDataLoss, "5 of 10 bytes"},
      {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", absl::StatusCode::kDataLoss, "invalid Content-Length"},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", absl::StatusCode::kDataLoss,
       "transfer encoding"},
  };
  for (const Case& one : cases) {
    OneAnswer server(one.answer);
    ExpectError(Get(server.address()).status(), one.code, one.words);
  }
}

TEST(HttpGet, StopsAtTheLimitOfBytes) {
  const HttpLimits limits{.timeout = kLong, .body_bytes = 1000};
  OneAnswer exact("HTTP/1.0 200 OK\r\n\r\n" + std::string(1000, 'x'));
  EXPECT_TRUE(Get(exact.address(), limits).ok());
  OneAnswer over("HTTP/1.0 200 OK\r\n\r\n" + std::string(1001, 'x'));
  ExpectError(Get(over.address(), limits).status(), absl::StatusCode::kResourceExhausted, "more than 1000 bytes");
  OneAnswer endless("HTTP/1.0 200 OK\r\n\r\n" + std::string(4 << 20, 'x'));
  ExpectError(Get(endless.address(), limits).status(), absl::StatusCode::kResourceExhausted, "bytes");
}

TEST(HttpGet, GivesUpOnASilentServer) {
  const Listener silent;  // the kernel takes the connection, nobody answers
  const auto begin = std::chrono::steady_clock::now();
  ExpectError(Get(silent.address(), {.timeout = milliseconds(100)}).status(), absl::StatusCode::kDeadlineExceeded,
              silent.address());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

// A limit for each read alone would let this one go on for minutes.
TEST(HttpGet, TheTimeLimitIsForTheWholeAnswer) {
  OneAnswer slow("HTTP/1.0 200 OK\r\n\r\n" + std::string(200, 'x'), milliseconds(20));
  ExpectError(Get(slow.address(), {.timeout = milliseconds(300)}).status(), absl::StatusCode::kDeadlineExceeded,
              "no answer in time");
}

TEST(HttpGet, NamesARefusedPort) {
  Listener gone;
  const std::string address = gone.address();
  gone.Close();
  ExpectError(Get(address).status(), absl::StatusCode::kUnavailable,
              absl::StrCat("http://", address, "/metrics: Connection refused"));
  ExpectError(FetchMetrics(address, kLong).status(), absl::StatusCode::kUnavailable, "Connection refused");
}

TEST(ParseHttpLocation, ReadsItsForms) {
  const auto read = [](const std::string& text) {
    const auto location = ParseHttpLocation(text, "/metrics");
    EXPECT_TRUE(location.ok()) << location.status();
    return location.ok() ? absl::StrCat(location->host, " ", location->port, " ", location->path) : "";
  };
  EXPECT_EQ(read("localhost:9400"), "localhost 9400 /metrics");
  EXPECT_EQ(read("http://10.0.0.1:80"), "10.0.0.1 80 /metrics");
  EXPECT_EQ(read("http://a.b:1/other?x=y"), "a.b 1 /other?x=y");
  EXPECT_EQ(read("[::1]:9400"), "::1 9400 /metrics");
}

TEST(ParseHttpLocation, SaysWhatIsWrong) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "host:port"},
      {"localhost", "host:port"},
      {":9400", "host:port"},
      {"a:0", "1 to 65535"},
      {"a:65536", "1 to 65535"},
      {"a:b", "1 to 65535"},
      {"a:", "1 to 65535"},
      {"::1:9400", "brackets"},
      {"https://a:1", "only http"},
      {"a:1/x\r\nEvil: 1", "control"},
      {"a b:1", "blanks"},
  };
  for (const auto& [text, words] : cases) {
    ExpectError(ParseHttpLocation(text, "/metrics").status(), absl::StatusCode::kInvalidArgument, words);
  }
}

TEST(FetchMetrics, RefusesWhatIsNotASoftmaxServer) {
  OneAnswer other("HTTP/1.0 200 OK\r\n\r\nnode_load1 0.5\n");
  ExpectError(FetchMetrics(other.address(), kLong).status(), absl::StatusCode::kFailedPrecondition,
              "has no softmax_requests_total");
  OneAnswer page("HTTP/1.0 200 OK\r\n\r\n<html>hello</html>\n");
  ExpectError(FetchMetrics(page.address(), kLong).status(), absl::StatusCode::kInvalidArgument, "line 1 ");
}

}  // namespace
}  // namespace softmax::client

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/metrics/metrics.h"
#include "server/metrics/scrape_connection.h"
#include "tests/support/loopback.h"

namespace softmax::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class Socket {
 public:
  explicit Socket(int port) : fd_(softmax::testing::ConnectedToLoopback(port)) {}
  ~Socket() { close(fd_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  void Send(const std::string& text) {
    EXPECT_EQ(send(fd_, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }

  // All until the other side closes or `limit` is over.
  std::string ReadAll(seconds limit) {
    const auto end = steady_clock::now() + limit;
    std::string out;
    char buffer[65536];
    while (steady_clock::now() < end) {
      pollfd entry{fd_, POLLIN, 0};
      if (poll(&entry, 1, 50) == 1) {
        const ssize_t got = recv(fd_, buffer, sizeof(buffer), 0);
        if (got <= 0) {
          break;
        }
        out.append(buffer, static_cast<std::size_t>(got));
      }
    }
    return out;
  }

 private:
  const int fd_;
};

std::string Get(int port, const std::string& path, seconds limit) {
  Socket socket(port);
  socket.Send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  return socket.ReadAll(limit);
}

class ScrapeServerTest : public ::testing::Test {
 protected:
  std::unique_ptr<Metrics> metrics_ = Metrics::Create({"1.2.3", "abcdef", "cpu", {}});
};

TEST_F(ScrapeServerTest, ServesMetricsAtAFreePort) {
  ASSERT_EQ(metrics_->Serve("127.0.0.1:0"), "");
  ASSERT_GT(metrics_->port(), 0);
  const std::string answer = Get(metrics_->port(), "/metrics", seconds(5));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK"));
  EXPECT_THAT(answer, HasSubstr(R"(softmax_build_info{version="1.2.3")"));
}

TEST_F(ScrapeServerTest, TakesOneThread) {
  const auto threads = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
  };
  const auto before = threads();
  ASSERT_EQ(metrics_->Serve("127.0.0.1:0"), "");
  EXPECT_EQ(threads(), before + 1);
}

// Compares without printing whole answers.
bool IsOk(const std::string& answer) { return answer.starts_with("HTTP/1.1 200"); }

TEST_F(ScrapeServerTest, ServesNothingButMetrics) {
  // A file that a web server with a root, or without one, could find.
  const std::string folder = ::testing::TempDir() + "scrape_server_test";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/secret.txt") << "secret";
  std::filesystem::current_path(folder);
  ASSERT_EQ(metrics_->Serve("127.0.0.1:0"), "");
  for (const std::string path :
       {"/", "/secret.txt", "/./secret.txt", "/../etc/passwd", "/etc/passwd", "/%2e%2e/etc/passwd", "/metric"}) {
    const std::string answer = Get(metrics_->port(), path, seconds(5));
    EXPECT_THAT(answer.substr(0, 10), StartsWith("HTTP/1.1 4")) << path;
    EXPECT_THAT(answer, Not(HasSubstr("secret"))) << path;
  }
  std::filesystem::current_path("/");
  std::filesystem::remove_all(folder);
}

TEST_F(ScrapeServerTest, ResolvesAName) {
  EXPECT_EQ(metrics_->Serve("localhost:0"), "");
  EXPECT_TRUE(IsOk(Get(metrics_->port(), "/metrics", seconds(5))));
}

TEST_F(ScrapeServerTest, ServesBothFamiliesOnOneAddress) {
  const std::string problem = metrics_->Serve("[::]:0");
  if (problem.find("cannot be bound") != std::string::npos) GTEST_SKIP() << "no IPv6 here";
  ASSERT_EQ(problem, "");
  EXPECT_TRUE(IsOk(Get(metrics_->port(), "/metrics", seconds(5))));  // by IPv4
  const auto v6 = Metrics::Create({});
  EXPECT_EQ(v6->Serve("[::1]:0"), "");
  EXPECT_GT(v6->port(), 0);
}

std::string Ask(int port, const std::string& request) {
  Socket socket(port);
  socket.Send(request);
  return socket.ReadAll(seconds(5));
}

TEST_F(ScrapeServerTest, SaysWhatFormatItIsIn) {
  ASSERT_EQ(metrics_->Serve("127.0.0.1:0"), "");
  EXPECT_THAT(Get(metrics_->port(), "/metrics", seconds(5)),
              HasSubstr("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
  EXPECT_TRUE(IsOk(Get(metrics_->port(), "/metrics?x=1", seconds(5))));
}

TEST_F(ScrapeServerTest, SpeaksOpenMetricsToWhoeverWantsThatMore) {
  const auto metrics = Metrics::Create({"1", "c", "cpu", {{"max_rank", 8}}});
  Recorder* const recorder = metrics->AddRecorder();
  recorder->RequestFinished({});
  recorder->BatchFinished({});
  ASSERT_EQ(metrics->Serve("127.0.0.1:0"), "");
  const auto accepting = [&](const std::string& header) {
    return Ask(metrics->port(), "GET /metrics HTTP/1.1\r\n" + header + "\r\n\r\n");
  };
  const std::string kOpen = "\r\nContent-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n";
  for (const char* header :
       {"Accept: application/openmetrics-text", "accept:application/openmetrics-text; version=1.0.0; charset=utf-8",
        "Accept: application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,"
        "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"}) {
    const std::string answer = accepting(header);
    EXPECT_THAT(answer, HasSubstr(kOpen)) << header;
    EXPECT_THAT(answer, ::testing::EndsWith("\n# EOF\n"));
    EXPECT_THAT(answer, HasSubstr("\n# TYPE softmax_requests counter\n"));
    EXPECT_THAT(answer, HasSubstr("\n# HELP softmax_requests "));
    EXPECT_THAT(answer, HasSubstr("\nsoftmax_requests_total{method=\"Softmax\",protocol=\"native\",code=\"OK\"} 1\n"));
    for (const char* line : {"batch_requests_sum 0", "input_bytes_total 0", "batch_rows_bucket{le=\"1.0\"} 1"}) {
      EXPECT_THAT(answer, HasSubstr(std::string("\nsoftmax_") + line + "\n"));
    }
    EXPECT_THAT(answer, HasSubstr("\nsoftmax_batch_rows_bucket{le=\"+Inf\"} 1\n"));
    EXPECT_THAT(
        answer,
        HasSubstr("\nsoftmax_request_duration_seconds_bucket{method=\"Softmax\",protocol=\"native\",le=\"0.00025\"} "));
    EXPECT_THAT(answer, HasSubstr("\n# TYPE softmax_setting gauge\nsoftmax_setting{name=\"max_rank\"} 8\n"));
  }
  for (const char* header : {"Accept: */*", "Accept: text/plain", "Host: application/openmetrics-text",
                             "Accept: application/openmetrics-text;version=0.0.1",
                             "Accept: application/openmetrics-text;q=0.1,text/plain;q=0.9",
                             "Accept: application/openmetrics-text,text/plain"}) {
    EXPECT_THAT(accepting(header), HasSubstr("\r\nContent-Type: text/plain; version=0.0.4; ")) << header;
  }
}

// The newest of a bucket, behind that bucket, of its method only; Prometheus' own text has no place for them.
TEST_F(ScrapeServerTest, SlowRequestsAreExemplarsOfTheirBucket) {
  const auto metrics = Metrics::Create({"1", "c", "cpu", {}});
  Recorder* const first = metrics->AddRecorder();
  Recorder* const second = metrics->AddRecorder();
  const auto slow = [](Method method, int ms) {
    RequestSample sample;
    sample.method = method;
    sample.total = std::chrono::milliseconds(ms);
    return sample;
  };
  const std::string old(32, 'a'), newer(32, 'b'), streamed(32, 'c'), slowest(32, 'd');
  first->InTrace(slow(Method::kSoftmax, 300), old);
  second->InTrace(slow(Method::kSoftmax, 400), newer);
  second->InTrace(slow(Method::kSoftmaxStream, 400), streamed);
  first->InTrace(slow(Method::kSoftmax, 60000), slowest);
  ASSERT_EQ(metrics->Serve("127.0.0.1:0"), "");
  const std::string open =
      Ask(metrics->port(), "GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text\r\n\r\n");
  const std::string bucket = "\nsoftmax_request_duration_seconds_bucket{method=\"Softmax\",protocol=\"native\",le=\"";
  EXPECT_THAT(open, HasSubstr(bucket + "0.5\"} 0 # {trace_id=\"" + newer + "\"} 0.4 "));
  EXPECT_THAT(open, HasSubstr(bucket + "+Inf\"} 0 # {trace_id=\"" + slowest + "\"} 60 "));
  EXPECT_THAT(open, HasSubstr(bucket + "0.25\"} 0\n"));
  EXPECT_THAT(open, HasSubstr("{method=\"SoftmaxStream\",protocol=\"native\",le=\"0.5\"} 0 # {trace_id=\"" + streamed +
                              "\"} 0.4 "));
  EXPECT_THAT(open, Not(HasSubstr(old)));
  EXPECT_THAT(Ask(metrics->port(), "GET /metrics HTTP/1.1\r\n\r\n"), Not(HasSubstr("trace_id")));
}

TEST_F(ScrapeServerTest, ListensOnBothAddressesOfLocalhost) {
  ASSERT_EQ(metrics_->Serve("localhost:0"), "");
  EXPECT_TRUE(IsOk(Get(metrics_->port(), "/metrics", seconds(5))));
  const int fd = socket(AF_INET6, SOCK_STREAM, 0);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(static_cast<std::uint16_t>(metrics_->port()));
  address.sin6_addr = in6addr_loopback;
  const bool there = connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  const int error = errno;
  close(fd);
  if (!there && (error == EADDRNOTAVAIL || error == EAFNOSUPPORT)) GTEST_SKIP() << "no IPv6 here";
  EXPECT_TRUE(there);
}

TEST_F(ScrapeServerTest, AnswersHeadWithoutABody) {
  ASSERT_EQ(metrics_->Serve("127.0.0.1:0"), "");
  const std::string answer = Ask(metrics_->port(), "HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(IsOk(answer));
  EXPECT_THAT(answer, ::testing::EndsWith("\r\n\r\n"));
  EXPECT_THAT(answer, Not(HasSubstr("Content-Length: 0")));
}

TEST_F(ScrapeServerTest, RefusesWhatIsNoScrape) {
  ASSERT_EQ(metrics_->Serve("127.0.0.1:0"), "");
  EXPECT_THAT(Ask(metrics_->port(), "POST /metrics HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 405"));
  for (const char* line : {"\x16\x03\x01 rubbish", "GET HTTP/1.1", "GET"}) {
    EXPECT_THAT(Ask(metrics_->port(), std::string(line) + "\r\n\r\n"), StartsWith("HTTP/1.1 400")) << line;
  }
  EXPECT_THAT(Ask(metrics_->port(), std::string(16 << 10, 'x')), StartsWith("HTTP/1.1 400"));
  const std::string most = "GET /metrics HTTP/1.1\r\nX: " + std::string((16 << 10) - 64, 'x') + "\r\n\r\n";
  EXPECT_TRUE(IsOk(Ask(metrics_->port(), most)));
}

TEST_F(ScrapeServerTest, ServesThePagesThatItIsGiven) {
  EXPECT_EQ(metrics_->port(), 0);
  ASSERT_EQ(metrics_->Serve("127.0.0.1:0",
                            [](std::string_view method, std::string_view path) -> std::optional<HttpPage> {
                              if (path != "/page") return std::nullopt;
                              return HttpPage{"202 Accepted", "text/x", std::string(method) + "s it"};
                            }),
            "");
  const std::string answer = Ask(metrics_->port(), "PUT /page?x HTTP/1.1\r\n\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 202 Accepted\r\nContent-Type: text/x\r\n"));
  EXPECT_THAT(answer, ::testing::EndsWith("\r\n\r\nPUTs it"));
  EXPECT_TRUE(IsOk(Get(metrics_->port(), "/metrics", seconds(5))));
}

TEST_F(ScrapeServerTest, ReadsARequestInPieces) {
  ASSERT_EQ(metrics_->Serve("127.0.0.1:0"), "");
  Socket socket(metrics_->port());
  for (const char c : std::string("GET /metrics HTTP/1.0\r\n\r\n")) socket.Send(std::string(1, c));
  EXPECT_TRUE(IsOk(socket.ReadAll(seconds(5))));
}

TEST_F(ScrapeServerTest, SaysThatAPortIsTaken) {
  ASSERT_EQ(metrics_->Serve("127.0.0.1:0"), "");
  const std::string address = "127.0.0.1:" + std::to_string(metrics_->port());
  const auto second = Metrics::Create({});
  EXPECT_EQ(second->Serve(address), "address " + address + " is in use");
}

TEST_F(ScrapeServerTest, SaysWhatIsWrongWithAnAddress) {
  EXPECT_THAT(metrics_->Serve("9400"), HasSubstr("address 9400 is not valid: want host:port"));
  EXPECT_THAT(metrics_->Serve(":9400"), HasSubstr("want host:port"));
  EXPECT_THAT(metrics_->Serve("127.0.0.1:http"), HasSubstr("0 to 65535"));
  EXPECT_THAT(metrics_->Serve("127.0.0.1:65536"), HasSubstr("0 to 65535"));
  EXPECT_THAT(metrics_->Serve("::1:9400"), HasSubstr("[v6]:port"));
  EXPECT_THAT(metrics_->Serve("203.0.113.7:0"), HasSubstr("cannot be bound"));
}

TEST_F(ScrapeServerTest, AnswersInTimeDespiteIdleAndHalfSentConnections) {
  ASSERT_EQ(metrics_->Serve("127.0.0.1:0"), "");
  std::vector<std::unique_ptr<Socket>> silent;
  for (int i = 0; i < 100; ++i) {
    silent.push_back(std::make_unique<Socket>(metrics_->port()));
    if (i % 2 == 1) {
      silent.back()->Send("GET /metrics HTTP/1.1\r\nHost: ");
    }
  }
  const auto start = steady_clock::now();
  const std::string answer = Get(metrics_->port(), "/metrics", seconds(10));
  const double took = std::chrono::duration<double>(steady_clock::now() - start).count();
  EXPECT_TRUE(IsOk(answer));
  EXPECT_LT(took, 3.0);
  RecordProperty("scrape_seconds", std::to_string(took));
}

// More than the socket takes at once.
class LargeAnswerTest : public ::testing::Test {
 protected:
  LargeAnswerTest() {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends_), 0);
    connection_ = std::make_unique<ScrapeConnection>(ends_[0]);
    EXPECT_EQ(write(ends_[1], "GET /metrics HTTP/1.1\r\n\r\n", 25), 25);
    Proceed();
    EXPECT_FALSE(connection_->done());
    EXPECT_EQ(connection_->events(), POLLOUT);
  }
  ~LargeAnswerTest() override { Leave(); }
  void Proceed() {
    connection_->Proceed([](TextFormat) { return std::string(kBytes, 'x'); }, nullptr);
  }
  void Leave() {
    if (ends_[1] >= 0) close(std::exchange(ends_[1], -1));
  }

  static constexpr std::size_t kBytes = 4 << 20;
  int ends_[2] = {-1, -1};
  std::unique_ptr<ScrapeConnection> connection_;
};

TEST_F(LargeAnswerTest, GoesOnWhereItsReaderHasReadAndEndsWithItsLastByte) {
  std::string got;
  for (char block[65536]; true;) {
    const ssize_t size = recv(ends_[1], block, sizeof(block), 0);
    if (size <= 0) break;
    got.append(block, static_cast<std::size_t>(size));
    if (!connection_->done()) Proceed();
  }
  EXPECT_TRUE(connection_->done());
  EXPECT_EQ(got.size() - got.find("\r\n\r\n") - 4, kBytes);
}

TEST_F(LargeAnswerTest, EndsWhenItsReaderLeaves) {
  Leave();
  Proceed();
  EXPECT_TRUE(connection_->done());
}

TEST(ScrapeConnection, EndsWhenItsClientLeavesUnasked) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
  ScrapeConnection connection(ends[0]);
  connection.Proceed(nullptr, nullptr);
  EXPECT_FALSE(connection.done());
  close(ends[1]);
  connection.Proceed(nullptr, nullptr);
  EXPECT_TRUE(connection.done());
}

TEST_F(ScrapeServerTest, StopsAtOnceAlsoWhileAConnectionIsOpen) {
  ASSERT_EQ(metrics_->Serve("127.0.0.1:0"), "");
  EXPECT_TRUE(IsOk(Get(metrics_->port(), "/metrics", seconds(5))));
  const Socket silent(metrics_->port());
  const auto start = steady_clock::now();
  metrics_.reset();
  EXPECT_LT(steady_clock::now() - start, milliseconds(1500));
}

}  // namespace
}  // namespace softmax::server

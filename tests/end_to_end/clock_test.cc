// The wall clock is set forward and back while a server runs: calls, their deadlines, metrics and the drain do not
// mind.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/end_to_end/faulty_service.h"
#include "tests/support/eventually.h"
#include "tests/support/temp_folder.h"

namespace softmax::testing {
namespace {

using Clock = std::chrono::steady_clock;

// The wall clock of what is started while this lives.
class SteppedClock {
 public:
  SteppedClock() {
    Set(0);
    setenv("CLOCK_STEP_FILE", path_.c_str(), 1);
    setenv("LD_PRELOAD", SOFTMAX_CLOCK_STEP_LIBRARY, 1);
    // A sanitizer wants to be the first library, and need not be for this one.
    const char* const asan = std::getenv("ASAN_OPTIONS");
    asan_ = asan == nullptr ? "" : asan;
    setenv("ASAN_OPTIONS", (asan_ + ":verify_asan_link_order=0").c_str(), 1);
  }
  ~SteppedClock() {
    unsetenv("LD_PRELOAD");
    unsetenv("CLOCK_STEP_FILE");
    setenv("ASAN_OPTIONS", asan_.c_str(), 1);
  }
  void Set(std::int64_t seconds) {
    const int fd = open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_EQ(write(fd, &seconds, sizeof(seconds)), static_cast<ssize_t>(sizeof(seconds)));
    close(fd);
  }

 private:
  const TempFolder folder_;
  const std::string path_ = folder_.path("step");
  std::string asan_;
};

// The year that the server's newest log line says.
std::string NewestYear(const ServerProcess& server) {
  const std::string log = server.Log();
  const std::size_t end = log.find_last_not_of('\n');
  return log.substr(log.rfind('\n', end) + 1, 4);
}

constexpr std::int64_t kYear = 365 * 24 * 3600;

TEST(Clock, StepsOfTheWallClockAreNotNoticed) {
  SteppedClock clock;
  ServerProcess server({"--answer-timeout=5s", "--drain-timeout=5s"});
  Callers callers(server.target());
  EXPECT_TRUE(callers.GetRightAnswers(50));
  const std::string year = NewestYear(server);
  for (const std::int64_t step : {std::int64_t{3600}, std::int64_t{-3600}, 10 * kYear, -2 * kYear, std::int64_t{0}}) {
    clock.Set(step);
    EXPECT_TRUE(callers.GetRightAnswers(50)) << step;
    // A deadline is a time from now on, and the server keeps to it.
    const auto client = *client::Client::Create({.target = server.target()});
    const Question question = MakeQuestion({10, 200}, 1);
    client::SoftmaxOptions call = question.options();
    call.timeout = std::chrono::seconds(20);
    const auto answer = client->Softmax(question.view(), call);
    EXPECT_TRUE(answer.ok()) << step << ": " << answer.status();
    if (step == 10 * kYear) {
      server.Signal(SIGUSR1);  // it says so, in the log
      Eventually([&] { return NewestYear(server) != year; });
      EXPECT_EQ(std::stoi(NewestYear(server)), std::stoi(year) + 10) << "the step does not reach the server";
    }
  }
  callers.Stop();
  const Counts& counts = callers.counts();
  EXPECT_EQ(counts.wrong + counts.internal + counts.unavailable + counts.other, 0) << server.Log();
  // No step is in a measured time: all of them together are less than the time that the test took.
  EXPECT_LT(std::stod(MetricOf(server.metrics(),
                               R"(softmax_request_duration_seconds_sum{method="Softmax",protocol="native"} )")),
            600);
  EXPECT_EQ(HealthOf(server.target(), "readiness"), "SERVING");
  clock.Set(3600);
  server.Signal(SIGTERM);
  const auto begin = Clock::now();
  EXPECT_EQ(server.Wait(30000), 0) << server.Log();
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(20));
}

// A deadline that is over is over, and one that is not is not, whatever the wall clock says meanwhile.
TEST(Clock, DeadlinesPassWithTheMonotonicClock) {
  SteppedClock clock;
  ServerProcess server({"--unsafe-testing", "--fault=slabs:2"});
  const auto client = *client::Client::Create({.target = server.target(), .retry = {.max_attempts = 1}});
  const Question question = MakeQuestion({1, 1 << 20}, 1);  // 4 MiB never find room in two slabs
  for (const std::int64_t step : {std::int64_t{-7200}, std::int64_t{7200}}) {
    client::SoftmaxOptions call = question.options();
    call.timeout = std::chrono::milliseconds(1500);
    const auto begin = Clock::now();
    const auto waiting = [&] { return NumberOf(server, "softmax_requests_queued "); };
    std::jthread stepper([&] {
      EXPECT_TRUE(Eventually([&] { return waiting() == 1; }, *call.timeout));
      clock.Set(step);
    });
    const auto answer = client->Softmax(question.view(), call);
    EXPECT_TRUE(absl::IsDeadlineExceeded(answer.status())) << answer.status();
    EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(1400)) << step;
    // The server, too, has given it up by now: nothing waits any more.
    EXPECT_TRUE(Eventually([&] { return waiting() == 0; })) << step;
  }
}

}  // namespace
}  // namespace softmax::testing

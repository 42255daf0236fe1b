// What operators do to a running server: signals and logs.
#include <absl/strings/match.h>
#include <absl/strings/str_split.h>
#include <absl/strings/strip.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "client/loadgen/scrape/http_get.h"
#include "softmax/v1/softmax.grpc.pb.h"
#include "tests/end_to_end/faulty_service.h"
#include "tests/end_to_end/requests.h"
#include "tests/end_to_end/server_process.h"
#include "tests/end_to_end/service.h"
#include "tests/support/eventually.h"

namespace softmax::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

grpc::Status Call(const std::string& target, std::uint64_t id, const std::string& traceparent) {
  const auto channel = grpc::CreateChannel(target, grpc::InsecureChannelCredentials());
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  context.set_wait_for_ready(true);
  if (!traceparent.empty()) context.AddMetadata("traceparent", traceparent);
  v1::SoftmaxResponse answer;
  return v1::SoftmaxService::NewStub(channel)->Softmax(&context, RequestOfZeros({2}, id), &answer);
}

TEST(Announcement, TheFirstLineSaysWhatStarts) {
  ServerProcess server({"--threads=2"});
  const std::string first = server.Log().substr(0, server.Log().find('\n'));
  EXPECT_THAT(first, ::testing::ContainsRegex("softmax-server [0-9.]+ \\([0-9a-z]+\\): backend [a-z]+, .+; threads 2, "
                                              "cpu-threads [0-9]+, filler-threads [0-9]+ for .+, of at most [0-9]+ "
                                              "threads; memory: arena-bytes 64 MiB, memory-quota [0-9]+ MiB"));
  // The default settings are no reason to warn.
  EXPECT_THAT(server.Log(), Not(HasSubstr("times the memory-quota")));
}

// All of them, those of whatever serves the page among them.
TEST(MetricsPage, NamesAreOursAndTimesAreInSeconds) {
  ServerProcess server({});
  const auto page = client::HttpGet(*client::ParseHttpLocation(server.metrics(), "/metrics"), {});
  ASSERT_TRUE(page.ok()) << page.status();
  int families = 0;
  for (const absl::string_view line : absl::StrSplit(*page, '\n')) {
    absl::string_view name = line;
    if (!absl::ConsumePrefix(&name, "# TYPE ")) continue;
    EXPECT_TRUE(absl::StartsWith(name, "softmax_") || absl::StartsWith(name, "process_")) << line;
    for (const char* unit : {"micro", "milli", "_us", "_ms"}) EXPECT_FALSE(absl::StrContains(name, unit)) << line;
    ++families;
  }
  EXPECT_GT(families, 30);
}

TEST(Signals, TurnTheLogUpAndDown) {
  ServerProcess server({});
  server.Signal(SIGUSR1);
  EXPECT_TRUE(server.LogComesToHave("debug [")) << server.Log();
  EXPECT_TRUE(server.LogComesToHave("log-level is debug now"));
  server.Signal(SIGUSR2);
  EXPECT_TRUE(server.LogComesToHave("log-level is info now"));
  server.Signal(SIGUSR2);
  EXPECT_TRUE(server.LogComesToHave("log-level is warning now"));
  server.Signal(SIGHUP);
  EXPECT_TRUE(Call(server.target(), 1, "").ok());
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(15000), 0);
}

// Whether a connection that has had one call is still open after `wait`.
bool StaysOpen(const Service& service, std::chrono::milliseconds wait) {
  const auto channel = service.NewChannel();
  grpc::ClientContext context;
  v1::GetServerInfoResponse info;
  EXPECT_TRUE(v1::SoftmaxService::NewStub(channel)->GetServerInfo(&context, {}, &info).ok());
  EXPECT_EQ(channel->GetState(false), GRPC_CHANNEL_READY);
  return !channel->WaitForStateChange(GRPC_CHANNEL_READY, std::chrono::system_clock::now() + wait);
}

TEST(Connections, EndByIdlenessOrAgeWhereThatIsSet) {
  EXPECT_TRUE(StaysOpen(Service(), std::chrono::milliseconds(2500)));
  const Service idle([](server::Config& config) { config.max_connection_idle = std::chrono::seconds(1); });
  EXPECT_FALSE(StaysOpen(idle, std::chrono::seconds(30)));
  const Service age([](server::Config& config) { config.max_connection_age = std::chrono::seconds(1); });
  EXPECT_FALSE(StaysOpen(age, std::chrono::seconds(30)));
}

// What a server's own request times cannot show: they begin when its thread has come.
TEST(QueueThreads, SayHowLateAndHowBusyTheyAre) {
  ServerProcess server({"--backend=cpu", "--threads=2"});
  const auto number = [&](const std::string& series) {
    const std::string text = MetricOf(server.metrics(), series);
    return text.empty() ? -1.0 : std::stod(text);
  };
  const auto waits_for = [&](double samples) {
    return Eventually([&] { return number("softmax_queue_thread_lag_seconds_count ") >= samples; });
  };
  EXPECT_TRUE(waits_for(10));
  const double before = number("softmax_queue_thread_lag_seconds_count ");
  const std::string late = R"(softmax_queue_thread_lag_seconds_bucket{le="0.5"} )";
  const double late_before = number("softmax_queue_thread_lag_seconds_count ") - number(late);
  server.StandStill(std::chrono::milliseconds(1200));
  EXPECT_TRUE(waits_for(before + 10));
  EXPECT_GE(number("softmax_queue_thread_lag_seconds_count ") - number(late), late_before + 2);  // both threads
  const double busy = number(R"(softmax_queue_thread_busy_seconds_total{thread="0"} )");
  EXPECT_GE(busy, 0);
  EXPECT_GE(number(R"(softmax_queue_thread_busy_seconds_total{thread="1"} )"), 0);
  const auto client = *client::Client::Create({.target = server.target()});
  const Question question = MakeQuestion({2, 100}, 1);
  for (int i = 0; i < 2000; ++i) EXPECT_TRUE(client->Softmax(question.view()).ok());
  EXPECT_GT(number(R"(softmax_queue_thread_busy_seconds_total{thread="0"} )") +
                number(R"(softmax_queue_thread_busy_seconds_total{thread="1"} )"),
            busy + 0.01);
}

TEST(SlowRequests, AreLoggedWithTheirStagesAndNames) {
  ServerProcess server({"--slow-request=1ns"});
  const std::string trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  ASSERT_TRUE(Call(server.target(), 1, "\" forged=\"1").ok());
  ASSERT_TRUE(Call(server.target(), 4711, trace).ok());
  ASSERT_TRUE(server.LogComesToHave("request_id=4711")) << server.Log();
  EXPECT_THAT(server.Log(), Not(HasSubstr("forged")));
  const std::string log = server.Log();
  const std::string line = log.substr(log.rfind("slow request", log.find("request_id=4711")));
  for (const char* part : {"method=\"Softmax\"", "request_id=4711", "peer=\"127.0.0.1:", "code=0",
                           "total_us=", "queue_us=", "batch_us=", "execution_us=", "batch_rows=1"}) {
    EXPECT_THAT(line, HasSubstr(part));
  }
  EXPECT_THAT(line, HasSubstr("traceparent=\"" + trace + "\""));
}

TEST(SlowRequests, SayWhatWasAskedFor) {
  ServerProcess server({"--slow-request=1ns"});
  client::ClientOptions target;
  target.target = server.target();
  const auto client = std::move(*client::Client::Create(target));
  const Question question = MakeQuestion({3, 8}, 1);
  client::SoftmaxOptions options = question.options();
  ASSERT_TRUE(client->Softmax(question.view(), options).ok());
  EXPECT_TRUE(server.LogComesToHave("answer=\"tensor\"")) << server.Log();
  options.summary.top_k = 3;
  ASSERT_TRUE(client->Softmax(question.view(), options).ok());
  EXPECT_TRUE(server.LogComesToHave("answer=\"summary\"")) << server.Log();
  options.summary.full = true;
  ASSERT_TRUE(client->Softmax(question.view(), options).ok());
  EXPECT_TRUE(server.LogComesToHave("answer=\"tensor+summary\"")) << server.Log();
}

TEST(SlowRequests, DoNotFloodTheLog) {
  ServerProcess server({"--slow-request=1ns"});
  const auto client = *client::Client::Create({.target = server.target()});
  const Question question = MakeQuestion({3}, 1);
  const auto begin = std::chrono::steady_clock::now();
  int calls = 0;
  for (; std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(2500); ++calls) {
    ASSERT_TRUE(client->Softmax(question.view()).ok());
  }
  const std::string log = server.Log();
  int lines = 0;
  for (std::size_t at = log.find("slow request"); at != std::string::npos; at = log.find("slow request", at + 1)) {
    ++lines;
  }
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_GT(lines, 0);
  EXPECT_LE(lines, 10 * (seconds + 2));
  ASSERT_GT(calls, 100);
  EXPECT_THAT(log, HasSubstr("left_out="));
}

}  // namespace
}  // namespace softmax::testing

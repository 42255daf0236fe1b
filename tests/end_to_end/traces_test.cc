// A request's way in its caller's tracing system: what the server sends to a collector.
#include <absl/strings/escaping.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "softmax/v1/softmax.grpc.pb.h"
#include "tests/end_to_end/faulty_service.h"
#include "tests/end_to_end/server_process.h"
#include "tests/end_to_end/service.h"
#include "tests/support/collector.h"
#include "tests/support/eventually.h"
#include "tests/support/loopback.h"
#include "tests/support/run_program.h"
#include "tests/support/sanitized.h"

namespace softmax::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr char kTraceId[] = "0af7651916cd43dd8448eb211c80319c";
constexpr char kTraceBytes[] = "\x0a\xf7\x65\x19\x16\xcd\x43\xdd\x84\x48\xeb\x21\x1c\x80\x31\x9c";
constexpr char kParentBytes[] = "\xb7\xad\x6b\x71\x69\x20\x33\x31";
const std::string kSampled = std::string("00-") + kTraceId + "-b7ad6b7169203331-01";
constexpr char kSoftmaxSpan[] = "softmax.v1.SoftmaxService/Softmax";

std::int64_t RequestsOf(const ServerProcess& server, const std::string& outcome) {
  return NumberOf(server, "softmax_traced_requests_total{outcome=\"" + outcome + "\"} ");
}

std::unique_ptr<client::Client> ClientOf(const ServerProcess& server) {
  client::ClientOptions options;
  options.target = server.target();
  return std::move(*client::Client::Create(options));
}

// Every stage is inside of its request's span, and begins where the one before it ended.
void ExpectNested(const Collector& collector, const Collector::Span& own) {
  std::map<std::string, Collector::Span> stages;
  for (const auto& span : collector.spans()) {
    if (span.parent_span_id() == own.span_id()) stages[span.name()] = span;
  }
  std::uint64_t at = own.start_time_unix_nano();
  for (const char* name : {"queue", "batch", "execution", "answer"}) {
    ASSERT_EQ(stages.count(name), 1u) << name;
    EXPECT_EQ(stages[name].trace_id(), own.trace_id());
    EXPECT_EQ(stages[name].start_time_unix_nano(), at) << name;
    EXPECT_GE(stages[name].end_time_unix_nano(), at) << name;
    at = stages[name].end_time_unix_nano();
  }
  EXPECT_EQ(at, own.end_time_unix_nano());
}

TEST(Traces, ARequestIsASpanOfItsCallersTrace) {
  Collector collector;
  ServerProcess server({"--trace-endpoint=" + collector.url()});
  const auto client = ClientOf(server);
  const Question question = MakeQuestion({2, 100}, 1);
  client::SoftmaxOptions options = question.options();
  options.trace = {kSampled, "congo=t61rcWkgMzE"};
  const auto before = std::chrono::system_clock::now().time_since_epoch().count();
  ASSERT_TRUE(client->Softmax(question.view(), options).ok());
  const auto after = std::chrono::system_clock::now().time_since_epoch().count();
  const auto own = collector.AwaitSpans(kSoftmaxSpan, 1);
  ASSERT_EQ(own.size(), 1u);
  EXPECT_EQ(own[0].trace_id(), std::string(kTraceBytes, 16));
  EXPECT_EQ(own[0].parent_span_id(), std::string(kParentBytes, 8));
  EXPECT_EQ(own[0].trace_state(), "congo=t61rcWkgMzE");
  EXPECT_GE(own[0].start_time_unix_nano(), static_cast<std::uint64_t>(before));
  EXPECT_LE(own[0].end_time_unix_nano(), static_cast<std::uint64_t>(after));
  ExpectNested(collector, own[0]);
  EXPECT_EQ(collector.AwaitSpans("softmax batch", 1).size(), 1u);
  EXPECT_TRUE(Eventually([&] { return RequestsOf(server, "sent") == 1; }));
}

TEST(Traces, WhatIsNotSampledIsNotSent) {
  Collector collector;
  ServerProcess server({"--trace-endpoint=" + collector.url()});
  const auto client = ClientOf(server);
  const Question question = MakeQuestion({2, 100}, 1);
  client::SoftmaxOptions options = question.options();
  ASSERT_TRUE(client->Softmax(question.view(), options).ok());
  options.trace.traceparent = kSampled.substr(0, 53) + "00";
  ASSERT_TRUE(client->Softmax(question.view(), options).ok());
  options.trace.traceparent = kSampled;
  ASSERT_TRUE(client->Softmax(question.view(), options).ok());
  EXPECT_EQ(collector.AwaitSpans(kSoftmaxSpan, 1).size(), 1u);
  EXPECT_EQ(server.Wait(0), -1);
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(20000), 0);
  EXPECT_EQ(collector.AwaitSpans(kSoftmaxSpan, 1).size(), 1u);
}

// What came last leaves before the server does.
TEST(Traces, EveryKindOfRequestIsThere) {
  Collector collector;
  ServerProcess server({"--trace-endpoint=" + collector.url(), "--trace-ratio=1"});
  const auto client = ClientOf(server);
  const Question question = MakeQuestion({2, 100}, 1);
  const client::BatchItem item{question.view(), question.options()};
  for (const auto& answer : client->SoftmaxBatch(std::vector<client::BatchItem>(5, item))) ASSERT_TRUE(answer.ok());
  ASSERT_TRUE(client->GetServerInfo().ok());
  const auto stub =
      v1::SoftmaxService::NewStub(grpc::CreateChannel(server.target(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  v1::SoftmaxResponse answer;
  ASSERT_EQ(stub->Softmax(&context, v1::SoftmaxRequest(), &answer).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  server.Signal(SIGTERM);
  ASSERT_EQ(server.Wait(20000), 0);
  const auto streamed = collector.AwaitSpans("softmax.v1.SoftmaxService/SoftmaxStream", 5);
  ASSERT_EQ(streamed.size(), 5u);
  std::set<std::string> traces;
  for (const auto& span : streamed) {
    traces.insert(span.trace_id());
    ExpectNested(collector, span);
  }
  EXPECT_EQ(traces.size(), 5u);
  EXPECT_GE(collector.AwaitSpans("softmax.v1.SoftmaxService/GetServerInfo", 1).size(), 1u);
  const auto refused = collector.AwaitSpans(kSoftmaxSpan, 1);
  ASSERT_EQ(refused.size(), 1u);
  for (const auto& attribute : refused[0].attributes()) {
    if (attribute.key() == "rpc.grpc.status_code") {
      EXPECT_EQ(attribute.value().int_value(), 3);
    }
  }
  // The caller's mistake is none of the server's.
  EXPECT_EQ(refused[0].status().code(), opentelemetry::proto::trace::v1::Status::STATUS_CODE_UNSET);
}

// The span of a batch is the same for all of its requests.
TEST(Traces, RequestsOfOneBatchAreLinkedToOneSpan) {
  Collector collector;
  ServerProcess server(
      {"--trace-endpoint=" + collector.url(), "--trace-ratio=1", "--threads=1", "--max-queue-delay=50ms"});
  const auto client = ClientOf(server);
  const Question question = MakeQuestion({2, 100}, 1);
  const client::BatchItem item{question.view(), question.options()};
  for (const auto& answer : client->SoftmaxBatch(std::vector<client::BatchItem>(20, item))) ASSERT_TRUE(answer.ok());
  const auto own = collector.AwaitSpans("softmax.v1.SoftmaxService/SoftmaxStream", 20);
  ASSERT_EQ(own.size(), 20u);
  std::set<std::string> batches, linked;
  for (const auto& span : collector.spans()) {
    if (span.name() == "softmax batch") {
      EXPECT_TRUE(batches.insert(span.span_id()).second);
    }
  }
  for (const auto& span : own) linked.insert(span.links(0).span_id());
  EXPECT_EQ(linked, batches);
  EXPECT_LT(batches.size(), own.size());
}

// Every way to call takes a trace along, and refuses what is none before it sends.
TEST(Traces, ClientsPassAContextOn) {
  Collector collector;
  ServerProcess server({"--trace-endpoint=" + collector.url()});
  const auto client = ClientOf(server);
  const Question question = MakeQuestion({2, 100}, 1);
  const client::BatchItem item{question.view(), question.options()};
  std::vector<std::byte> output(question.data.size());
  const auto call_in_every_way = [&](const client::TraceContext& trace) {
    client::SoftmaxOptions options = question.options();
    options.trace = trace;
    std::vector<absl::StatusCode> codes = {client->Softmax(question.view(), options).status().code(),
                                           client->SoftmaxInto(question.view(), output, options).code(),
                                           client->SoftmaxFuture(question.view(), options).get().status().code()};
    client::BatchOptions batch;
    batch.trace = trace;
    codes.push_back(client->SoftmaxBatch({&item, 1}, batch)[0].status().code());
    client::StreamOptions stream_options;
    stream_options.trace = trace;
    auto stream = client->OpenStream(stream_options, [](std::uint64_t, absl::StatusOr<client::Tensor>) {});
    codes.push_back(stream.status().code());
    if (stream.ok()) codes.back() = (*stream)->Send(1, question.view(), question.options()).code();
    if (stream.ok()) codes.back() = (*stream)->Finish().code();
    return codes;
  };
  EXPECT_THAT(call_in_every_way({kSampled, "a=1"}), Each(absl::StatusCode::kOk));
  EXPECT_EQ(collector.AwaitSpans(kSoftmaxSpan, 3).size(), 3u);
  EXPECT_EQ(collector.AwaitSpans("softmax.v1.SoftmaxService/SoftmaxStream", 2).size(), 2u);
  for (const auto& span : collector.spans()) {
    if (span.name() != "softmax batch") {
      EXPECT_EQ(span.trace_id(), std::string(kTraceBytes, 16)) << span.name();
    }
  }
  for (const client::TraceContext& bad :
       {client::TraceContext{"00-" + std::string(32, '0') + "-b7ad6b7169203331-01", ""},
        client::TraceContext{kSampled + "-more", ""}, client::TraceContext{kSampled, "a=\n"}}) {
    EXPECT_THAT(call_in_every_way(bad), Each(absl::StatusCode::kInvalidArgument)) << bad.traceparent;
  }
}

TEST(Traces, TheCommandLineClientBeginsOne) {
  Collector collector;
  ServerProcess server({"--trace-endpoint=" + collector.url()});
  const auto result = client::RunProgram(SOFTMAX_CLIENT, {"--address", server.target(), "--trace"}, "1 2 3\n");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto own = collector.AwaitSpans(kSoftmaxSpan, 1);
  ASSERT_EQ(own.size(), 1u);
  EXPECT_THAT(result.err, HasSubstr("trace " + absl::BytesToHexString(own[0].trace_id())));
}

// A collector may do what it likes: no call is lost, every request is counted, and nothing piles up.
class TracesWithABadCollector : public ::testing::Test {
 protected:
  // For $SOFTMAX_TEST_SECONDS, or once.
  void Load(const std::string& url) {
    const char* const text = std::getenv("SOFTMAX_TEST_SECONDS");
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(text == nullptr ? 0 : std::atoi(text));
    ServerProcess server({"--trace-endpoint=" + url, "--trace-ratio=1", "--threads=1"});
    const auto client = ClientOf(server);
    const Question question = MakeQuestion({2, 100}, 1);
    const client::BatchItem item{question.view(), question.options()};
    const std::vector<client::BatchItem> items(500, item);
    std::int64_t calls = 0;
    std::int64_t bytes = 0;
    do {
      for (int i = 0; i < 6; ++i, calls += 500) {
        for (const auto& answer : client->SoftmaxBatch(items)) ASSERT_TRUE(answer.ok()) << answer.status();
      }
      if (bytes == 0) bytes = server.ResidentBytes();
    } while (std::chrono::steady_clock::now() < end);
    const auto counted = [&] {
      return RequestsOf(server, "sent") + RequestsOf(server, "queue_full") + RequestsOf(server, "failed");
    };
    EXPECT_TRUE(Eventually([&] { return counted() == calls; })) << counted() << " of " << calls;
    EXPECT_EQ(RequestsOf(server, "sent"), 0);
    if (!kIsSanitized) {
      EXPECT_LT(server.PeakResidentBytes() - bytes, 64 << 20);
    }
    std::cout << calls << " calls; of them failed " << RequestsOf(server, "failed") << "; memory from " << (bytes >> 20)
              << " to at most " << (server.PeakResidentBytes() >> 20) << " MiB\n";
    server.Signal(SIGTERM);
    EXPECT_EQ(server.Wait(20000), 0);
  }

 public:
  // The server inherits it.
  static void SetUpTestSuite() { setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "300", 1); }
  static void TearDownTestSuite() { unsetenv("OTEL_EXPORTER_OTLP_TIMEOUT"); }
};

TEST_F(TracesWithABadCollector, Absent) {
  const int port = Collector().port();
  Load("http://127.0.0.1:" + std::to_string(port));
}

TEST_F(TracesWithABadCollector, ThatRefuses) {
  Collector collector([](Collector::Response*) { return grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "no"); });
  Load(collector.url());
  EXPECT_GT(collector.attempts(), 0);
}

TEST_F(TracesWithABadCollector, ThatClosesConnections) {
  const int listener = StreamSocket();
  const int port = BindToLoopback(listener);
  ASSERT_EQ(listen(listener, 10), 0);
  std::atomic<int> closed{0};
  std::thread closer([&] {
    for (int fd; (fd = accept(listener, nullptr, nullptr)) >= 0; ++closed) close(fd);
  });
  Load("http://127.0.0.1:" + std::to_string(port));
  EXPECT_GT(closed, 0);
  shutdown(listener, SHUT_RDWR);
  closer.join();
  close(listener);
}

TEST_F(TracesWithABadCollector, ThatHangs) {
  std::atomic<bool> hangs{true};
  Collector collector([&](Collector::Response*) {
    Eventually([&] { return !hangs; });
    return grpc::Status::OK;
  });
  Load(collector.url());
  hangs = false;
}

}  // namespace
}  // namespace softmax::testing

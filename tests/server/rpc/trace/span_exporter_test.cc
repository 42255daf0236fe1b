#include "server/rpc/trace/span_exporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "tests/support/collector.h"
#include "tests/support/eventually.h"

namespace softmax::server {
namespace {

using softmax::testing::Collector;
using softmax::testing::Eventually;
using std::chrono::milliseconds;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

constexpr char kParent[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

SpanExporter::Options OptionsFor(const std::string& target, double ratio = 1) {
  return {.target = target,
          .headers = {{"x-key", "secret"}},
          .timeout = milliseconds(500),
          .ratio = ratio,
          .resource = {{"service.name", "under test"}},
          .version = "1.2.3"};
}

// Of a request that ran: 1 ms in the queue, 2 in its batch, 3 until its answer was seen.
struct Ran {
  explicit Ran(TimePoint launched_at = SteadyClock::now() - milliseconds(10)) {
    answer.ran = true;
    answer.queue = milliseconds(1);
    answer.batch = milliseconds(2);
    answer.execution = milliseconds(3);
    answer.batch_rows = 7;
    answer.launched = launched_at;
    sample.arrived = answer.launched - answer.queue - answer.batch;
    sample.ran = true;
    sample.queue = answer.queue;
    sample.batch = answer.batch;
  }
  RequestSample sample;
  Answer answer;
};

std::uint64_t CountOf(const SpanExporter& exporter, const std::string& wanted) {
  for (const auto& [outcome, count] : exporter.Outcomes()) {
    if (outcome == wanted) return static_cast<std::uint64_t>(count);
  }
  return ~0ull;
}

bool RecordOne(SpanQueue* queue, const Ran& ran, const std::string& traceparent = kParent) {
  TraceContext parent;
  if (!queue->Takes(traceparent, &parent)) return false;
  queue->Record(parent, "a=1", "127.0.0.1:77", ran.sample, /*request_id=*/5, &ran.answer);
  return true;
}

std::map<std::string, std::string> AttributesOf(const Collector::Span& span) {
  std::map<std::string, std::string> attributes;
  for (const auto& attribute : span.attributes()) {
    const auto& value = attribute.value();
    attributes[attribute.key()] = value.has_int_value() ? std::to_string(value.int_value()) : value.string_value();
  }
  return attributes;
}

TEST(SpanExporter, SendsARequestWithItsStagesAndItsBatch) {
  Collector collector;
  SpanExporter exporter(OptionsFor(collector.target()));
  SpanQueue* const queue = exporter.AddQueue();
  const Ran ran;
  ASSERT_TRUE(RecordOne(queue, ran));
  ASSERT_TRUE(RecordOne(queue, ran));  // of the same batch
  const auto own = collector.AwaitSpans("softmax.v1.SoftmaxService/Softmax", 2);
  ASSERT_EQ(own.size(), 2u);
  EXPECT_EQ(own[0].trace_id(), std::string("\x0a\xf7\x65\x19\x16\xcd\x43\xdd\x84\x48\xeb\x21\x1c\x80\x31\x9c", 16));
  EXPECT_EQ(own[0].parent_span_id(), std::string("\xb7\xad\x6b\x71\x69\x20\x33\x31", 8));
  EXPECT_NE(own[0].span_id(), own[1].span_id());
  EXPECT_EQ(own[0].trace_state(), "a=1");
  EXPECT_EQ(own[0].kind(), Collector::Span::SPAN_KIND_SERVER);
  EXPECT_EQ(own[0].flags(), 0x301u);
  EXPECT_THAT(AttributesOf(own[0]),
              UnorderedElementsAre(Pair("rpc.system", "grpc"), Pair("rpc.service", "softmax.v1.SoftmaxService"),
                                   Pair("rpc.method", "Softmax"), Pair("rpc.grpc.status_code", "0"),
                                   Pair("network.peer.address", "127.0.0.1"), Pair("network.peer.port", "77"),
                                   Pair("softmax.request.id", "5")));
  std::uint64_t at = own[0].start_time_unix_nano();
  std::set<std::string> ids = {own[0].span_id()};
  for (const char* name : {"queue", "batch", "execution", "answer"}) {
    for (const auto& stage : collector.AwaitSpans(name, 2)) {
      if (stage.parent_span_id() != own[0].span_id()) continue;
      EXPECT_EQ(stage.trace_id(), own[0].trace_id());
      EXPECT_EQ(stage.start_time_unix_nano(), at) << name;
      at = stage.end_time_unix_nano();
      EXPECT_TRUE(ids.insert(stage.span_id()).second);
    }
  }
  EXPECT_EQ(ids.size(), 5u);
  EXPECT_EQ(at, own[0].end_time_unix_nano());
  const auto executions = collector.AwaitSpans("execution", 2);
  EXPECT_EQ(executions[0].end_time_unix_nano() - executions[0].start_time_unix_nano(), 3'000'000u);
  const auto batches = collector.AwaitSpans("softmax batch", 1);
  ASSERT_EQ(batches.size(), 1u);
  EXPECT_THAT(AttributesOf(batches[0]), ElementsAre(Pair("softmax.batch.rows", "7")));
  for (const auto& span : {own[0], own[1], executions[0], executions[1]}) {
    ASSERT_EQ(span.links_size(), 1);
    EXPECT_EQ(span.links(0).trace_id(), batches[0].trace_id());
    EXPECT_EQ(span.links(0).span_id(), batches[0].span_id());
  }
  const auto sent = collector.requests()[0].resource_spans(0);
  EXPECT_EQ(sent.resource().attributes(0).value().string_value(), "under test");
  EXPECT_EQ(sent.scope_spans(0).scope().version(), "1.2.3");
  EXPECT_THAT(collector.headers(), Contains(Pair("x-key", "secret")));
  EXPECT_TRUE(Eventually([&] { return CountOf(exporter, "sent") == 2; }));
}

TEST(SpanExporter, SamplesAsTheCallerDidAndElseByTheRatio) {
  SpanQueue none(0);
  SpanQueue tenth(0.1);
  SpanQueue all(1);
  std::string unsampled = kParent;
  unsampled.back() = '0';
  TraceContext parent;
  int sampled = 0;
  for (int i = 0; i < 10000; ++i) sampled += tenth.Takes("", &parent) ? 1 : 0;
  EXPECT_NEAR(sampled, 1000, 150);  // five standard deviations
  EXPECT_TRUE(none.Takes(kParent, &parent));
  EXPECT_FALSE(none.Takes("", &parent));
  EXPECT_FALSE(all.Takes(unsampled, &parent));
  TraceContext root;
  EXPECT_TRUE(all.Takes("00-" + std::string(32, '0') + "-b7ad6b7169203331-00", &root));
  EXPECT_EQ(root.place.trace_id, TraceId{});
}

TEST(SpanExporter, ATraceThatBeginsHereHasNoParent) {
  Collector collector;
  SpanExporter exporter(OptionsFor(collector.target()));
  ASSERT_TRUE(RecordOne(exporter.AddQueue(), Ran(), ""));
  const auto own = collector.AwaitSpans("softmax.v1.SoftmaxService/Softmax", 1);
  ASSERT_EQ(own.size(), 1u);
  EXPECT_EQ(own[0].parent_span_id(), "");
  EXPECT_EQ(own[0].trace_state(), "");
  EXPECT_EQ(own[0].trace_id().size(), 16u);
  EXPECT_EQ(own[0].flags(), 0x101u);
}

// Longest times of several tensors reach beyond the request's end.
TEST(SpanExporter, SpansNestWhateverTheTimesSay) {
  Collector collector;
  SpanExporter exporter(OptionsFor(collector.target()));
  Ran ran(SteadyClock::now());
  ran.answer.execution = std::chrono::hours(1);
  ran.sample.code = 4;  // DEADLINE_EXCEEDED
  ASSERT_TRUE(RecordOne(exporter.AddQueue(), ran));
  const auto own = collector.AwaitSpans("softmax.v1.SoftmaxService/Softmax", 1);
  ASSERT_EQ(own.size(), 1u);
  EXPECT_EQ(own[0].status().code(), opentelemetry::proto::trace::v1::Status::STATUS_CODE_ERROR);
  for (const auto& span : collector.spans()) {
    EXPECT_LE(span.start_time_unix_nano(), span.end_time_unix_nano()) << span.name();
    EXPECT_LE(span.end_time_unix_nano(), own[0].end_time_unix_nano()) << span.name();
  }
}

TEST(SpanExporter, TriesAgainWhereTheCollectorIsAway) {
  std::atomic<int> refusals{2};
  Collector collector([&](Collector::Response*) {
    return refusals-- > 0 ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "away") : grpc::Status::OK;
  });
  auto options = OptionsFor(collector.target());
  options.timeout = std::chrono::minutes(1);
  SpanExporter exporter(options);
  ASSERT_TRUE(RecordOne(exporter.AddQueue(), Ran()));
  EXPECT_TRUE(Eventually([&] { return CountOf(exporter, "sent") == 1; }));
  EXPECT_EQ(collector.attempts(), 3);
  EXPECT_EQ(CountOf(exporter, "failed"), 0u);
}

TEST(SpanExporter, CountsWhatIsRefusedAndWhatIsNotKept) {
  std::atomic<bool> refuses{true};
  Collector collector([&](Collector::Response* response) {
    if (refuses) return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "no");
    response->mutable_partial_success()->set_rejected_spans(3);
    return grpc::Status::OK;
  });
  SpanExporter exporter(OptionsFor(collector.target()));
  SpanQueue* const queue = exporter.AddQueue();
  ASSERT_TRUE(RecordOne(queue, Ran()));
  EXPECT_TRUE(Eventually([&] { return CountOf(exporter, "failed") == 1; }));
  EXPECT_EQ(collector.attempts(), 1);
  refuses = false;
  ASSERT_TRUE(RecordOne(queue, Ran()));
  EXPECT_TRUE(Eventually([&] { return exporter.rejected_spans() == 3; }));
  EXPECT_EQ(CountOf(exporter, "sent"), 1u);
}

// Before anything is done for the request.
TEST(SpanExporter, WhatFindsNoRoomIsNotTaken) {
  SpanQueue queue(1);
  for (std::size_t i = 0; i < SpanQueue::kCapacity; ++i) ASSERT_TRUE(RecordOne(&queue, Ran()));
  TraceContext parent;
  EXPECT_FALSE(queue.Takes(kParent, &parent));
  EXPECT_EQ(queue.dropped(), 1u);
  std::vector<TracedRequest> taken;
  queue.Take(&taken);
  EXPECT_EQ(taken.size(), SpanQueue::kCapacity);
  EXPECT_TRUE(queue.Takes(kParent, &parent));
}

// Every request is counted once, however long the collector takes, and none waits.
TEST(SpanExporter, AQueueThatIsFullDropsAndCounts) {
  std::atomic<bool> hangs{true};
  Collector collector([&](Collector::Response*) {
    Eventually([&] { return !hangs; });
    return grpc::Status::OK;
  });
  constexpr std::uint64_t kRequests = 4 * SpanQueue::kCapacity;
  auto options = OptionsFor(collector.target());
  options.timeout = std::chrono::minutes(1);
  SpanExporter exporter(options);
  SpanQueue* const queue = exporter.AddQueue();
  for (std::uint64_t i = 0; i < kRequests; ++i) RecordOne(queue, Ran());
  EXPECT_GE(CountOf(exporter, "queue_full"), kRequests - 2 * SpanQueue::kCapacity);
  hangs = false;
  EXPECT_TRUE(Eventually([&] { return CountOf(exporter, "sent") + CountOf(exporter, "queue_full") == kRequests; }));
}

TEST(SpanExporter, EndsSoonWithACollectorThatHangsAndSendsTheRestToOneThatDoesNot) {
  std::atomic<bool> hangs{true};
  Collector hanging([&](Collector::Response*) {
    Eventually([&] { return !hangs; });
    return grpc::Status::OK;
  });
  auto options = OptionsFor(hanging.target());
  options.timeout = std::chrono::minutes(1);
  auto exporter = std::make_unique<SpanExporter>(options);
  RecordOne(exporter->AddQueue(), Ran());
  ASSERT_TRUE(Eventually([&] { return hanging.attempts() > 0; }));
  const TimePoint begin = SteadyClock::now();
  exporter.reset();
  EXPECT_LT(SteadyClock::now() - begin, std::chrono::seconds(10));
  hangs = false;

  Collector collector;
  exporter = std::make_unique<SpanExporter>(OptionsFor(collector.target()));
  RecordOne(exporter->AddQueue(), Ran());
  exporter.reset();
  EXPECT_EQ(collector.spans().size(), 6u);
}

}  // namespace
}  // namespace softmax::server

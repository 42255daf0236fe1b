#include "server/app/component_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "server/config/fields.h"

namespace softmax::server {
namespace {

using std::chrono::milliseconds;
using Names = std::set<std::string>;

// Sets the one flag of this name to a value that is not its default; notes the names of all.
class SetOne {
 public:
  explicit SetOne(std::string name) : name_(std::move(name)) {}
  void operator()(FieldText text, std::vector<std::string>& value) { Set(text, value, {"127.0.0.1:1"}); }
  void operator()(FieldText text, std::string& value) { Set(text, value, "127.0.0.1:1"); }
  void operator()(FieldText text, std::string& value, Word) {
    Set(text, value, IsTesting(text) ? "devices:2" : "0642");
  }
  void operator()(FieldText text, std::string& value, const Choices& of) {
    Set(text, value, value == of.front() ? of.back() : of.front());
  }
  void operator()(FieldText text, std::vector<std::uint32_t>& value) { Set(text, value, {3}); }
  void operator()(FieldText text, Backend& value) { Set(text, value, Backend::kNull); }
  void operator()(FieldText text, std::uint64_t& value, CountRange range) {
    Set(text, value, value + 201 <= range.max ? value + 201 : value - 1);
  }
  void operator()(FieldText text, std::uint64_t& value, SizeInBytes) { Set(text, value, value + 1001); }
  void operator()(FieldText text, Config::Duration& value) { Set(text, value, value + milliseconds(1234)); }
  void operator()(FieldText text, bool& value) { Set(text, value, !value); }

  Names names;

 private:
  template <typename T>
  void Set(FieldText text, T& value, std::type_identity_t<T> other) {
    names.insert(text.name);
    if (name_ == text.name) value = std::move(other);
  }

  const std::string name_;
};

// Everything that the parts are told, by name. Duration and Backend as numbers.
std::map<std::string, std::string> Told(const Config& config) {
  std::map<std::string, std::string> told;
  const auto note = [&told](const std::string& name, auto value) {
    std::ostringstream text;
    if constexpr (requires { value.count(); }) {
      text << value.count();
    } else if constexpr (std::is_enum_v<decltype(value)>) {
      text << static_cast<int>(value);
    } else {
      text << value;
    }
    told[name] = text.str();
  };
  const WireLimits wire = WireLimitsFor(config);
  note("wire.request", wire.max_request_bytes);
  note("wire.response", wire.max_response_bytes);
  note("wire.rank", wire.max_rank);
  note("wire.rows", wire.max_rows);
  note("wire.columns", wire.max_columns);
  note("wire.top_k", wire.max_top_k);
  note("wire.requests", wire.max_requests_per_stream_message);
  note("wire.message", wire.max_message_bytes);
  note("wire.files", wire.has_files);
  const ExecutorOptions executor = ExecutorOptionsFor(config);
  note("executor.backend", executor.backend);
  note("executor.devices", executor.devices.size());
  note("executor.cpu_threads", executor.cpu_threads);
  note("executor.arena", executor.arena_bytes);
  note("executor.receive", executor.receive_bytes);
  note("executor.in_flight", executor.max_in_flight);
  note("executor.requests", executor.max_batch_requests);
  note("executor.input", executor.max_input_bytes);
  const DeviceGroup::Options devices = DeviceGroupOptionsFor(config);
  note("devices.timeout", devices.batch_timeout);
  note("devices.degraded", devices.degraded_limit);
  note("devices.arena", devices.arena_bytes);
  note("devices.request", devices.largest_request_bytes);
  const Backlog::Options backlog = BacklogOptionsFor(config);
  note("backlog.threads", backlog.threads);
  note("backlog.requests", backlog.max_requests);
  note("backlog.bytes", backlog.max_bytes);
  note("backlog.wait", backlog.max_wait);
  note("threads.queues", QueueThreadsFor(config));
  note("threads.all", ThreadsFor(config));
  const ChannelSettings channel = ChannelSettingsFor(config);
  note("channel.streams", channel.max_concurrent_streams);
  note("channel.keepalive", channel.keepalive_time_ms);
  note("channel.keepalive_timeout", channel.keepalive_timeout_ms);
  note("channel.ping", channel.min_ping_interval_ms);
  note("channel.idle", channel.max_connection_idle_ms);
  note("channel.age", channel.max_connection_age_ms);
  note("channel.grace", channel.max_connection_age_grace_ms);
  const QueueThread::Options queue = QueueThreadOptionsFor(config, 0, Prices());
  note("batcher.bytes", queue.batcher.batch.bytes);
  note("batcher.requests", queue.batcher.batch.requests);
  note("batcher.in_flight", queue.batcher.max_in_flight);
  note("batcher.delay", queue.batcher.max_queue_delay);
  note("batcher.gather", queue.batcher.gather_bytes);
  note("admission.requests", queue.admission.requests);
  note("admission.in_flight", queue.admission.in_flight_bytes);
  note("admission.unread", queue.admission.unread_bytes);
  note("queue.waiting_calls", queue.most_waiting_calls);
  const Connections::Options connections = ConnectionsOptionsFor(config);
  note("connections.unread", connections.max_unread_bytes);
  note("connections.unread_all", connections.max_unread_bytes_all);
  note("connections.answer", connections.answer_timeout);
  const auto regions = RegionServerOptionsFor(config, /*devices=*/1);
  EXPECT_TRUE(regions.ok()) << regions.status();
  note("regions.socket", regions->socket);
  note("regions.mode", regions->mode);
  note("regions.uid", regions->uids->front());
  note("regions.connections", regions->connections);
  note("regions.all", regions->host.all);
  note("regions.connection", regions->host.connection);
  note("regions.device_all", regions->device.all);
  note("regions.device_connection", regions->device.connection);
  note("regions.queue_threads", regions->queue_threads);
  const auto acceptor = AcceptorOptionsFor(config);
  EXPECT_TRUE(acceptor.ok()) << acceptor.status();
  note("acceptor.mode", acceptor->unix_socket_mode);
  std::string places;
  for (const auto& place : acceptor->places) places += place.address + ">" + std::to_string(place.destination) + " ";
  note("acceptor.places", places);
  return told;
}

// Whatever a flag is for, by the names above. Flags that the parts are told of in other ways stand below.
const std::map<std::string, Names> kTold = {
    {"address", {"acceptor.places"}},
    {"health-address", {"acceptor.places"}},
    {"tls-cert", {"acceptor.places"}},
    {"unix-socket-mode", {"acceptor.mode", "regions.mode"}},
    {"oip-shared-memory", {"wire.files"}},
    {"regions-socket", {"regions.socket", "threads.all", "executor.input"}},
    {"regions-uids", {"regions.uid"}},
    {"regions-connections", {"regions.connections"}},
    {"regions-bytes", {"regions.all", "regions.connection"}},
    {"regions-connection-bytes", {"regions.connection"}},
    {"regions-device-bytes", {"regions.device_all", "regions.device_connection"}},
    {"regions-device-connection-bytes", {"regions.device_connection"}},
    {"keepalive-time", {"channel.keepalive"}},
    {"keepalive-timeout", {"channel.keepalive_timeout"}},
    {"min-ping-interval", {"channel.ping"}},
    {"backend", {"executor.backend"}},
    {"devices", {"executor.devices"}},
    {"threads", {"threads.queues", "threads.all", "regions.queue_threads"}},
    {"cpu-threads", {"executor.cpu_threads", "threads.all"}},
    {"filler-threads", {"backlog.threads", "threads.all"}},
    {"max-in-flight-batches", {"executor.in_flight", "batcher.in_flight"}},
    {"max-batch-bytes", {"batcher.bytes"}},
    {"max-batch-requests", {"executor.requests", "batcher.requests"}},
    {"max-queue-delay", {"batcher.delay"}},
    {"max-request-bytes", {"wire.request", "wire.message", "executor.input", "devices.request"}},
    {"max-response-bytes", {"wire.response", "devices.request"}},
    {"max-rank", {"wire.rank"}},
    {"max-rows", {"wire.rows"}},
    {"max-columns", {"wire.columns"}},
    {"max-top-k", {"wire.top_k"}},
    {"max-requests-per-stream-message", {"wire.requests"}},
    {"max-batched-per-connection", {"admission.requests"}},
    {"max-in-flight-bytes-per-connection", {"admission.in_flight"}},
    {"max-concurrent-streams", {"channel.streams", "queue.waiting_calls"}},
    {"max-connection-idle", {"channel.idle"}},
    {"max-connection-age", {"channel.age"}},
    {"max-queued-requests", {"backlog.requests"}},
    {"max-queued-bytes", {"backlog.bytes"}},
    {"arena-bytes", {"executor.arena", "devices.arena"}},
    {"receive-bytes", {"executor.receive"}},
    {"gather-bytes", {"batcher.gather"}},
    {"max-unread-bytes-per-connection", {"admission.unread", "connections.unread"}},
    {"max-unread-bytes", {"connections.unread_all"}},
    {"memory-quota", {"admission.in_flight"}},
    {"answer-timeout", {"connections.answer", "backlog.wait"}},
    {"device-timeout", {"devices.timeout", "backlog.wait"}},
    {"degraded-limit", {"devices.degraded"}},
    {"drain-timeout", {"channel.grace"}},
};
// Read from the configuration itself, by the server, its main or what GetServerInfo tells; and by SetGuardLimits.
const Names kElsewhere = {"config",         "reflection",      "tls-key",           "tls-client-ca",
                          "token-file",     "poller",          "max-connections",   "max-in-flight-per-stream",
                          "slab-bytes",     "metrics-address", "log-level",         "log-format",
                          "drain-delay",    "slow-request",    "trace-endpoint",    "trace-ratio",
                          "unsafe-testing", "fault",           "max-waiting-calls", "first-message-timeout"};

TEST(ComponentOptions, EveryFlagReachesThePartsThatItIsForAndNoOther) {
  Config config;
  SetOne none("");
  VisitConfig(config, none);
  const auto before = Told(config);
  for (const std::string& name : none.names) {
    Config other;
    SetOne one(name);
    VisitConfig(other, one);
    Names changed;
    for (const auto& [part, value] : Told(other)) {
      if (value != before.at(part)) changed.insert(part);
    }
    const auto told = kTold.find(name);
    EXPECT_EQ(told == kTold.end(), kElsewhere.contains(name)) << name << " stands in none of the lists, or in both";
    EXPECT_EQ(changed, told == kTold.end() ? Names() : told->second) << name;
  }
  for (const auto& [name, parts] : kTold) EXPECT_TRUE(none.names.contains(name)) << name << " is no flag";
}

TEST(ComponentOptions, SpansGoWhereTheFlagsSay) {
  Config config;
  EXPECT_EQ(SpanExporterOptionsFor(config)->target, "");
  const std::size_t threads = ThreadsFor(config);
  config.trace_endpoint = "http://collector:1234";
  config.trace_ratio = "0.25";
  EXPECT_EQ(SpanExporterOptionsFor(config)->target, "collector:1234");
  EXPECT_EQ(SpanExporterOptionsFor(config)->ratio, 0.25);
  EXPECT_EQ(ThreadsFor(config), threads + 1);
  config.regions_socket = "/tmp/regions";
  EXPECT_EQ(ThreadsFor(config), threads + 2);
}

TEST(ComponentOptions, DevicesHaveRoomForTheLargestRequestAndItsAnswer) {
  Config config;
  config.max_request_bytes = 1001;
  config.max_response_bytes = 2003;
  EXPECT_EQ(DeviceGroupOptionsFor(config).largest_request_bytes, 3004u);
}

TEST(ComponentOptions, RequestsWaitForMemoryAsLongAsADeviceAndItsAnswersMayHoldIt) {
  Config config;
  config.device_timeout = milliseconds(3456);
  config.answer_timeout = milliseconds(1000);
  EXPECT_EQ(BacklogOptionsFor(config).max_wait, milliseconds(5456));
  config.device_timeout = milliseconds(0);  // never
  EXPECT_EQ(BacklogOptionsFor(config).max_wait, Config().device_timeout + milliseconds(2000));
}

TEST(ComponentOptions, BatchesOfEitherSizeFitIntoTheExecutor) {
  Config config;
  config.max_request_bytes = 1001;
  config.max_batch_bytes = 2003;
  EXPECT_EQ(ExecutorOptionsFor(config).max_input_bytes, 2003u);
  config.max_batch_bytes = 7;
  EXPECT_EQ(ExecutorOptionsFor(config).max_input_bytes, 1001u);
}

TEST(ComponentOptions, WithoutMemoryThatMessagesArriveInNothingIsReadThere) {
  Config config;
  config.receive_bytes = 0;
  EXPECT_EQ(QueueThreadOptionsFor(config, 0, Prices()).batcher.gather_bytes, 0u);
}

}  // namespace
}  // namespace softmax::server

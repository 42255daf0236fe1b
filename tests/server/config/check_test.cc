#include "server/config/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

namespace softmax::server {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;
using testing::HasSubstr;

constexpr std::uint64_t kManyFiles = 1 << 20;

struct Contradiction {
  std::function<void(Config&)> change;
  std::vector<std::string> words;  // flags and values that the message must name
};

void ExpectRefused(const std::vector<Contradiction>& cases) {
  for (const Contradiction& refused : cases) {
    SCOPED_TRACE(refused.words.front());
    Config config;
    refused.change(config);
    const absl::Status status = CheckConfig(config, kManyFiles);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    for (const std::string& word : refused.words) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(word));
    }
  }
}

TEST(CheckConfig, TakesTheDefaults) { EXPECT_EQ(CheckConfig(Config(), kManyFiles), absl::OkStatus()); }

TEST(CheckConfig, RefusesMemoryThatContradictsItself) {
  ExpectRefused({
      {[](Config& c) { c.arena_bytes = 64 << 20; }, {"--max-request-bytes=64MiB", "half", "--arena-bytes=64MiB"}},
      {[](Config& c) { c.max_response_bytes = 257 << 20; },
       {"--max-response-bytes=257MiB", "half", "--arena-bytes=512MiB"}},
      {[](Config& c) { c.max_batch_bytes = 257 << 20; }, {"--max-batch-bytes=257MiB", "half", "--arena-bytes=512MiB"}},
      {[](Config& c) { c.arena_bytes = (512 << 20) + 1; },
       {"--arena-bytes=536870913", "whole number of slabs", "--slab-bytes=64KiB"}},
      {[](Config& c) { c.slab_bytes = 3 << 16; }, {"--slab-bytes=192KiB", "power of two"}},
      {[](Config& c) { c.slab_bytes = 2048; }, {"--slab-bytes=2KiB", "4KiB"}},
      {[](Config& c) { c.memory_quota = 32 << 20; }, {"--max-request-bytes=64MiB", "--memory-quota=32MiB"}},
      {[](Config& c) {
         c.memory_quota = 64 << 20;
         c.max_response_bytes = 65 << 20;
       },
       {"--max-response-bytes=65MiB", "--memory-quota=64MiB"}},
      {[](Config& c) { c.max_queued_bytes = 1 << 20; }, {"--max-request-bytes=64MiB", "--max-queued-bytes=1MiB"}},
      {[](Config& c) { c.max_in_flight_bytes_per_connection = 1 << 20; },
       {"--max-request-bytes=64MiB", "--max-in-flight-bytes-per-connection=1MiB"}},
      {[](Config& c) { c.max_unread_bytes = 1 << 20; }, {"--max-response-bytes=64MiB", "--max-unread-bytes=1MiB"}},
      {[](Config& c) { c.max_unread_bytes_per_connection = 1ull << 30; },
       {"--max-unread-bytes-per-connection=1GiB", "--arena-bytes=512MiB"}},
      {[](Config& c) {
         c.arena_bytes = 16ull << 30;
         c.memory_quota = 16ull << 30;
         c.max_request_bytes = 2ull << 30;
       },
       {"--max-request-bytes=2GiB", "gRPC carries at most"}},
  });
}

TEST(CheckConfig, TakesSlabsOfAPage) {
  Config config;
  config.slab_bytes = 4096;
  EXPECT_EQ(CheckConfig(config, kManyFiles), absl::OkStatus());
}

TEST(CheckConfig, TakesARequestOfExactlyHalfTheArena) {
  Config config;
  config.arena_bytes = 128 << 20;
  EXPECT_EQ(CheckConfig(config, kManyFiles), absl::OkStatus());
  config.max_request_bytes += 1;
  EXPECT_FALSE(CheckConfig(config, kManyFiles).ok());
}

TEST(CheckConfig, RefusesZeroWhereSomethingIsNeeded) {
  const std::pair<const char*, std::uint64_t Config::*> fields[] = {
      {"--max-batch-bytes=0", &Config::max_batch_bytes},
      {"--max-request-bytes=0", &Config::max_request_bytes},
      {"--max-response-bytes=0", &Config::max_response_bytes},
      {"--max-queued-bytes=0", &Config::max_queued_bytes},
      {"--arena-bytes=0", &Config::arena_bytes},
      {"--slab-bytes=0", &Config::slab_bytes},
      {"--max-unread-bytes-per-connection=0", &Config::max_unread_bytes_per_connection},
      {"--max-unread-bytes=0", &Config::max_unread_bytes},
      {"--memory-quota=0", &Config::memory_quota},
  };
  for (const auto& [text, field] : fields) {
    ExpectRefused({{[field = field](Config& c) { c.*field = 0; }, {text, "above 0"}}});
  }
}

TEST(CheckConfig, RefusesTimesOutOfRange) {
  ExpectRefused({
      {[](Config& c) { c.answer_timeout = {}; }, {"--answer-timeout=0s"}},
      {[](Config& c) { c.first_message_timeout = {}; }, {"--first-message-timeout=0s"}},
      {[](Config& c) { c.drain_timeout = nanoseconds(5); }, {"--drain-timeout=5ns"}},
      {[](Config& c) { c.keepalive_time = {}; }, {"--keepalive-time=0s"}},
      {[](Config& c) { c.keepalive_timeout = {}; }, {"--keepalive-timeout=0s"}},
      {[](Config& c) { c.max_queue_delay = seconds(2); }, {"--max-queue-delay=2s"}},
  });
}

TEST(CheckConfig, TakesTimesAtTheEndsOfTheirRanges) {
  Config config;
  config.answer_timeout = config.first_message_timeout = config.drain_timeout = config.keepalive_time =
      config.keepalive_timeout = config.min_ping_interval = std::chrono::milliseconds(1);
  config.max_connection_idle = config.max_connection_age = config.device_timeout = config.max_queue_delay = seconds(1);
  EXPECT_EQ(CheckConfig(config, kManyFiles), absl::OkStatus());
}

TEST(CheckConfig, RefusesMoreConnectionsThanFiles) {
  Config config;
  config.max_connections = 1000;
  EXPECT_EQ(CheckConfig(config, 2256), absl::OkStatus());
  const absl::Status status = CheckConfig(config, 2255);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--max-connections=1000"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("2255"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("so that 999 fit (ulimit -Hn)"));
  EXPECT_THAT(std::string(CheckConfig(config, 20).message()), HasSubstr("so that 0 fit"));
  config.max_connections = UINT64_MAX;
  EXPECT_FALSE(CheckConfig(config, kManyFiles).ok());
  config.max_connections = std::uint64_t{1} << 32;
  EXPECT_EQ(CheckConfig(config, UINT64_MAX), absl::OkStatus());
  ++config.max_connections;
  EXPECT_FALSE(CheckConfig(config, UINT64_MAX).ok());
}

TEST(CheckConfig, RegionsNeedAPlaceBytesAndFiles) {
  const auto on = [](Config& c) { c.regions_socket = "/tmp/softmax-regions"; };
  const auto with = [on](const std::function<void(Config&)>& change) {
    return [=](Config& c) {
      on(c);
      change(c);
    };
  };
  Config config;
  on(config);
  EXPECT_EQ(CheckConfig(config, kManyFiles), absl::OkStatus());
  config.max_connections = 1000;
  EXPECT_EQ(CheckConfig(config, 2384), absl::OkStatus());
  EXPECT_THAT(std::string(CheckConfig(config, 2383).message()), HasSubstr("384 are kept"));
  ExpectRefused({
      {[](Config& c) { c.regions_socket = "here"; }, {"--regions-socket=here", "absolute"}},
      {[](Config& c) { c.regions_socket = "/nonexistent/a"; }, {"--regions-socket", "/nonexistent", "No such file"}},
      {[](Config& c) { c.regions_socket = "/tmp/" + std::string(200, 'x'); }, {"at most 107 bytes"}},
      {with([](Config& c) { c.address = {"unix:/tmp/softmax-regions"}; }),
       {"--regions-socket=/tmp/softmax-regions", "--address=unix:/tmp/softmax-regions", "same"}},
      {with([](Config& c) { c.regions_bytes = 0; }), {"--regions-bytes and --regions-device-bytes are 0"}},
      {with([](Config& c) { c.regions_connection_bytes = 2ull << 30; }),
       {"--regions-connection-bytes=2GiB", "--regions-bytes=1GiB"}},
      {with([](Config& c) { c.regions_device_connection_bytes = 1; }),
       {"--regions-device-connection-bytes=1", "--regions-device-bytes=0"}},
      {with([](Config& c) {
         c.regions_device_bytes = 1 << 20;
         c.backend = Backend::kCpu;
       }),
       {"--regions-device-bytes=1MiB", "--backend=cpu"}},
      {[](Config& c) { c.regions_uids = "me"; }, {"--regions-uids=me", "own, any, or user ids"}},
      {[](Config& c) { c.regions_uids = "1,,2"; }, {"--regions-uids=1,,2"}},
  });
}

TEST(CheckConfig, UidsOfRegionsAreOwnAnyOrAList) {
  std::optional<std::vector<std::uint32_t>> uids;
  EXPECT_TRUE(ParseRegionUids("own,7,0", &uids).ok());
  EXPECT_THAT(*uids, testing::ElementsAre(geteuid(), 7, 0));
  EXPECT_TRUE(ParseRegionUids("any", &uids).ok());
  EXPECT_FALSE(uids.has_value());
}

TEST(CheckConfig, RefusesDevicesForABackendThatHasNone) {
  ExpectRefused({{[](Config& c) {
                    c.devices = {0, 1};
                    c.backend = Backend::kCpu;
                  },
                  {"--devices=0,1", "--backend=cpu"}}});
}

TEST(CheckConfig, RefusesSharedMemoryThatIsNoFolder) {
  ExpectRefused({
      {[](Config& c) { c.oip_shared_memory = "/nonexistent"; }, {"--oip-shared-memory=/nonexistent", "No such file"}},
      {[](Config& c) { c.oip_shared_memory = "/dev/null"; }, {"--oip-shared-memory=/dev/null", "is not a folder"}},
  });
}

TEST(CheckConfig, RefusesTestDoorsThatTheWorldCouldReach) {
  const auto local = [](Config& c) {
    c.unsafe_testing = true;
    c.backend = Backend::kNull;
    c.address = {"127.0.0.1:0", "[::1]:0", "localhost:0", "unix:/tmp/softmax.sock"};
    c.metrics_address = "127.9.9.9:0";
  };
  Config config;
  local(config);
  EXPECT_EQ(CheckConfig(config, kManyFiles), absl::OkStatus());
  ExpectRefused({
      {[](Config& c) { c.backend = Backend::kNull; }, {"--backend=null", "--unsafe-testing"}},
      {[&](Config& c) {
         local(c);
         c.address.push_back("0.0.0.0:50051");
       },
       {"--unsafe-testing", "--address=0.0.0.0:50051"}},
      {[&](Config& c) {
         local(c);
         c.address = {"example.com:1"};
       },
       {"--unsafe-testing", "--address=example.com:1"}},
      {[&](Config& c) {
         local(c);
         c.metrics_address = "0.0.0.0:9400";
       },
       {"--unsafe-testing", "--metrics-address=0.0.0.0:9400"}},
  });
}

TEST(CheckConfig, RefusesAddressesThatCannotBe) {
  const auto only = [](const std::string& address) { return [address](Config& c) { c.address = {address}; }; };
  ExpectRefused({
      {[](Config& c) { c.address.clear(); }, {"--address", "at least one"}},
      {only("50051"), {"--address=50051", "host:port"}},
      {only(":50051"), {"--address=:50051", "host:port"}},
      {only("localhost"), {"--address=localhost", "host:port"}},
      {only("::1:50051"), {"--address=::1:50051", "host:port"}},
      {only("[nine]:1"), {"--address=[nine]:1", "IPv6"}},
      {only("localhost:65536"), {"65536", "0 to 65535"}},
      {only("localhost:-1"), {"-1", "0 to 65535"}},
      {only("localhost:"), {"--address=localhost:", "0 to 65535"}},
      {only("http://localhost:1"), {"http://localhost:1", "host:port"}},
      {only("unix:"), {"--address=unix:", "unix:/path"}},
      {only("unix:here.sock"), {"unix:here.sock", "absolute"}},
      {only("unix:/nonexistent/a.sock"), {"/nonexistent", "No such file"}},
      {only("unix:/tmp/" + std::string(200, 'x')), {"at most 107 bytes"}},
      {[](Config& c) { c.metrics_address = "unix:/tmp/m"; }, {"--metrics-address", "host:port"}},
      {[](Config& c) { c.metrics_address = "0.0.0.0:50051"; },
       {"--metrics-address=0.0.0.0:50051", "--address=0.0.0.0:50051", "same"}},
      {[](Config& c) {
         c.address = {"unix:/tmp/a", "unix:/tmp/a"};
       },
       {"same"}},
  });
}

TEST(CheckConfig, RefusesAUnixSocketThatAnybodyCouldReplace) {
  const std::string folder = testing::TempDir() + "config_check_test";
  mkdir(folder.c_str(), 0777);
  Config config;
  config.address = {"unix:" + folder + "/a.sock"};
  ASSERT_EQ(chmod(folder.c_str(), 0777), 0);
  const absl::Status status = CheckConfig(config, kManyFiles);
  EXPECT_THAT(std::string(status.message()), HasSubstr(folder));
  EXPECT_THAT(std::string(status.message()), HasSubstr("sticky"));
  ASSERT_EQ(chmod(folder.c_str(), 01777), 0);
  EXPECT_EQ(CheckConfig(config, kManyFiles), absl::OkStatus());
  ASSERT_EQ(chmod(folder.c_str(), 0755), 0);
  EXPECT_EQ(CheckConfig(config, kManyFiles), absl::OkStatus());
  rmdir(folder.c_str());
}

TEST(Address, LoopbackIsByNumberOrLocalhostOnly) {
  for (const char* text : {"127.0.0.1:1", "127.255.0.9:1", "[::1]:1", "localhost:1"}) {
    EXPECT_TRUE(ParseAddress(text)->IsLoopback()) << text;
  }
  for (const char* text :
       {"0.0.0.0:1", "128.0.0.1:1", "[::]:1", "127.0.0.1.example.com:1", "localhost.example.com:1"}) {
    EXPECT_FALSE(ParseAddress(text)->IsLoopback()) << text;
  }
}

}  // namespace
}  // namespace softmax::server

#include "server/regions/region_server.h"

#include <absl/strings/str_cat.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <ctime>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server/base/log.h"
#include "server/execution/host_memory.h"
#include "tests/support/eventually.h"
#include "tests/support/region_client.h"
#include "tests/support/temp_folder.h"

namespace softmax::server {
namespace {

using softmax::testing::Eventually;
using softmax::testing::LetPass;
using softmax::testing::MappedRegion;
using softmax::testing::RegionClient;
using ::testing::HasSubstr;
using Answer = RegionClient::Answer;

constexpr std::uint64_t kPage = kSharedPageBytes;
constexpr std::uint64_t kMiB = 1 << 20;

// Host memory as servers have it, and "device memory" of the same kind in pages of 2 MiB.
class Source : public SharedMemorySource {
 public:
  std::uint64_t shared_page(int device) const override { return device == Region::kHost ? kPage : 2 * kMiB; }
  absl::StatusOr<SharedMemory> MakeShared(int /*device*/, std::uint64_t bytes) override {
    ++made;
    while (holds) std::this_thread::yield();
    LetPass(takes.load());
    if (refuses) return absl::ResourceExhaustedError("the system has no more");
    absl::StatusOr<SharedMemory> memory = MakeSharedPages(bytes);
    if (memory.ok()) {
      memory->free = [free = std::move(memory->free), this] {
        free();
        ++freed;
      };
    }
    return memory;
  }
  std::array<std::uint8_t, 16> device_uuid(int device) const override { return {static_cast<std::uint8_t>(device)}; }

  std::atomic<int> made{0}, freed{0};
  std::atomic<bool> refuses{false}, holds{false};
  std::atomic<std::chrono::milliseconds> takes{std::chrono::milliseconds(0)};  // to make one
};

std::size_t OpenDescriptors() {
  const std::filesystem::directory_iterator entries("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

// Whether this process does next to nothing for a while.
bool Sleeps() {
  const std::clock_t before = std::clock();
  LetPass(std::chrono::milliseconds(200));
  return std::clock() - before < CLOCKS_PER_SEC / 50;
}

class RegionServerTest : public ::testing::Test {
 protected:
  RegionServerTest() {
    EXPECT_TRUE(InitLogging("debug", "text").ok());
    options_.socket = folder_.path("regions");
    options_.uids = {geteuid()};
    options_.connections = 4;
    options_.host = {16 * kMiB, 8 * kMiB};
    options_.device = {8 * kMiB, 4 * kMiB};
    options_.devices = 2;
    options_.queue_threads = 2;
    options_.keeps_memory = [this] { return keeps_.load(); };
  }
  void Start() {
    auto server = RegionServer::Create(options_, source_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = std::move(*server);
  }
  std::unique_ptr<RegionClient> Connect() {
    auto client = std::make_unique<RegionClient>(options_.socket);
    EXPECT_TRUE(client->connected());
    return client;
  }
  std::shared_ptr<const Region> Find(const Answer& answer, std::uint32_t thread = 0) const {
    RegionToken token{};
    const std::string& text = answer.reply.region().token();
    EXPECT_EQ(text.size(), token.size());
    std::copy(text.begin(), text.end(), token.begin());
    return server_->registry().Find(thread, token);
  }
  std::uint64_t HostBytes() const { return server_->budget().bytes(Region::kHost); }

  softmax::testing::TempFolder folder_;
  Source source_;
  std::atomic<bool> keeps_{false};
  RegionServer::Options options_;
  std::unique_ptr<RegionServer> server_;
};

void ExpectRefused(const std::optional<Answer>& answer, absl::StatusCode code, const std::string& words) {
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->reply.status().code(), static_cast<int>(code)) << answer->reply.DebugString();
  EXPECT_THAT(answer->reply.status().message(), HasSubstr(words));
  EXPECT_EQ(answer->descriptor, -1);
}

bool Succeeded(const std::optional<Answer>& answer) {
  return answer && answer->reply.has_status() && answer->reply.status().code() == 0;
}

// A region that nobody uses.
bool Gets(const std::optional<Answer>& answer) {
  if (answer) close(answer->descriptor);
  return Succeeded(answer);
}

TEST_F(RegionServerTest, GivesMemoryThatBothSidesSeeAndRoundsItUp) {
  Start();
  const auto client = Connect();
  const auto answer = client->Allocate(kPage + 1);
  ASSERT_TRUE(Succeeded(answer)) << answer->reply.DebugString();
  EXPECT_EQ(answer->reply.region().bytes(), 2 * kPage);
  EXPECT_EQ(answer->reply.region().memory(), v1::REGION_MEMORY_HOST);
  const std::shared_ptr<const Region> region = Find(*answer);
  ASSERT_NE(region, nullptr);
  EXPECT_EQ(region, Find(*answer, 1));
  EXPECT_EQ(region->bytes(), 2 * kPage);
  EXPECT_EQ(region->device(), Region::kHost);
  const MappedRegion mapped(*answer);
  for (std::size_t i = 0; i < mapped.bytes(); ++i) ASSERT_EQ(mapped.data()[i], std::byte{0});
  mapped.data()[kPage + 5] = std::byte{42};
  EXPECT_EQ(region->memory()[kPage + 5], std::byte{42});
  region->memory()[7] = std::byte{43};
  EXPECT_EQ(mapped.data()[7], std::byte{43});
  EXPECT_EQ(HostBytes(), 2 * kPage);
  EXPECT_EQ(server_->budget().regions(Region::kHost), 1u);
}

TEST_F(RegionServerTest, NoClientCanChangeTheSizeOrSealOutWriting) {
  Start();
  const auto client = Connect();
  const auto answer = client->Allocate(4 * kPage);
  ASSERT_TRUE(Succeeded(answer));
  EXPECT_EQ(ftruncate(answer->descriptor, 0), -1);
  EXPECT_EQ(ftruncate(answer->descriptor, 8 * kPage), -1);
  EXPECT_EQ(fcntl(answer->descriptor, F_ADD_SEALS, F_SEAL_WRITE), -1);
  // A hole is new pages, nothing that the server falls into.
  EXPECT_EQ(fallocate(answer->descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4 * kPage), 0);
  const std::shared_ptr<const Region> region = Find(*answer);
  region->memory()[4 * kPage - 1] = std::byte{1};
  close(answer->descriptor);
}

TEST_F(RegionServerTest, DeviceMemoryIsDealtToTheDeviceWithTheFewestBytes) {
  for (const std::uint32_t count : {2u, 3u, 4u, 8u, 16u}) {
    options_.devices = count;
    Start();
    const auto client = Connect();
    for (std::uint32_t i = 0; i < 2 * count; ++i) {
      const auto answer = client->Allocate(1, v1::REGION_MEMORY_DEVICE);
      ASSERT_TRUE(Succeeded(answer)) << answer->reply.DebugString();
      const v1::Region& region = answer->reply.region();
      EXPECT_EQ(region.device(), i % count);
      EXPECT_EQ(region.bytes(), 2 * kMiB);
      EXPECT_EQ(region.device_uuid()[0], static_cast<char>(i % count));
      EXPECT_EQ(Find(*answer)->device(), static_cast<int>(i % count));
      close(answer->descriptor);
    }
    for (const std::uint32_t device : {0u, count - 1}) {
      ExpectRefused(client->Allocate(1, v1::REGION_MEMORY_DEVICE, device), absl::StatusCode::kResourceExhausted,
                    "bytes=2097152: this connection has 4194304 of the 4194304 that it may "
                    "(--regions-device-connection-bytes)");
    }
    ExpectRefused(client->Allocate(1, v1::REGION_MEMORY_DEVICE, count), absl::StatusCode::kInvalidArgument,
                  absl::StrCat("allocate.device=", count, ": there are ", count, " devices"));
    server_.reset();
  }
}

TEST_F(RegionServerTest, RefusalsNameFieldValueAndLimit) {
  options_.device = {};
  Start();
  const auto client = Connect();
  ExpectRefused(client->Allocate(0), absl::StatusCode::kInvalidArgument, "allocate.bytes=0");
  ExpectRefused(client->Allocate(8 * kMiB + 1), absl::StatusCode::kInvalidArgument,
                "bytes=8388609: a connection may have at most 8388608 (--regions-connection-bytes)");
  ExpectRefused(client->Allocate(UINT64_MAX), absl::StatusCode::kInvalidArgument, "18446744073709551615");
  ExpectRefused(client->Allocate(1, v1::REGION_MEMORY_UNSPECIFIED), absl::StatusCode::kInvalidArgument,
                "allocate.memory=0");
  ExpectRefused(client->Allocate(1, static_cast<v1::RegionMemory>(7)), absl::StatusCode::kInvalidArgument,
                "allocate.memory=7");
  ExpectRefused(client->Allocate(1, v1::REGION_MEMORY_DEVICE), absl::StatusCode::kUnimplemented,
                "--regions-device-bytes=0");
  ExpectRefused(client->Free("short"), absl::StatusCode::kInvalidArgument, "has 5 bytes; a token has 16");
  ExpectRefused(client->Free(std::string(16, 'x')), absl::StatusCode::kNotFound, "no such region");
  v1::RegionRequest newer;  // of a later contract
  newer.GetReflection()->MutableUnknownFields(&newer)->AddVarint(99, 1);
  ASSERT_TRUE(client->Send(newer.SerializeAsString()));
  ExpectRefused(client->Receive(), absl::StatusCode::kInvalidArgument, "neither allocate nor free");
  source_.refuses = true;
  ExpectRefused(client->Allocate(kPage), absl::StatusCode::kResourceExhausted, "the system has no more");
  EXPECT_EQ(HostBytes(), 0u);
  EXPECT_EQ(server_->refused(RegionRefusal::kInvalid), 7u);
  EXPECT_EQ(server_->refused(RegionRefusal::kNoMemory), 1u);
  EXPECT_EQ(server_->refused(RegionRefusal::kNotFound), 1u);
  EXPECT_EQ(server_->refused(RegionRefusal::kUnsupported), 1u);
}

TEST_F(RegionServerTest, BytesAreBoundedByConnectionAndInAll) {
  Start();
  const auto first = Connect(), second = Connect(), third = Connect();
  const auto eight = first->Allocate(8 * kMiB);
  ASSERT_TRUE(Succeeded(eight));
  ExpectRefused(first->Allocate(1), absl::StatusCode::kResourceExhausted,
                "this connection has 8388608 of the 8388608 that it may (--regions-connection-bytes)");
  const auto other = second->Allocate(8 * kMiB);
  ASSERT_TRUE(Succeeded(other));
  ExpectRefused(third->Allocate(1), absl::StatusCode::kResourceExhausted,
                "16777216 of 16777216 are given out (--regions-bytes)");
  // What is freed can be had at once, again and again.
  std::string token = eight->reply.region().token();
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(Succeeded(first->Free(token)));
    const auto again = first->Allocate(8 * kMiB);
    ASSERT_TRUE(Succeeded(again)) << again->reply.DebugString();
    token = again->reply.region().token();
    close(again->descriptor);
  }
  EXPECT_EQ(source_.freed.load(), 20);
  close(eight->descriptor);
  close(other->descriptor);
}

TEST_F(RegionServerTest, RegionsOfAConnectionAreBoundedInNumber) {
  Start();
  const auto client = Connect();
  for (std::uint32_t i = 0; i < RegionBudget::kMostRegions; ++i) ASSERT_TRUE(Gets(client->Allocate(1))) << i;
  ExpectRefused(client->Allocate(1), absl::StatusCode::kResourceExhausted, "256 regions");
  client->Close();
  EXPECT_TRUE(Eventually([&] { return HostBytes() == 0 && server_->connections() == 0; }));
}

TEST_F(RegionServerTest, ARegionEndsWithItsConnectionAndTheRequestsThatUseIt) {
  Start();
  auto client = Connect();
  const auto answer = client->Allocate(kMiB);
  ASSERT_TRUE(Succeeded(answer));
  std::shared_ptr<const Region> request = Find(*answer);
  ASSERT_NE(request, nullptr);
  client->Close();
  EXPECT_TRUE(Eventually([&] { return Find(*answer) == nullptr; }));
  EXPECT_EQ(HostBytes(), kMiB) << "a request uses it";
  request->memory()[0] = std::byte{1};
  EXPECT_EQ(source_.freed.load(), 0);
  request.reset();
  EXPECT_TRUE(Eventually([&] { return HostBytes() == 0; }));
  EXPECT_EQ(source_.freed.load(), 1);
  close(answer->descriptor);
}

// Its pages are charged to the server, however long the client keeps it mapped.
TEST_F(RegionServerTest, AFreedRegionHasNoPagesLeftThoughTheClientStillHasIt) {
  Start();
  const auto client = Connect();
  const auto answer = client->Allocate(4 * kMiB);
  ASSERT_TRUE(Succeeded(answer));
  struct stat before {
  }, after{};
  ASSERT_EQ(fstat(answer->descriptor, &before), 0);
  EXPECT_EQ(before.st_blocks * 512, static_cast<blkcnt_t>(4 * kMiB)) << "all pages are there from the start";
  ASSERT_TRUE(Succeeded(client->Free(answer->reply.region().token())));
  EXPECT_TRUE(Eventually([&] { return HostBytes() == 0; }));
  ASSERT_EQ(fstat(answer->descriptor, &after), 0);
  EXPECT_EQ(after.st_blocks, 0);
  close(answer->descriptor);
}

TEST_F(RegionServerTest, OneConnectionCannotFreeAnothersRegion) {
  Start();
  const auto client = Connect(), other = Connect();
  const auto answer = client->Allocate(kPage);
  ASSERT_TRUE(Succeeded(answer));
  ExpectRefused(other->Free(answer->reply.region().token()), absl::StatusCode::kNotFound, "no such region");
  EXPECT_NE(Find(*answer), nullptr);
  close(answer->descriptor);
}

TEST_F(RegionServerTest, WhatIsNoMessageEndsItsConnectionAlone) {
  Start();
  const std::size_t before = OpenDescriptors();
  const auto good = Connect();
  const auto region = good->Allocate(kPage);
  ASSERT_TRUE(Succeeded(region));
  const auto rubbish = Connect();
  ASSERT_TRUE(rubbish->Send("\xff\xff\xff rubbish"));
  EXPECT_EQ(rubbish->Receive(), std::nullopt);
  const auto longer = Connect();
  ASSERT_TRUE(longer->Send(std::string(5000, '\0')));
  EXPECT_EQ(longer->Receive(), std::nullopt);
  const auto empty = Connect();
  ASSERT_TRUE(empty->Send(""));
  EXPECT_EQ(empty->Receive(), std::nullopt);
  const auto half = Connect();
  ASSERT_TRUE(Succeeded(half->Allocate(kMiB)));
  shutdown(half->fd(), SHUT_WR);
  EXPECT_EQ(half->Receive(), std::nullopt);
  // A descriptor of its own does not arrive: the server would have one more.
  const auto passing = Connect();
  ASSERT_TRUE(passing->SendWith(RegionClient::AllocateRequest(kPage), passing->fd()));
  EXPECT_EQ(passing->Receive(), std::nullopt);
  for (const auto* client : {&rubbish, &longer, &empty, &half, &passing}) (*client)->Close();
  EXPECT_TRUE(Eventually([&] { return server_->connections() == 1; }));
  EXPECT_EQ(server_->refused(RegionRefusal::kMalformed), 3u);
  EXPECT_TRUE(Succeeded(good->Free(region->reply.region().token())));
  EXPECT_TRUE(Eventually([&] { return HostBytes() == 0; }));
  close(region->descriptor);
  // The good client's two ends are left, and the descriptor of half's region, which this test has never closed.
  EXPECT_TRUE(Eventually([&] { return OpenDescriptors() == before + 3; }));
}

TEST_F(RegionServerTest, WhoDoesNotReadHoldsUpNobodyAndNoMoreThanAFewDescriptors) {
  Start();
  const std::size_t before = OpenDescriptors();
  const auto deaf = Connect();
  int sent = 0;
  while (sent < 10000 && deaf->Send(RegionClient::AllocateRequest(1), MSG_DONTWAIT)) ++sent;
  EXPECT_LT(sent, 10000) << "the server reads on though nothing is read";
  const auto good = Connect();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(Gets(good->Allocate(kPage)));
  EXPECT_LT(source_.made.load(), 30);
  EXPECT_TRUE(Eventually([&] { return OpenDescriptors() <= before + 5; })) << "two ends each, and the one that waits";
  // It is answered as soon as it reads.
  for (int i = 0; i < sent; ++i) {
    const auto answer = deaf->Receive();
    ASSERT_TRUE(answer.has_value()) << i;
    if (answer->descriptor >= 0) close(answer->descriptor);
  }
  EXPECT_TRUE(Sleeps());
}

TEST_F(RegionServerTest, WithoutDescriptorsItRestsUntilThereAreSome) {
  Start();
  const auto other = Connect();
  ASSERT_TRUE(other->Free("").has_value());  // it has been let in
  // A sanitizer's first look at a type, the request's and the log's, takes two descriptors.
  const std::string request = RegionClient::AllocateRequest(kPage);
  LogInfo("descriptors run out");
  FlushLogging();
  ::testing::internal::CaptureStderr();
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const int lowest = dup(0);  // which the client takes
  close(lowest);
  const rlimit tight{static_cast<rlim_t>(lowest) + 1, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &tight);
  const auto client = Connect();
  ASSERT_TRUE(client->Send(request));
  EXPECT_TRUE(Sleeps());
  for (int i = 0; i < 9; ++i) ExpectRefused(other->Free(""), absl::StatusCode::kInvalidArgument, "has 0 bytes");
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_TRUE(Gets(client->Receive()));
  FlushLogging();
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(log.find("rests") != std::string::npos && log.find("rests") == log.rfind("rests")) << log;
}

// One connection has twenty under way, each of which takes its time, and reads its answers at once; the other waits for
// the one that is being made, and one more.
TEST_F(RegionServerTest, ConnectionsTakeTurns) {
  Start();
  const auto busy = Connect(), good = Connect();
  source_.takes = std::chrono::milliseconds(10);
  source_.holds = true;
  constexpr int kUnderWay = 20;
  for (int i = 0; i < kUnderWay; ++i) ASSERT_TRUE(busy->Send(RegionClient::AllocateRequest(kPage)));
  std::thread reader([&] {
    for (int i = 0; i < kUnderWay; ++i) Gets(busy->Receive());
  });
  ASSERT_TRUE(Eventually([&] { return source_.made.load() == 1; }));
  ASSERT_TRUE(good->Send(RegionClient::AllocateRequest(kPage)));
  source_.holds = false;
  const auto answer = good->Receive();
  const int made = source_.made.load();
  reader.join();
  ASSERT_TRUE(Gets(answer));
  EXPECT_LE(made, 10) << "3, and what was made until this thread looked";
}

TEST_F(RegionServerTest, AStrangerIsToldAndPutOut) {
  options_.uids = {geteuid() + 1};
  Start();
  ::testing::internal::CaptureStderr();
  const std::size_t before = OpenDescriptors();
  const auto client = Connect();
  ExpectRefused(client->Receive(), absl::StatusCode::kPermissionDenied,
                "uid " + std::to_string(geteuid()) + " is not one of --regions-uids");
  EXPECT_EQ(client->Receive(), std::nullopt);
  EXPECT_EQ(server_->refused(RegionRefusal::kUser), 1u);
  EXPECT_EQ(server_->connections(), 0u);
  EXPECT_TRUE(Eventually([&] { return OpenDescriptors() == before + 1; })) << "the client's end";
  FlushLogging();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("regions-socket: uid "));
}

TEST_F(RegionServerTest, ConnectionsWithoutARegionMakeRoom) {
  Start();
  std::vector<std::unique_ptr<RegionClient>> users, silent;
  for (int i = 0; i < 3; ++i) {
    users.push_back(Connect());
    ASSERT_TRUE(Gets(users.back()->Allocate(kPage)));
  }
  for (int i = 0; i < 50; ++i) silent.push_back(Connect());
  users.push_back(Connect());
  ASSERT_TRUE(Gets(users.back()->Allocate(kPage)));
  EXPECT_LE(server_->connections(), 4u);
  const auto late = Connect();
  ExpectRefused(late->Receive(), absl::StatusCode::kResourceExhausted, "4 connections have regions");
  EXPECT_EQ(server_->budget().regions(Region::kHost), 4u);
}

TEST_F(RegionServerTest, ADrainMakesNothingNewAndLeavesWhatThereIs) {
  Start();
  const auto client = Connect();
  const auto answer = client->Allocate(kPage);
  ASSERT_TRUE(Succeeded(answer));
  server_->StopAllocating();
  EXPECT_TRUE(Eventually([&] { return !std::filesystem::exists(options_.socket); }));
  ExpectRefused(client->Allocate(kPage), absl::StatusCode::kUnavailable, "draining");
  EXPECT_NE(Find(*answer), nullptr);
  EXPECT_TRUE(Succeeded(client->Free(answer->reply.region().token())));
  close(answer->descriptor);
}

// A device that was lost may still write there, and its driver wait for it.
TEST_F(RegionServerTest, OnceADeviceIsLostNothingIsMadeOrGivenBack) {
  Start();
  const auto client = Connect();
  const auto answer = client->Allocate(kPage);
  ASSERT_TRUE(Succeeded(answer));
  keeps_ = true;
  ExpectRefused(client->Allocate(kPage), absl::StatusCode::kUnavailable, "a device was lost");
  EXPECT_TRUE(Succeeded(client->Free(answer->reply.region().token())));
  EXPECT_EQ(Find(*answer), nullptr);
  EXPECT_EQ(HostBytes(), kPage);
  server_.reset();
  EXPECT_EQ(source_.freed.load(), 0);
  close(answer->descriptor);
}

TEST_F(RegionServerTest, ARegionMayOutliveTheServer) {
  Start();
  const auto client = Connect();
  const auto answer = client->Allocate(kPage);
  ASSERT_TRUE(Succeeded(answer));
  std::shared_ptr<const Region> request = Find(*answer);
  server_.reset();
  request->memory()[0] = std::byte{1};
  request.reset();
  EXPECT_FALSE(std::filesystem::exists(options_.socket));
  close(answer->descriptor);
}

TEST_F(RegionServerTest, ListensInPlaceOfADeadServerAndBesideNoLiveOne) {
  Start();
  EXPECT_THAT(std::string(RegionServer::Create(options_, source_).status().message()),
              HasSubstr("regions-socket: cannot listen on " + options_.socket + ": the address is in use"));
  server_.reset();
  // As a killed server leaves it: the file stays, and nobody listens.
  const int dead = socket(AF_UNIX, SOCK_SEQPACKET, 0);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, options_.socket.data(), options_.socket.size());
  ASSERT_EQ(bind(dead, reinterpret_cast<const sockaddr*>(&name), sizeof(name)), 0);
  close(dead);
  ASSERT_TRUE(std::filesystem::exists(options_.socket));
  Start();
  struct stat info {};
  ASSERT_EQ(stat(options_.socket.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0600u);
  options_.socket = folder_.path("nowhere/regions");
  EXPECT_THAT(std::string(RegionServer::Create(options_, source_).status().message()),
              HasSubstr("No such file or directory"));
}

}  // namespace
}  // namespace softmax::server

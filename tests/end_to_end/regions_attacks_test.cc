// Clients of the regions' socket that die, stop, scribble, free, flood and send rubbish in every state: others notice
// nothing, and everything is given back.
#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <thread>

#include "common/base/descriptor_packet.h"
#include "softmax/v1/softmax.grpc.pb.h"
#include "tests/end_to_end/books.h"
#include "tests/end_to_end/server_process.h"
#include "tests/support/eventually.h"
#include "tests/support/region_client.h"
#include "tests/support/temp_folder.h"

namespace softmax::testing {
namespace {

constexpr std::uint64_t kAttackedMiB = 1 << 20;

// How many; the long test says more.
int RegionAttackCount() {
  const char* const text = std::getenv("SOFTMAX_REGION_ATTACKS");
  return text == nullptr ? 1000 : std::atoi(text);
}

// Gets a region and writes in it without end. Between fork and exit: makes no C++ object.
[[noreturn]] void ScribbleForEver(const RegionClient& client, const std::string& request) {
  send(client.fd(), request.data(), request.size(), MSG_NOSIGNAL);
  char bytes[4096];
  int fd = -1;
  if (ReceivePacketWith(client.fd(), bytes, &fd) <= 0 || fd < 0) _exit(1);
  void* const data = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) _exit(1);
  for (unsigned char value = 0;; ++value) std::memset(data, value, 4096);
}

class RegionAttacks : public ::testing::Test {
 protected:
  std::string path() const { return folder_.path("regions"); }

  double Metric(const std::string& name) const {
    const std::string value = MetricOf(server_.metrics(), name + " ");
    return value.empty() ? -1 : std::atof(value.c_str());
  }
  std::size_t Descriptors() const {
    const std::filesystem::directory_iterator entries("/proc/" + std::to_string(server_.pid()) + "/fd");
    return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
  }

  void Attack(int kind, std::uint32_t random);
  void KillChild(std::uint32_t random, bool stop_first);

  TempFolder folder_;
  ServerProcess server_{{"--backend=cpu", "--threads=1", "--cpu-threads=1", "--regions-socket=" + path(),
                         "--regions-bytes=64MiB", "--regions-connection-bytes=4MiB", "--regions-connections=16"}};
};

void RegionAttacks::KillChild(std::uint32_t random, bool stop_first) {
  const std::string request = RegionClient::AllocateRequest(4096);
  RegionClient client(path());
  const pid_t child = fork();
  if (child == 0) ScribbleForEver(client, request);
  client.Close();  // the child alone has it
  LetPass(std::chrono::microseconds(random % 3000));
  if (stop_first) {
    kill(child, SIGSTOP);
    LetPass(std::chrono::microseconds(random % 1000));
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

constexpr int kAttackKinds = 13;

void RegionAttacks::Attack(int kind, std::uint32_t random) {
  if (kind == 0) return KillChild(random, /*stop_first=*/false);
  if (kind == 1) return KillChild(random, /*stop_first=*/true);
  RegionClient client(path());
  const std::uint64_t bytes = random % 10 == 0 ? 2 * kAttackedMiB : 1 + random % 65536;
  if (kind == 2) return;  // says nothing
  if (kind == 3) {
    client.Send(RegionClient::AllocateRequest(bytes));
    return;  // does not wait for the answer
  }
  if (kind == 4) {
    for (int i = 0; i < 200 && client.Send(RegionClient::AllocateRequest(1), MSG_DONTWAIT); ++i) continue;
    return;  // reads nothing
  }
  if (kind == 5) {
    client.Send(std::string(1 + random % 5000, static_cast<char>(random >> 8)));
    return;
  }
  if (kind == 6) {
    client.SendWith(RegionClient::AllocateRequest(bytes), client.fd());
    return;
  }
  if (kind == 7) {
    client.Send(std::string());
    return;
  }
  const auto answer = client.Allocate(bytes);
  if (!answer || answer->descriptor < 0) return;  // others have it all, or took the place
  const std::string token = answer->reply.region().token();
  if (kind == 8) shutdown(client.fd(), random % 2 == 0 ? SHUT_WR : SHUT_RDWR);
  if (kind == 9) {
    EXPECT_EQ(ftruncate(answer->descriptor, 0), -1);
    fallocate(answer->descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes));
  }
  const MappedRegion mapped(*answer);
  std::memset(mapped.data(), static_cast<int>(random), mapped.bytes());
  if (kind == 10) {
    client.Free(token);
    std::memset(mapped.data(), 1, mapped.bytes());  // what is no region's any more
  }
  if (kind == 11) {
    for (int i = 0; i < 5; ++i) client.Free(std::string(16, static_cast<char>(random + static_cast<std::uint32_t>(i))));
    client.Free(token);
    client.Free(token);
  }
  if (kind == 12) {
    client.Close();
    std::memset(mapped.data(), 2, mapped.bytes());
  }
}

TEST_F(RegionAttacks, CostOthersNothingAndEverythingIsGivenBack) {
  const std::size_t descriptors = Descriptors();
  RegionClient keeper(path());
  const auto kept = keeper.Allocate(kAttackedMiB);
  ASSERT_TRUE(kept && kept->descriptor >= 0);
  const MappedRegion mine(*kept);
  std::memset(mine.data(), 77, mine.bytes());

  std::atomic<int> next{0};
  std::vector<std::jthread> attackers;
  for (int thread = 0; thread < 4; ++thread) {
    attackers.emplace_back([&] {
      for (int i = next++; i < RegionAttackCount(); i = next++) {
        std::mt19937 random(static_cast<std::uint32_t>(i));
        Attack(i % kAttackKinds, random());
      }
    });
  }
  // Meanwhile a client that has a region is answered, every time, and soon.
  int calls = 0;
  auto slowest = std::chrono::steady_clock::duration::zero();
  while (next.load() < RegionAttackCount()) {
    const auto begin = std::chrono::steady_clock::now();
    const auto answer = keeper.Allocate(4096);
    ASSERT_TRUE(answer && answer->descriptor >= 0) << calls << (answer ? answer->reply.DebugString() : " no answer");
    close(answer->descriptor);
    const auto freed = keeper.Free(answer->reply.region().token());
    ASSERT_TRUE(freed && freed->reply.status().code() == 0) << calls;
    slowest = std::max(slowest, std::chrono::steady_clock::now() - begin);
    ++calls;
  }
  attackers.clear();
  EXPECT_GT(calls, 10);
  EXPECT_LT(slowest, std::chrono::seconds(10));

  EXPECT_TRUE(Eventually([&] { return Metric("softmax_regions{memory=\"host\"}") == 1; }));
  EXPECT_EQ(Metric("softmax_region_bytes{memory=\"host\"}"), kAttackedMiB);
  // The last of them may have left without a region, and without a notice.
  EXPECT_TRUE(Eventually([&] { return Metric("softmax_region_connections") == 1; }));
  for (std::size_t i = 0; i < mine.bytes(); ++i) ASSERT_EQ(mine.data()[i], std::byte{77}) << i;
  keeper.Close();
  EXPECT_TRUE(Eventually([&] { return Metric("softmax_region_bytes{memory=\"host\"}") == 0; }));
  EXPECT_TRUE(Eventually([&] { return Descriptors() <= descriptors; }));
  server_.Signal(SIGTERM);
  EXPECT_EQ(server_.Wait(30000), 0) << server_.Log();
  EXPECT_FALSE(std::filesystem::exists(path()));
}

// A request whose input and output lie in a region of this many rows of 1,024 floats each, one after the other.
constexpr std::int64_t kAttackedRows = 64;
constexpr std::uint64_t kAttackedBytes = static_cast<std::uint64_t>(kAttackedRows) * 1024 * sizeof(float);

v1::SoftmaxRequest RequestIn(const std::string& token) {
  v1::SoftmaxRequest request;
  request.mutable_input()->set_dtype(v1::DATA_TYPE_FLOAT32);
  request.mutable_input()->add_shape(kAttackedRows);
  request.mutable_input()->add_shape(1024);
  request.mutable_input()->mutable_place()->set_region(token);
  request.mutable_output_place()->set_region(token);
  request.mutable_output_place()->set_offset(kAttackedBytes);
  return request;
}

// Every row differs, so that an answer of another place is seen.
void FillRows(const MappedRegion& region, int seed) {
  auto* const values = reinterpret_cast<float*>(region.data());
  for (std::int64_t i = 0; i < kAttackedRows * 1024; ++i)
    values[i] = (i + seed) % (1000 + i / 1024) == 7 ? 20.0f : 0.0f;
}

// The first wrong row; -1: none is.
std::int64_t WrongRow(const MappedRegion& region) {
  const auto* const input = reinterpret_cast<const float*>(region.data());
  const auto* const output = reinterpret_cast<const float*>(region.data() + kAttackedBytes);
  for (std::int64_t row = 0; row < kAttackedRows; ++row) {
    double sum = 0;
    for (std::int64_t i = row * 1024; i < (row + 1) * 1024; ++i) sum += std::exp(static_cast<double>(input[i]));
    for (std::int64_t i = row * 1024; i < (row + 1) * 1024; ++i) {
      const double expected = std::exp(static_cast<double>(input[i])) / sum;
      if (!(std::abs(output[i] - expected) <= 1e-5 * expected)) return row;
    }
  }
  return -1;
}

// Asks, and then frees, leaves, scribbles or punches while the request runs.
void AttackWithRequest(v1::SoftmaxService::Stub& stub, const std::string& path, std::uint32_t random) {
  RegionClient client(path);
  const auto answer = client.Allocate(2 * kAttackedBytes);
  if (!answer || answer->descriptor < 0) return;
  const int hole = dup(answer->descriptor);
  const MappedRegion mapped(*answer);
  FillRows(mapped, static_cast<int>(random));
  const std::string token = answer->reply.region().token();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  grpc::CompletionQueue queue;
  v1::SoftmaxResponse response;
  grpc::Status status;
  const auto call = stub.AsyncSoftmax(&context, RequestIn(token), &queue);
  call->Finish(&response, &status, nullptr);
  LetPass(std::chrono::microseconds(random % 1500));
  const auto size = static_cast<off_t>(mapped.bytes());
  switch (random % 5) {
    case 0:
      client.Free(token);
      break;
    case 1:
      client.Close();
      break;
    case 2:
      std::memset(mapped.data(), 0xff, mapped.bytes());
      break;
    case 3:
      fallocate(hole, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, size);
      break;
    default:
      context.TryCancel();
      client.Close();
  }
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  close(hole);
  EXPECT_TRUE(status.error_code() == grpc::OK || status.error_code() == grpc::NOT_FOUND ||
              status.error_code() == grpc::CANCELLED)
      << status.error_code() << " " << status.error_message();
}

TEST_F(RegionAttacks, WhileRequestsRunSpoilNoAnswerOfOthers) {
  ASSERT_FALSE(server_.target().empty()) << server_.Log();
  const auto connect = [&] {
    return v1::SoftmaxService::NewStub(grpc::CreateChannel(server_.target(), grpc::InsecureChannelCredentials()));
  };
  RegionClient keeper(path());
  const auto kept = keeper.Allocate(2 * kAttackedBytes);
  ASSERT_TRUE(kept && kept->descriptor >= 0);
  const MappedRegion mine(*kept);
  std::atomic<int> next{0};
  std::vector<std::jthread> attackers;
  for (int thread = 0; thread < 4; ++thread) {
    attackers.emplace_back([&] {
      const auto stub = connect();
      for (int i = next++; i < RegionAttackCount(); i = next++) {
        std::mt19937 random(static_cast<std::uint32_t>(i));
        AttackWithRequest(*stub, path(), random());
      }
    });
  }
  const auto stub = connect();
  int calls = 0;
  while (next.load() < RegionAttackCount()) {
    FillRows(mine, calls++);
    grpc::ClientContext context;
    v1::SoftmaxResponse response;
    const grpc::Status status = stub->Softmax(&context, RequestIn(kept->reply.region().token()), &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    ASSERT_EQ(WrongRow(mine), -1) << calls;
  }
  attackers.clear();
  EXPECT_GT(calls, 10);
  keeper.Close();
  EXPECT_TRUE(Eventually([&] { return Metric("softmax_region_bytes{memory=\"host\"}") == 0; }));
  server_.Signal(SIGTERM);
  EXPECT_EQ(server_.Wait(30000), 0) << server_.Log();
}

}  // namespace
}  // namespace softmax::testing

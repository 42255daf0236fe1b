// Servers behind a name whose addresses change: what clients that were started before see of it.
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "client/softmax_client/softmax_client.h"
#include "tests/end_to_end/answered.h"
#include "tests/end_to_end/name_server.h"
#include "tests/end_to_end/open_loop.h"
#include "tests/end_to_end/server_process.h"
#include "tests/support/eventually.h"
#include "tests/support/run_program.h"

namespace softmax::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

constexpr char kName[] = "softmax.test";
// What docs/client.md promises for a name that has got another address.
constexpr seconds kUntilServed(3);

// Servers at 127.0.0.2, 127.0.0.3 and so on, all with one port, as behind a name.
class NamedServers {
 public:
  explicit NamedServers(std::vector<std::string> flags = {}) : flags_(std::move(flags)) {}

  ServerProcess& Start() {
    std::vector<std::string> flags = flags_;
    flags.push_back("--address=" + AddressOf(servers_.size()) + ":" + port_);
    ServerProcess& server = *servers_.emplace_back(std::make_unique<ServerProcess>(flags));
    port_ = server.target().substr(server.target().rfind(':') + 1);
    return server;
  }

  // The name stands for those from `first` to before `end` from now on.
  void Name(std::size_t first, std::size_t end) {
    std::vector<std::string> addresses;
    for (std::size_t i = first; i < end; ++i) addresses.push_back(AddressOf(i));
    names_.Set(kName, std::move(addresses));
  }

  ServerProcess& operator[](std::size_t i) { return *servers_[i]; }
  std::string target() const { return "dns://" + names_.address() + "/" + kName + ":" + port_; }

 private:
  static std::string AddressOf(std::size_t i) { return "127.0.0." + std::to_string(i + 2); }

  const std::vector<std::string> flags_;
  NameServer names_;
  std::string port_ = "0";
  std::vector<std::unique_ptr<ServerProcess>> servers_;
};

// One call after another with a client's defaults, whatever becomes of them.
class SteadyCaller {
 public:
  explicit SteadyCaller(const std::string& target) : client_(*client::Client::Create({.target = target})) {
    thread_ = std::thread([this] {
      const std::vector<float> values = {1, 2, 3};
      const std::vector<std::int64_t> shape = {1, 3};
      while (!stopping_) {
        if (client_->Softmax(client::ViewOf(values, shape), {.timeout = seconds(1)}).ok()) ++answered_;
        LetPass(milliseconds(10));
      }
    });
  }
  ~SteadyCaller() {
    stopping_ = true;
    thread_.join();
  }

  // How long until the next call is answered.
  milliseconds UntilAnswered() const {
    const auto begin = Clock::now();
    const int before = answered_;
    EXPECT_TRUE(Eventually([&] { return answered_ > before; }, seconds(60)));
    return std::chrono::duration_cast<milliseconds>(Clock::now() - begin);
  }

 private:
  const std::unique_ptr<client::Client> client_;
  std::atomic<bool> stopping_ = false;
  std::atomic<int> answered_ = 0;
  std::thread thread_;
};

// The only server is away, and the name leads to another one after `away`; before that to the old one, or nowhere.
milliseconds Replace(NamedServers& servers, const SteadyCaller& caller, std::size_t old, milliseconds away,
                     bool nowhere) {
  servers.Start();
  servers[old].Signal(SIGKILL);
  servers[old].Wait(10000);
  if (nowhere) servers.Name(0, 0);
  LetPass(away);
  servers.Name(old + 1, old + 2);
  return caller.UntilAnswered();
}

TEST(Names, WhoeverComesInPlaceOfTheOnlyServerIsFoundSoonAgainAndAgain) {
  NamedServers servers;
  servers.Start();
  servers.Name(0, 1);
  const SteadyCaller caller(servers.target());
  caller.UntilAnswered();
  const milliseconds first = Replace(servers, caller, 0, seconds(1), false);
  EXPECT_LE(first, kUntilServed);
  LetPass(seconds(3));
  const milliseconds second = Replace(servers, caller, 1, seconds(1), false);
  EXPECT_LE(second, kUntilServed);
  std::printf("served %ld and %ld ms after the name had changed\n", first.count(), second.count());
}

// gRPC looks up a name that is not there ever more rarely: 5 s later after 10 s, a minute later after two.
TEST(Names, ANameThatWasGoneForAWhileIsFoundSoonToo) {
  NamedServers servers;
  servers.Start();
  servers.Name(0, 1);
  const SteadyCaller caller(servers.target());
  caller.UntilAnswered();
  const milliseconds served = Replace(servers, caller, 0, seconds(10), true);
  EXPECT_LE(served, kUntilServed);
  std::printf("served %ld ms after the name was there again\n", served.count());
}

TEST(Names, WhoWaitsForANameHasItSoonAfterItIsThere) {
  NamedServers servers;
  servers.Start();
  const auto client = *client::Client::Create({.target = servers.target()});
  std::atomic<bool> connected = false;
  std::jthread waiting([&] { connected = client->WaitForConnection(seconds(60)).ok(); });
  client::Program health(SOFTMAX_CLIENT, {"--address", servers.target(), "--health", "--wait", "60s"});
  client::Program load(SOFTMAX_LOADGEN, {"--address", servers.target(), "--connect-timeout", "60", "--duration", "0.1",
                                         "--warmup", "0", "--connections", "1", "--shape", "1x16"});
  LetPass(seconds(10));
  EXPECT_FALSE(connected);
  servers.Name(0, 1);
  const auto begin = Clock::now();
  EXPECT_TRUE(Eventually([&] { return connected.load(); }, seconds(60)));
  EXPECT_LE(Clock::now() - begin, kUntilServed);
  EXPECT_EQ(health.Wait().exit_code, 0);
  EXPECT_LE(Clock::now() - begin, kUntilServed);
  EXPECT_EQ(load.Wait().exit_code, 0);
  EXPECT_LE(Clock::now() - begin, kUntilServed + seconds(1));  // and its run
}

// What each has answered since the numbers of `before`, as shares of all.
std::vector<double> SharesSince(const std::vector<double>& before, NamedServers& servers) {
  std::vector<double> shares;
  double all = 0;
  for (std::size_t i = 0; i < before.size(); ++i) all += shares.emplace_back(Answered(servers[i]) - before[i]);
  for (double& share : shares) share /= all;
  return shares;
}

// One becomes three, and one again. Connections have an age as in the manifests, where it is longer.
void GrowAndShrink(NamedServers& servers) {
  servers.Start();
  servers.Start();
  servers.Name(0, 3);
  EXPECT_TRUE(Eventually([&] { return Answered(servers[1]) > 0 && Answered(servers[2]) > 0; }, seconds(10)))
      << "those that were added get no calls";
  std::vector<double> before;
  for (std::size_t i = 0; i < 3; ++i) before.push_back(Answered(servers[i]));
  LetPass(seconds(3));
  for (const double share : SharesSince(before, servers)) EXPECT_GE(share, 0.2);
  servers.Name(0, 1);
  for (const std::size_t i : {1, 2}) servers[i].Signal(SIGTERM);
  for (const std::size_t i : {1, 2}) EXPECT_EQ(servers[i].Wait(30000), 0) << servers[i].Log();
  const double alone = Answered(servers[0]);
  EXPECT_TRUE(Eventually([&] { return Answered(servers[0]) > alone; }, seconds(10)));
}

const std::vector<std::string> kAged = {"--max-connection-age=2s", "--drain-delay=1s"};

TEST(Names, ReplicasThatAreAddedGetTheirShareAndNoCallFailsThenNorWhenTheyGo) {
  NamedServers servers(kAged);
  servers.Start();
  servers.Name(0, 1);
  OpenLoopOptions options;
  options.client.target = servers.target();
  options.batch_every = milliseconds(0);
  OpenLoop load(options);
  EXPECT_TRUE(Eventually([&] { return Answered(servers[0]) > 0; }));
  GrowAndShrink(servers);
  load.Stop();
  const OpenLoopCounts counts = load.Look();
  EXPECT_EQ(counts.started, counts.ended);
  EXPECT_TRUE(counts.failed.empty()) << counts.failed.size() << ", such as " << counts.failed.begin()->first;
  EXPECT_EQ(counts.wrong + counts.unclear, 0u) << counts.first_bad;
}

TEST(Names, TheLoadGeneratorSeesTheSameWithOneAttempt) {
  NamedServers servers(kAged);
  servers.Start();
  servers.Name(0, 1);
  client::Program load(SOFTMAX_LOADGEN, {"--address", servers.target(), "--connections", "2", "--rate", "200",
                                         "--shape", "1x16", "--warmup", "0", "--duration", "600", "--json", "-"});
  EXPECT_TRUE(Eventually([&] { return Answered(servers[0]) > 0; }));
  GrowAndShrink(servers);
  load.Signal(SIGINT);
  const client::ProgramResult result = load.Wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(nlohmann::json::parse(result.out)["runs"][0]["errors"], nlohmann::json::object());
}

}  // namespace
}  // namespace softmax::testing

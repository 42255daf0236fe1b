#include "server/rpc/queue/queue_thread.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/async_generic_service.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server/rpc/queue/call.h"
#include "tests/server/batching/fakes.h"

namespace softmax::server {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using ::testing::ElementsAre;

// A call without operations, which ends when it is told to.
class FakeCall final : public Call {
 public:
  FakeCall(CallCount& count, bool* freed) : Call(count), freed_(freed) {}
  ~FakeCall() override { *freed_ = true; }
  void Proceed(bool /*ok*/) override { Free(); }

 private:
  bool* const freed_;
};

// Notes what it is asked for, and whether the server had started by then.
class FakeGroup final : public CallGroup {
 public:
  explicit FakeGroup(QueueThread& thread) : thread_(thread) {}

  void Register(grpc::ServerBuilder* builder) override {
    builder->RegisterAsyncGenericService(&service_);
    Note("register");
  }
  void Arm() override { Note("arm"); }
  void Attend(TimePoint /*now*/) override { attended.set_value(std::this_thread::get_id()); }

  std::vector<std::string> asked;
  std::promise<std::thread::id> attended;

 private:
  void Note(const std::string& what) {
    asked.push_back(what + (thread_.server().grpc() == nullptr ? " before" : " after"));
  }

  QueueThread& thread_;
  grpc::AsyncGenericService service_;
};

class QueueThreadTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kArenaBytes = 64u << 10;

  ~QueueThreadTest() override {
    if (is_running_) End(SteadyClock::now() + hours(1));
  }
  FakeGroup& Run() {
    auto group = std::make_unique<FakeGroup>(thread_);
    FakeGroup& added = *group;
    thread_.Add(std::move(group));
    EXPECT_EQ(thread_.StartServer(), absl::OkStatus());
    thread_.Start(std::make_unique<testing::PuppetLane>());
    is_running_ = true;
    return added;
  }
  void End(TimePoint until) {
    is_running_ = false;
    thread_.server().Shutdown(std::chrono::system_clock::now());
    thread_.ShutdownAndJoin(until);
  }

  static QueueThread::Options OnOneCore() {
    QueueThread::Options options;
    options.cores.set(CoresOfThread()._Find_first());
    return options;
  }

  testing::TestMemory memory_{kArenaBytes};
  Arena arena_{memory_.data(), kArenaBytes, 4096};
  Backlog backlog_{{}, arena_};
  UnreadBudget unread_{1u << 20};
  testing::CountingRecorder recorder_;
  QueueThread thread_{arena_, backlog_, unread_, OnOneCore(), QueueServer::Options(), recorder_};
  bool is_running_ = false;
};

TEST_F(QueueThreadTest, AGroupRegistersBeforeTheServerStartsAndArmsAfterwards) {
  const FakeGroup& group = Run();
  EXPECT_THAT(group.asked, ElementsAre("register before", "arm after"));
}

TEST_F(QueueThreadTest, AGroupAttendsOnTheThreadWhenAttentionIsRequested) {
  FakeGroup& group = Run();
  std::promise<std::thread::id> thread;
  thread_.RunSoon([&] { thread.set_value(std::this_thread::get_id()); });
  const std::thread::id of_thread = thread.get_future().get();
  std::future<std::thread::id> attended = group.attended.get_future();
  EXPECT_EQ(attended.wait_for(milliseconds(0)), std::future_status::timeout) << "attends unasked";
  thread_.RequestAttention();
  ASSERT_EQ(attended.wait_for(std::chrono::seconds(30)), std::future_status::ready) << "does not attend";
  EXPECT_EQ(attended.get(), of_thread);
}

TEST_F(QueueThreadTest, StaysOnItsCores) {
  Run();
  std::promise<CoreSet> cores;
  thread_.RunSoon([&] { cores.set_value(CoresOfThread()); });
  EXPECT_EQ(cores.get_future().get(), OnOneCore().cores);
}

TEST_F(QueueThreadTest, TheQueueIsShutDownWhenItsCallsHaveFreedThemselves) {
  bool freed = false;
  auto* const call = new FakeCall(thread_.calls(), &freed);
  Run();
  std::future<void> ended = std::async(std::launch::async, [this] { End(SteadyClock::now() + hours(1)); });
  EXPECT_EQ(ended.wait_for(milliseconds(50)), std::future_status::timeout) << "ends with a call left";
  thread_.RunSoon([call] { call->Proceed(false); });
  ended.get();
  EXPECT_TRUE(freed);
}

TEST_F(QueueThreadTest, ACallThatDoesNotEndHoldsUpTheEndUntilItsTimeOnly) {
  bool freed = false;
  auto* const call = new FakeCall(thread_.calls(), &freed);
  Run();
  End(SteadyClock::now() + milliseconds(1));
  EXPECT_FALSE(freed);
  call->Proceed(false);
}

}  // namespace
}  // namespace softmax::server

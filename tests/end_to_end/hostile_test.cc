// What a server on a network has to bear: each bad message gets its status, and nothing crashes, hangs or is kept.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "softmax/v1/softmax.grpc.pb.h"
#include "tests/end_to_end/faulty_service.h"
#include "tests/end_to_end/http2_client.h"
#include "tests/end_to_end/requests.h"
#include "tests/end_to_end/server_process.h"
#include "tests/end_to_end/service.h"
#include "tests/support/eventually.h"
#include "tests/support/malformed.h"

namespace softmax::testing {
namespace {

constexpr char kMethod[] = "/softmax.v1.SoftmaxService/Softmax";
constexpr char kInfer[] = "/inference.GRPCInferenceService/ModelInfer";

// One unary call with raw bytes; no message at all when `bytes` is null.
grpc::Status RawCall(const std::shared_ptr<grpc::Channel>& channel, const std::string* bytes, grpc::ByteBuffer* answer,
                     grpc_compression_algorithm compression = GRPC_COMPRESS_NONE, const char* method = kMethod) {
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  context.set_compression_algorithm(compression);
  auto call = stub.PrepareCall(&context, method, &queue);
  const auto wait = [&] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  call->StartCall(nullptr);
  wait();
  if (bytes != nullptr) {
    grpc::Slice slice(*bytes);
    call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
    wait();
  }
  call->WritesDone(nullptr);
  wait();
  call->Read(answer, nullptr);
  wait();
  grpc::Status status;
  call->Finish(&status, nullptr);
  wait();
  return status;
}

void ExpectServes(const Service& service) {
  const Question question = MakeQuestion({2, 100}, 1);
  const auto answer = service.NewClient()->Softmax(question.view(), question.options());
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(JudgeAnswer(question, answer->data()).ok);
}

TEST(Hostile, EveryMalformedMessageGetsItsStatus) {
  Service service([](server::Config& config) {
    config.arena_bytes = 256 << 20;
    config.max_request_bytes = config.max_response_bytes = 64 << 20;  // the cases' limits
  });
  const auto channel = service.NewChannel();
  int checked = 0;
  for (const MalformedCase& bad : MalformedCases()) {
    grpc::ByteBuffer answer;
    const grpc::Status status = RawCall(channel, &bad.bytes, &answer);
    EXPECT_EQ(status.error_code(), bad.code) << bad.name << ": " << status.error_message();
    EXPECT_NE(status.error_message().find(bad.must_say), std::string::npos)
        << bad.name << ": " << status.error_message();
    ++checked;
  }
  EXPECT_GE(checked, 1000);
  ExpectServes(service);
}

TEST(Hostile, CompressedRequestsAreRefusedByName) {
  Service service;
  const std::string bytes = RequestOfZeros({1000}).SerializeAsString();
  for (const char* const method : {kMethod, kInfer}) {
    for (const auto& [algorithm, name] : {std::pair{GRPC_COMPRESS_GZIP, "gzip"}, {GRPC_COMPRESS_DEFLATE, "deflate"}}) {
      grpc::ByteBuffer answer;
      const grpc::Status status = RawCall(service.NewChannel(), &bytes, &answer, algorithm, method);
      EXPECT_EQ(status.error_code(), grpc::UNIMPLEMENTED) << status.error_message();
      for (const char* const words : {name, "identity", "the client must send its messages uncompressed"}) {
        EXPECT_NE(status.error_message().find(words), std::string::npos) << status.error_message();
      }
    }
  }
  ExpectServes(service);
}

// What is compressed with something that gRPC does not know (zstd), or with nothing that is named.
TEST(Hostile, ACompressedFlagWithoutAKnownEncodingIsRefused) {
  Service service;
  v1::SoftmaxStreamRequest stream;
  const v1::SoftmaxRequest request = RequestOfZeros({2});
  *stream.add_requests() = request;
  for (const char* encoding : {"", "identity", "zstd"}) {
    for (const auto& [method, message] :
         {std::pair{"Softmax", request.SerializeAsString()}, {"SoftmaxStream", stream.SerializeAsString()}}) {
      for (const bool flag : {false, true}) {
        Http2Client client(service.target(), 65535u);
        std::string body = GrpcFrame(message);
        body[0] = static_cast<char>(flag);
        client.SendBody(client.StartCall(method, encoding), body, true);
        const std::string status = client.ReadStatus();
        EXPECT_EQ(status.rfind(flag ? "12" : "0", 0), 0u) << method << " " << encoding << ": " << status;
        EXPECT_EQ(status.find("grpc-encoding: unknown is not accepted") != std::string::npos, flag) << status;
      }
    }
  }
}

TEST(Hostile, ACallWithoutAMessageIsRefused) {
  Service service;
  grpc::ByteBuffer answer;
  const grpc::Status status = RawCall(service.NewChannel(), nullptr, &answer);
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT) << status.error_message();
  EXPECT_EQ(status.error_message(), "message: is absent; must be there once");
  ExpectServes(service);
}

// gRPC's own limit would answer above 1.5 times the limit with another code, no words of ours, and be counted nowhere.
// There a message is cut at its length, so that its request's id is not known, and a stream ends with the same words.
TEST(Hostile, ATensorAboveTheLimitIsRefusedAlikeWhateverItsSize) {
  ServerProcess server({"--max-request-bytes=1MiB", "--max-response-bytes=1MiB", "--arena-bytes=8MiB",
                        "--max-unread-bytes-per-connection=8MiB"});
  const auto channel = OwnChannel(server.target());
  constexpr std::int64_t kMostOfAMessage = 1'638'400;
  const auto expect_words = [&](const std::string& message, std::int64_t bytes, std::size_t message_bytes) {
    EXPECT_EQ(message, bytes < kMostOfAMessage
                           ? "input.data: the data and lengths have " + std::to_string(bytes) +
                                 " bytes; must be at most 1048576 (max_request_bytes)"
                           : "message: has " + std::to_string(message_bytes) + " bytes; must be at most 1638400");
  };
  const auto stub = v1::SoftmaxService::NewStub(channel);
  grpc::ClientContext context;
  const auto stream = stub->SoftmaxStream(&context);
  int refused = 0;
  for (const std::int64_t bytes : {(1 << 20) + 4, 3 << 19, (3 << 19) + (1 << 17), 4 << 20, 64 << 20}) {
    v1::SoftmaxStreamRequest message;
    v1::SoftmaxRequest& request = *message.add_requests();
    request = RequestOfZeros({bytes / 4}, static_cast<std::uint64_t>(bytes));
    const std::string text = request.SerializeAsString();
    grpc::ByteBuffer answer;
    const grpc::Status status = RawCall(channel, &text, &answer);
    EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT) << bytes << ": " << status.error_message();
    expect_words(status.error_message(), bytes, text.size());
    refused += 2;
    if (bytes > kMostOfAMessage) {
      grpc::ClientContext own;
      const auto ending = stub->SoftmaxStream(&own);
      ending->Write(message);
      const grpc::Status end = ending->Finish();
      EXPECT_EQ(end.error_code(), grpc::INVALID_ARGUMENT) << bytes;
      expect_words(end.error_message(), bytes, message.ByteSizeLong());
      continue;
    }
    // In a stream, which goes on.
    ASSERT_TRUE(stream->Write(message));
    v1::SoftmaxStreamResponse response;
    ASSERT_TRUE(stream->Read(&response)) << bytes;
    EXPECT_EQ(response.responses(0).id(), request.id());
    EXPECT_EQ(response.responses(0).status().code(), grpc::INVALID_ARGUMENT);
    expect_words(response.responses(0).status().message(), bytes, 0);
  }
  stream->WritesDone();
  EXPECT_EQ(stream->Finish().error_code(), grpc::OK);
  EXPECT_EQ(MetricOf(server.metrics(), R"(softmax_requests_rejected_total{reason="invalid"} )"),
            std::to_string(refused));
  EXPECT_EQ(MetricOf(server.metrics(),
                     R"(softmax_requests_total{method="Softmax",protocol="native",code="INVALID_ARGUMENT"} )"),
            std::to_string(refused / 2));
  EXPECT_EQ(
      MetricOf(server.metrics(), R"(softmax_requests_total{method="Softmax",protocol="native",code="CANCELLED"} )"),
      "");
}

TEST(Hostile, ManyMoreConnectionsThanDescriptors) {
  ServerProcess server({"--max-connections=16", "--threads=1", "--cpu-threads=1"}, 320);
  {
    std::vector<std::unique_ptr<Http2Client>> clients;
    for (int i = 0; i < 640; ++i) {
      clients.push_back(std::make_unique<Http2Client>(server.target(), 65535));
    }
  }
  client::ClientOptions options;
  options.target = server.target();
  options.deadline = std::chrono::seconds(1);
  const Question question = MakeQuestion({3}, 1);
  bool served = false;
  for (int attempt = 0; attempt < 3 && !served; ++attempt) {
    served = (*client::Client::Create(options))->Softmax(question.view()).ok();
  }
  EXPECT_TRUE(served) << server.Log();
}

// The server's end must not wait for a caller that does nothing.
TEST(Hostile, IdleCallsDoNotHoldUpTheEnd) {
  auto service =
      std::make_unique<Service>([](server::Config& config) { config.drain_timeout = std::chrono::milliseconds(300); });
  const auto channel = service->NewChannel();
  auto stub = v1::SoftmaxService::NewStub(channel);
  grpc::ClientContext context;
  auto stream = stub->SoftmaxStream(&context);
  v1::SoftmaxStreamRequest request;
  request.add_requests()->set_id(1);
  ASSERT_TRUE(stream->Write(request));
  v1::SoftmaxStreamResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.responses(0).status().code(), grpc::INVALID_ARGUMENT);
  Http2Client half(service->target(), 65535);
  half.SendBody(half.StartCall(), std::string(3, '\0'), false);  // a message that never comes
  const auto begin = std::chrono::steady_clock::now();
  service->Drain();
  service.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_EQ(stream->Finish().error_code(), grpc::UNAVAILABLE);
}

}  // namespace
}  // namespace softmax::testing

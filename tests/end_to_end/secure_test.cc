// TLS, client certificates and tokens, from outside.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <filesystem>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "grpc/health/v1/health.grpc.pb.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "server/rpc/security/token_set.h"
#include "softmax/v1/softmax.grpc.pb.h"
#include "tests/end_to_end/good_client.h"
#include "tests/end_to_end/http2_client.h"
#include "tests/end_to_end/oip_fixture.h"
#include "tests/end_to_end/server_process.h"
#include "tests/end_to_end/service.h"
#include "tests/support/environment.h"
#include "tests/support/eventually.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_certificates.h"

namespace softmax::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::chrono::seconds kDeadline(20);

// Junk instead of TLS. A sanitizer's program keeps freed memory back, and takes its time.
#if defined(__SANITIZE_ADDRESS__)
constexpr std::int64_t kJunkMayGrow = INT64_MAX;
constexpr double kJunkMayTakeMs = 1000;
#else
constexpr std::int64_t kJunkMayGrow = 64ll << 20;
constexpr double kJunkMayTakeMs = 200;  // without the defence: 1,100 to 1,900
#endif

std::string HexDigest(const std::string& token) {
  std::string text;
  for (const std::uint8_t byte : server::DigestOf(token)) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", byte);
    text += digits;
  }
  return text + "\n";
}

// A server with TLS, its files in a folder of the test.
class SecureTest : public ::testing::Test {
 protected:
  void Place(const client::Identity& identity) const {
    folder_.Write("cert.pem", identity.certificate);
    folder_.Write("key.pem", identity.private_key);
  }
  Service::Edit WithTls(const client::Identity* client_authority = nullptr) const {
    Place(first_);
    std::string ca = "none";
    if (client_authority != nullptr) ca = folder_.Write("ca.pem", client_authority->certificate);
    return [this, ca](server::Config& config) {
      config.tls_cert = folder_.path("cert.pem");
      config.tls_key = folder_.path("key.pem");
      config.tls_client_ca = ca;
    };
  }
  // One attempt a call: nothing that fails is made good by a retry.
  static client::ClientOptions Trusting(const std::string& authorities) {
    client::ClientOptions options;
    options.tls = client::TlsOptions{authorities};
    options.deadline = kDeadline;
    options.retry.max_attempts = 1;
    return options;
  }
  static absl::Status Call(const Service& service, const client::ClientOptions& options,
                           const Question& question = MakeQuestion({4, 100}, 1)) {
    const auto client = service.NewClient(options);
    const auto answer = client->Softmax(question.view(), question.options());
    if (answer.ok()) {
      EXPECT_TRUE(JudgeAnswer(question, answer->data()).ok);
    }
    return answer.status();
  }

  const client::Identity old_authority_ = client::MakeAuthority("old");
  const client::Identity new_authority_ = client::MakeAuthority("new");
  const client::Identity first_ = client::IssueFor("localhost", old_authority_, "127.0.0.1");
  const client::Identity second_ = client::IssueFor("localhost", new_authority_, "127.0.0.1");
  const TempFolder folder_;
};

TEST_F(SecureTest, AnswersLargeAndSmallOverTlsAndGivesEverySlabBack) {
  Service service(WithTls());
  const client::ClientOptions options = Trusting(old_authority_.certificate);
  EXPECT_EQ(Call(service, options), absl::OkStatus());
  EXPECT_EQ(Call(service, options, MakeQuestion({64, 1024}, 2)), absl::OkStatus());
  EXPECT_EQ(Call(service, options, MakeQuestion({1000, 3000}, 3)), absl::OkStatus());
}

// What the server takes for usable, gRPC and its clients take as well.
TEST_F(SecureTest, KeysOfEveryKindAreServed) {
  for (const char* kind : {"RSA-2048", "P-384", "P-521", "ED25519"}) {
    const client::Identity identity = client::IssueFor("localhost", old_authority_, "127.0.0.1", {.key = kind});
    const Service::Edit tls = WithTls();
    Place(identity);
    Service service(tls);
    EXPECT_EQ(Call(service, Trusting(old_authority_.certificate)), absl::OkStatus()) << kind;
  }
}

TEST_F(SecureTest, WhatNobodyCouldConnectToLaterIsNamedInTheLogAndNotUsed) {
  Place(first_);
  ServerProcess server({"--tls-cert=" + folder_.path("cert.pem"), "--tls-key=" + folder_.path("key.pem")});
  Place(client::IssueFor("localhost", old_authority_, "127.0.0.1", {.key = "RSA-1024"}));
  EXPECT_TRUE(server.LogComesToHave("the last good one stays: " + folder_.path("cert.pem") +
                                    ": no client could connect: ee key too small"))
      << server.Log();
  client::ClientOptions options = Trusting(old_authority_.certificate);
  options.target = server.target();
  const Question question = MakeQuestion({4, 100}, 1);
  EXPECT_EQ((*client::Client::Create(options))->Softmax(question.view(), question.options()).status(),
            absl::OkStatus());
}

TEST_F(SecureTest, PlainTextFindsNobody) {
  Service service(WithTls());
  client::ClientOptions plain;
  plain.deadline = std::chrono::seconds(3);
  EXPECT_EQ(Call(service, plain).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Call(service, Trusting(old_authority_.certificate)), absl::OkStatus());
}

TEST_F(SecureTest, AClientMustShowACertificateOfTheRightAuthority) {
  const client::Identity clients = client::MakeAuthority("clients");
  Service service(WithTls(&clients));
  client::ClientOptions options = Trusting(old_authority_.certificate);
  options.deadline = std::chrono::seconds(3);
  EXPECT_EQ(Call(service, options).code(), absl::StatusCode::kUnavailable);
  const client::Identity stranger = client::IssueFor("stranger", new_authority_);
  options.tls = client::TlsOptions{old_authority_.certificate, stranger.certificate, stranger.private_key};
  EXPECT_EQ(Call(service, options).code(), absl::StatusCode::kUnavailable);
  const client::Identity friendly = client::IssueFor("friend", clients);
  options.tls = client::TlsOptions{old_authority_.certificate, friendly.certificate, friendly.private_key};
  options.deadline = kDeadline;
  EXPECT_EQ(Call(service, options), absl::OkStatus());
}

// The certificate before its key, with a pause in between, again and again, while every call makes a connection of its
// own. At the end it is seen that the certificates did change.
TEST_F(SecureTest, CertificatesAreSwappedUnderLoadWithoutAFailedCall) {
  Service service(WithTls());
  const std::string both = old_authority_.certificate + new_authority_.certificate;
  std::atomic<bool> stop{false};
  std::atomic<int> on_new_connections{0}, on_old_connections{0}, failed{0};
  std::vector<std::jthread> callers;
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&, t] {
      const auto kept = service.NewClient(Trusting(both));
      const Question question = MakeQuestion({8, 300}, static_cast<std::uint64_t>(t));
      while (!stop) {
        const absl::Status fresh = Call(service, Trusting(both), question);
        const absl::Status old = kept->Softmax(question.view(), question.options()).status();
        fresh.ok() ? ++on_new_connections : ++failed;
        old.ok() ? ++on_old_connections : ++failed;
        if (!fresh.ok()) ADD_FAILURE() << fresh;
        if (!old.ok()) ADD_FAILURE() << old;
      }
    });
  }
  const auto more_connect = [&] {
    const int until = on_new_connections + 8;
    EXPECT_TRUE(Eventually([&] { return on_new_connections >= until; }));
  };
  for (int swap = 0; swap < 8; ++swap) {
    const client::Identity& next = swap % 2 == 0 ? second_ : first_;
    more_connect();
    folder_.Write("cert.pem", next.certificate);
    more_connect();
    service.server().RefreshSecrets();  // sees a certificate that is not the key's
    folder_.Write("key.pem", next.private_key);
    service.server().RefreshSecrets();
  }
  EXPECT_EQ(Call(service, Trusting(old_authority_.certificate)), absl::OkStatus());
  Place(second_);
  // The server's own look, without being told.
  client::ClientOptions patient = Trusting(new_authority_.certificate);
  patient.wait_for_ready = true;
  EXPECT_EQ(Call(service, patient), absl::OkStatus());
  client::ClientOptions outdated = Trusting(old_authority_.certificate);
  outdated.deadline = std::chrono::seconds(3);
  EXPECT_EQ(Call(service, outdated).code(), absl::StatusCode::kUnavailable);
  stop = true;
  callers.clear();
  EXPECT_EQ(failed, 0);
  EXPECT_GT(on_new_connections, 20);
  EXPECT_GT(on_old_connections, 20);
  std::printf("calls during 9 swaps: %d on new connections, %d on old ones, %d failed\n", on_new_connections.load(),
              on_old_connections.load(), failed.load());
}

// As in the clear: what was accepted is answered, and what comes later finds nobody.
TEST_F(SecureTest, ADrainUnderLoadLosesNoAcceptedCall) {
  Service service(WithTls());
  std::atomic<bool> stop{false};
  std::atomic<int> answered{0}, refused{0};
  std::vector<std::jthread> callers;
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&, t] {
      const auto client = service.NewClient(Trusting(old_authority_.certificate));
      const Question question = MakeQuestion({20 + t * 300, 50}, static_cast<std::uint64_t>(t));
      while (!stop) {
        const absl::Status status = client->Softmax(question.view(), question.options()).status();
        status.ok() ? ++answered : ++refused;
        if (status.ok()) continue;
        EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
        LetPass(std::chrono::milliseconds(5));  // leaves the server time to end
      }
    });
  }
  EXPECT_TRUE(Eventually([&] { return answered > 40; }));
  service.Drain();
  EXPECT_TRUE(Eventually([&] { return refused > 0; }));
  stop = true;
  callers.clear();
}

// A connection that begins a handshake and stops there ends, well before a keepalive would look at it.
TEST_F(SecureTest, AHandshakeThatStopsEnds) {
  Service service(WithTls());
  Http2Client stuck(service.target(), std::string("\x16\x03\x01\x02"));
  EXPECT_TRUE(stuck.connected());
  EXPECT_TRUE(stuck.ClosedWithin(30000));
}

// The status of each kind of call with this `authorization` header (none: null).
struct Statuses {
  grpc::StatusCode unary, stream, info, infer, metadata, reflection, health;
};

Statuses Ask(const Service& service, const char* authorization) {
  const auto channel = service.NewChannel();
  const auto stub = v1::SoftmaxService::NewStub(channel);
  const auto with_header = [&](grpc::ClientContext* context) {
    context->set_deadline(std::chrono::system_clock::now() + kDeadline);
    if (authorization != nullptr) context->AddMetadata("authorization", authorization);
  };
  grpc::ClientContext unary, stream, info, infer, metadata, reflection, health;
  for (grpc::ClientContext* context : {&unary, &stream, &info, &infer, &metadata, &reflection}) with_header(context);
  Statuses seen{};
  v1::SoftmaxRequest request;
  request.mutable_input()->set_dtype(v1::DATA_TYPE_FLOAT32);
  request.mutable_input()->add_shape(2);
  request.mutable_input()->set_data(std::string(8, '\0'));
  v1::SoftmaxResponse answer;
  seen.unary = stub->Softmax(&unary, request, &answer).error_code();
  v1::GetServerInfoResponse told;
  seen.info = stub->GetServerInfo(&info, {}, &told).error_code();
  const auto oip = inference::GRPCInferenceService::NewStub(channel);
  inference::ModelInferResponse inferred;
  seen.infer = oip->ModelInfer(&infer, RequestOf(MakeQuestion({2, 3}, 1)), &inferred).error_code();
  inference::ServerMetadataResponse told_too;
  seen.metadata = oip->ServerMetadata(&metadata, {}, &told_too).error_code();
  const auto open = stub->SoftmaxStream(&stream);
  v1::SoftmaxStreamRequest requests;
  *requests.add_requests() = request;
  open->Write(requests);
  open->WritesDone();
  for (v1::SoftmaxStreamResponse answers; open->Read(&answers);) {
  }
  seen.stream = open->Finish().error_code();
  const auto reflect = grpc::reflection::v1alpha::ServerReflection::NewStub(channel)->ServerReflectionInfo(&reflection);
  reflect->WritesDone();
  for (grpc::reflection::v1alpha::ServerReflectionResponse response; reflect->Read(&response);) {
  }
  seen.reflection = reflect->Finish().error_code();
  grpc::health::v1::HealthCheckResponse status;
  seen.health = grpc::health::v1::Health::NewStub(channel)->Check(&health, {}, &status).error_code();
  return seen;
}

void ExpectAll(const Statuses& seen, grpc::StatusCode code) {
  EXPECT_EQ(seen.unary, code);
  EXPECT_EQ(seen.stream, code);
  EXPECT_EQ(seen.info, code);
  EXPECT_EQ(seen.infer, code);
  EXPECT_EQ(seen.metadata, code);
  EXPECT_EQ(seen.reflection, code);
  EXPECT_EQ(seen.health, grpc::OK);  // probes have no tokens
}

TEST(Tokens, LetInWhoHasOne) {
  const TempFolder folder;
  Service service([&](server::Config& config) { config.token_file = folder.Write("tokens", HexDigest("secret")); });
  for (const char* bad : {"secret", "Basic c2VjcmV0", "Bearer ", "Bearer se cret"}) {
    ExpectAll(Ask(service, bad), grpc::UNAUTHENTICATED);
  }
  ExpectAll(Ask(service, nullptr), grpc::UNAUTHENTICATED);
  ExpectAll(Ask(service, "Bearer Secret"), grpc::PERMISSION_DENIED);
  ExpectAll(Ask(service, "Bearer secret"), grpc::OK);
}

TEST(Tokens, ChangeWithTheFile) {
  const TempFolder folder;
  Service service([&](server::Config& config) { config.token_file = folder.Write("tokens", HexDigest("one")); });
  ExpectAll(Ask(service, "Bearer one"), grpc::OK);
  folder.Write("tokens", "rubbish");
  service.server().RefreshSecrets();
  ExpectAll(Ask(service, "Bearer one"), grpc::OK);
  folder.Write("tokens", HexDigest("two"));
  EXPECT_TRUE(Eventually([&] { return Ask(service, "Bearer two").unary == grpc::OK; }));  // without being told
  ExpectAll(Ask(service, "Bearer two"), grpc::OK);
  ExpectAll(Ask(service, "Bearer one"), grpc::PERMISSION_DENIED);
}

TEST_F(SecureTest, TheClientLibraryBringsItsToken) {
  const Service::Edit tls = WithTls();
  folder_.Write("tokens", HexDigest("secret"));
  Service service([&](server::Config& config) {
    tls(config);
    config.token_file = folder_.path("tokens");
  });
  client::ClientOptions options = Trusting(old_authority_.certificate);
  EXPECT_EQ(Call(service, options).code(), absl::StatusCode::kUnauthenticated);
  options.bearer_token = [] { return std::string("wrong"); };
  EXPECT_EQ(Call(service, options).code(), absl::StatusCode::kPermissionDenied);
  options.bearer_token = [] { return std::string("secret"); };
  EXPECT_EQ(Call(service, options, MakeQuestion({1000, 1000}, 1)), absl::OkStatus());
}

// Anybody can cause a failed handshake: they do not fill the log.
TEST_F(SecureTest, FailedHandshakesAreAFewLinesInTheLog) {
  Place(first_);
  ServerProcess server({"--tls-cert=" + folder_.path("cert.pem"), "--tls-key=" + folder_.path("key.pem")});
  const std::string before = server.Log();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 200; ++i) {
    Http2Client rude(server.target(),
                     std::string("\x16\x03\x01\x00\x40\x01\x00\x00\x3c\x03\x03", 11) + std::string(58, 'z'));
    EXPECT_TRUE(rude.ClosedWithin(10000));
  }
  const std::string log = server.Log().substr(before.size());
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - begin).count();
  const auto lines = std::count(log.begin(), log.end(), '\n');
  EXPECT_THAT(log, HasSubstr("warning ["));
  EXPECT_THAT(log, HasSubstr("gRPC: "));
  EXPECT_LE(lines, seconds + 2) << log;
}

// What a connection sends that begins as TLS and goes on with junk: to what cannot be a hello, and to what may be one.
class TlsJunk : public SecureTest, public ::testing::WithParamInterface<std::string> {
 protected:
  // So many connections at most wait for the server to end them.
  static constexpr std::size_t kHeld = 256;

  // As many connections as fit into the time, each left to the server to end. How many.
  static int Send(const std::string& target, std::chrono::milliseconds time) {
    const auto end = std::chrono::steady_clock::now() + time;
    std::deque<Http2Client> held;
    int connections = 0;
    for (; std::chrono::steady_clock::now() < end; ++connections) {
      held.emplace_back(target, GetParam());
      if (held.size() > kHeld) held.pop_front();
    }
    return connections;
  }

  static std::size_t DescriptorsOf(pid_t pid) {
    const std::filesystem::directory_iterator all("/proc/" + std::to_string(pid) + "/fd");
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }
};

TEST_P(TlsJunk, CostsGoodClientsLittleAndHoldsNothing) {
  Place(first_);
  ServerProcess server({"--tls-cert=" + folder_.path("cert.pem"), "--tls-key=" + folder_.path("key.pem")});
  client::ClientOptions options = Trusting(old_authority_.certificate);
  options.target = server.target();
  const auto p99 = [&](std::chrono::milliseconds time) {
    GoodClient good(options);
    LetPass(time);
    return good.P99Ms();
  };
  (void)p99(std::chrono::milliseconds(300));
  const double alone = p99(std::chrono::seconds(1));
  const std::size_t descriptors = DescriptorsOf(server.pid());
  const std::int64_t memory = server.PeakResidentBytes();
  auto junk = std::async(std::launch::async, [&] { return Send(server.target(), std::chrono::milliseconds(3000)); });
  (void)p99(std::chrono::seconds(1));
  const double beside = p99(std::chrono::milliseconds(1500));
  const std::size_t most = DescriptorsOf(server.pid());
  const int connections = junk.get();
  EXPECT_GT(connections, 100);
  EXPECT_TRUE(Eventually([&] { return DescriptorsOf(server.pid()) <= descriptors; }));
  EXPECT_LT(most, descriptors + 2 * kHeld);
  EXPECT_LT(server.PeakResidentBytes() - memory, kJunkMayGrow);
  EXPECT_LT(beside, kJunkMayTakeMs);
  if (IsOn("SOFTMAX_TEST_PRINT")) {
    std::printf("%d connections, good p99 %.2f ms -> %.2f ms, descriptors %zu -> %zu, grew %.1f MiB\n", connections,
                alone, beside, descriptors, most, static_cast<double>(server.PeakResidentBytes() - memory) / (1 << 20));
  }
}

INSTANTIATE_TEST_SUITE_P(SecureTest, TlsJunk,
                         ::testing::Values("\x16\x03\x01" + std::string(200, 'z'),
                                           std::string("\x16\x03\x01\x00\x40\x01\x00\x00\x3c\x03\x03", 11) +
                                               std::string(58, 'z')),
                         [](const auto& info) { return info.index == 0 ? "NoHello" : "BrokenHello"; });

TEST_F(SecureTest, WhatCannotBeServedWithIsOneLineAndExitCode2) {
  Place(first_);
  const std::string cert = "--tls-cert=" + folder_.path("cert.pem");
  const std::string key = "--tls-key=" + folder_.path("key.pem");
  folder_.Write("other.pem", second_.private_key);
  folder_.Write("rubbish", "rubbish");
  const client::Identity small = client::IssueFor("localhost", old_authority_, "", {.key = "RSA-1024"});
  const std::string small_cert = "--tls-cert=" + folder_.Write("small_cert.pem", small.certificate);
  const std::string small_key = "--tls-key=" + folder_.Write("small_key.pem", small.private_key);
  const struct {
    std::vector<std::string> flags;
    const char* says;
  } cases[] = {{{cert}, "--tls-key=none"},
               {{cert, "--tls-key=" + folder_.path("gone")}, "No such file"},
               {{cert, "--tls-key=" + folder_.path("other.pem")}, "is not the key of the certificate"},
               {{"--tls-cert=" + folder_.path("rubbish"), key}, "holds no certificate"},
               {{small_key, small_cert}, "small_cert.pem: no client could connect: ee key too small"},
               {{cert, key, "--tls-client-ca=" + folder_.path("rubbish")}, "holds no certificate"},
               {{"--token-file=" + folder_.path("rubbish")}, "line 1"}};
  for (const auto& [flags, says] : cases) {
    ServerProcess server(flags, ServerProcess::MayFail());
    EXPECT_EQ(server.Wait(5000), 2) << server.Log();
    EXPECT_THAT(server.Log(), HasSubstr(says));
    EXPECT_THAT(server.Log(), HasSubstr(flags.back().substr(0, flags.back().find('='))));
  }
}

}  // namespace
}  // namespace softmax::testing

#include "tests/end_to_end/faulty_service.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "grpc/health/v1/health.grpc.pb.h"
#include "tests/support/eventually.h"

namespace softmax::testing {

Callers::Callers(std::string target) : target_(std::move(target)) {
  for (int i = 0; i < 4; ++i) threads_.emplace_back([this, i] { Call(i); });
}

void Callers::Stop() {
  stop_ = true;
  threads_.clear();
}

bool Callers::GetRightAnswers(int more) const {
  const int until = counts_.right + more;
  return Eventually([&] { return counts_.right >= until; });
}

void Callers::Call(int number) {
  const auto client = *client::Client::Create({.target = target_, .retry = {.max_attempts = 1}});
  const Question question = MakeQuestion({10 + number, 200}, static_cast<std::uint64_t>(number));
  while (!stop_) {
    const auto answer = client->Softmax(question.view(), question.options());
    if (answer.ok()) {
      ++(JudgeAnswer(question, answer->data()).ok ? counts_.right : counts_.wrong);
    } else if (absl::IsInternal(answer.status())) {
      ++counts_.internal;
    } else if (absl::IsUnavailable(answer.status())) {
      ++counts_.unavailable;
      LetPass(std::chrono::milliseconds(5));  // leaves the server time to end, or to come back
    } else {
      ++counts_.other;
      ADD_FAILURE() << answer.status();
    }
  }
}

std::vector<std::string> WithFault(const std::string& fault, const std::vector<std::string>& more) {
  std::vector<std::string> flags = {"--unsafe-testing", "--fault=" + fault, "--device-timeout=1s",
                                    "--drain-delay=300ms", "--drain-timeout=5s"};
  for (const std::string& flag : more) {
    const std::string name = flag.substr(0, flag.find('=') + 1);
    std::erase_if(flags, [&](const std::string& other) { return other.rfind(name, 0) == 0; });
    flags.push_back(flag);
  }
  return flags;
}

client::ServerInfo InfoOf(const std::string& target) {
  const auto client = *client::Client::Create({.target = target});
  const auto info = client->GetServerInfo();
  EXPECT_TRUE(info.ok()) << info.status();
  return info.ok() ? *info : client::ServerInfo();
}

std::int64_t NumberOf(const ServerProcess& server, const std::string& series) {
  const std::string text = MetricOf(server.metrics(), series);
  return text.empty() ? -1 : std::stoll(text);
}

std::string HealthOf(const std::string& target, const std::string& service) {
  const auto stub = grpc::health::v1::Health::NewStub(grpc::CreateChannel(target, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  grpc::health::v1::HealthCheckResponse answer;
  const grpc::Status status = stub->Check(&context, request, &answer);
  if (!status.ok()) return status.error_message();
  return grpc::health::v1::HealthCheckResponse::ServingStatus_Name(answer.status());
}

bool OnGpu() {
  const char* const backend = std::getenv("SOFTMAX_TEST_BACKEND");
  return backend != nullptr && std::string(backend) == "cuda";
}

}  // namespace softmax::testing

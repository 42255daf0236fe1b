// Tensors in memory that the server shares with its clients, through the whole server and the client library.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <vector>

#include "tests/end_to_end/server_process.h"
#include "tests/end_to_end/service.h"
#include "tests/support/eventually.h"
#include "tests/support/run_program.h"
#include "tests/support/temp_folder.h"

namespace softmax::testing {
namespace {

using client::Memory;
using client::Region;
using ::testing::HasSubstr;

constexpr std::chrono::seconds kLongEnough(60);

class SharedTensors : public ::testing::Test {
 protected:
  explicit SharedTensors(const Service::Edit& edit = {})
      : service_([this, &edit](server::Config& config) {
          config.regions_socket = folder_.path("regions.sock");
          config.regions_bytes = 256 << 20;
          if (edit) edit(config);
        }) {}

  TempFolder folder_;
  Service service_;
  const std::unique_ptr<client::Client> client_ = service_.NewClient();
};

std::size_t BytesOfAnswer(const Question& question) {
  return question.data.size() / kernels::SizeOf(question.input_type) * kernels::SizeOf(question.output_type);
}

// The question with its input at that place.
client::TensorView PutInto(const Region& region, std::size_t offset, const Question& question) {
  EXPECT_TRUE(region.Write(offset, question.data).ok());
  client::TensorView view = question.view();
  view.data = region.At<std::byte>(offset, question.data.size());
  return view;
}

void ExpectRightAnswer(const Question& question, const absl::StatusOr<client::Tensor>& answer) {
  ASSERT_TRUE(answer.ok()) << answer.status();
  const kernels::Judgement judgement = JudgeAnswer(question, answer->data());
  EXPECT_TRUE(judgement.ok) << judgement.message;
}

TEST_F(SharedTensors, EveryTypeShapeAndAxisInEveryArrangement) {
  const Region region = *client_->AllocateRegion(1 << 20);
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const Question question = RandomQuestion(seed, 20000);
    client::SoftmaxOptions options = question.options();
    ExpectRightAnswer(question, client_->Softmax(PutInto(region, 0, question), options));
    const std::size_t apart = (question.data.size() + 15) / 16 * 16;
    options.output = region.At<std::byte>(apart, BytesOfAnswer(question));
    ExpectRightAnswer(question, client_->Softmax(PutInto(region, 0, question), options));
    ExpectRightAnswer(question, client_->Softmax(question.view(), options));
    if (BytesOfAnswer(question) != question.data.size()) continue;
    options.output = region.At<std::byte>(0, BytesOfAnswer(question));
    ExpectRightAnswer(question, client_->Softmax(PutInto(region, 0, question), options));
  }
}

TEST_F(SharedTensors, AServerThatComesBackGivesNewOnes) {
  const TempFolder folder;
  const std::string socket = folder.path("grpc.sock");
  const std::vector<std::string> flags = {"--backend=cpu", "--address=unix:" + socket,
                                          "--regions-socket=" + folder.path("regions.sock")};
  auto server = std::make_unique<ServerProcess>(flags);
  const auto client = *client::Client::Create({.target = "unix:" + socket, .wait_for_ready = true});
  const Question question = MakeQuestion({4, 1000}, 1);
  const Region region = *client->AllocateRegion(1 << 20);
  ExpectRightAnswer(question, client->Softmax(PutInto(region, 0, question)));
  server->Signal(SIGKILL);
  server->Wait(5000);
  server = std::make_unique<ServerProcess>(flags);
  const auto gone = client->Softmax(PutInto(region, 0, question));
  EXPECT_EQ(gone.status().code(), absl::StatusCode::kNotFound) << gone.status();
  EXPECT_THAT(gone.status().message(), HasSubstr("input.place.region"));
  const auto next = client->AllocateRegion(1 << 20);
  ASSERT_TRUE(next.ok()) << next.status();
  ExpectRightAnswer(question, client->Softmax(PutInto(*next, 0, question)));
}

std::vector<std::string> LoadOf(const std::string& target, const std::string& where) {
  return {
      "--address",     target,        "--regions",   where, "--shape",  "16x1000", "--dtype",     "float32,bfloat16",
      "--answer",      "tensor,top5", "--duration",  "0.2", "--warmup", "0",       "--processes", "1",
      "--connections", "2",           "--in-flight", "4",   "--verify", "1",       "--json",      "-"};
}

// Answers that came in the message instead would be of a wrong size.
TEST_F(SharedTensors, TheLoadGeneratorSendsFromThemAndJudgesTheAnswers) {
  for (const char* const where : {"host", "auto"}) {
    for (const bool stream : {false, true}) {
      std::vector<std::string> load = LoadOf(service_.target(), where);
      if (stream) load.insert(load.end(), {"--stream", "--requests-per-message", "2"});
      const client::ProgramResult result = client::RunProgram(SOFTMAX_LOADGEN, load);
      EXPECT_EQ(result.exit_code, 0) << result.err;
      const nlohmann::json run = nlohmann::json::parse(result.out)["runs"][0];
      EXPECT_EQ(run["errors"], nlohmann::json::object()) << run["first_error"];
      EXPECT_GT(run["sent"], 8);
    }
  }
}

TEST_F(SharedTensors, WithoutThemTheProgramsSaySoOrSendMessages) {
  const Service plain;
  const client::ProgramResult refused = client::RunProgram(SOFTMAX_LOADGEN, LoadOf(plain.target(), "host"));
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_THAT(refused.err, HasSubstr("shares no memory (--regions-socket)"));
  EXPECT_EQ(client::RunProgram(SOFTMAX_LOADGEN, LoadOf(plain.target(), "auto")).exit_code, 0);
  const std::string numbers = "1 2 3";
  const auto there = client::RunProgram(SOFTMAX_CLIENT, {"--address", service_.target(), "--regions"}, numbers);
  const auto sent = client::RunProgram(SOFTMAX_CLIENT, {"--address", plain.target()}, numbers);
  EXPECT_EQ(there.exit_code, 0) << there.err;
  EXPECT_EQ(there.out, sent.out);
  const auto none = client::RunProgram(SOFTMAX_CLIENT, {"--address", plain.target(), "--regions"}, numbers);
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.err, HasSubstr("shares no memory"));
}

// The automatic mode against a server that goes and comes back: every call is answered.
TEST(AutomaticRegions, OutliveTheServer) {
  const TempFolder folder;
  const std::string socket = folder.path("grpc.sock");
  const std::vector<std::string> flags = {"--backend=cpu", "--address=unix:" + socket,
                                          "--regions-socket=" + folder.path("regions.sock")};
  const auto client = *client::Client::Create({.target = "unix:" + socket,
                                               .deadline = kLongEnough,
                                               .wait_for_ready = true,
                                               .regions = client::RegionUse::kAuto});
  const Question question = MakeQuestion({64, 1000}, 1);
  for (int life = 0; life < 2; ++life) {
    ServerProcess server(flags);
    for (int i = 0; i < 200; ++i) ExpectRightAnswer(question, client->Softmax(question.view()));
    server.Signal(SIGKILL);
    server.Wait(5000);
  }
}

}  // namespace
}  // namespace softmax::testing

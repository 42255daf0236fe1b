// Requests whose answers cost far more than they do, from one connection that reads nothing: they cost it its share,
// and others next to nothing.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "inference/inference.pb.h"
#include "softmax/v1/softmax.pb.h"
#include "tests/end_to_end/faulty_service.h"
#include "tests/end_to_end/good_client.h"
#include "tests/end_to_end/http2_client.h"
#include "tests/end_to_end/server_process.h"
#include "tests/support/environment.h"
#include "tests/support/sanitized.h"

namespace softmax::testing {
namespace {

constexpr std::int64_t kShare = 16 << 20;
// What it has unanswered, an eighth of the quota, what it has unread, an answer more, and the calls.
constexpr std::int64_t kAttackMayGrow = (64 << 20) + kShare + (48 << 20);

v1::SoftmaxRequest BestOf(std::int64_t rows, std::int64_t columns, std::uint32_t top_k) {
  v1::SoftmaxRequest request;
  request.set_id(7);
  request.mutable_input()->set_dtype(v1::DATA_TYPE_FLOAT16);
  request.mutable_input()->add_shape(rows);
  request.mutable_input()->add_shape(columns);
  request.mutable_input()->set_data(std::string(static_cast<std::size_t>(rows * columns) * 2, '\x11'));
  request.mutable_summary()->set_top_k(top_k);
  return request;
}

// Values of 300 digits, each of which is to be a text.
inference::ModelInferRequest Texts(std::int64_t rows, std::int64_t columns) {
  inference::ModelInferRequest request;
  request.set_model_name("log_softmax");
  auto* const input = request.add_inputs();
  input->set_name("X");
  input->set_datatype("FP64");
  input->add_shape(rows);
  input->add_shape(columns);
  std::string data;
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    const double value = -1e300 * static_cast<double>(i);
    data.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  request.add_raw_input_contents(data);
  auto* const output = request.add_outputs();
  output->set_name("Y");
  (*output->mutable_parameters())["classification"].set_int64_param(1024);
  return request;
}

struct Case {
  std::string name;
  std::string method;
  std::string message;
  int calls = 250;
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

std::vector<Case> Cases() {
  v1::SoftmaxStreamRequest small;
  for (int i = 0; i < 1024; ++i) *small.add_requests() = BestOf(2, 1, 1024);
  v1::SoftmaxRequest entropies = BestOf(1 << 20, 1, 0);
  entropies.mutable_summary()->set_entropy(true);
  inference::ModelInferRequest texts = Texts(150, 1024);
  return {{"MuchLargerThanTheirRequests", "Softmax", BestOf(2700, 1, 1024).SerializeAsString()},
          {"OfManySmallRequestsOfStreams", "SoftmaxStream", small.SerializeAsString()},
          {"ThatAreTexts", "/inference.GRPCInferenceService/ModelInfer", texts.SerializeAsString(), 40},
          {"ThatTakeLongToCompute", "Softmax", entropies.SerializeAsString(), 16}};
}

// SOFTMAX_TEST_FLOOD_CONNECTIONS=8 is the long form.
int Attackers() {
  const char* const number = std::getenv("SOFTMAX_TEST_FLOOD_CONNECTIONS");
  return number == nullptr ? 1 : std::atoi(number);
}

// The connection with all that it sends, of which no answer is read.
std::unique_ptr<Http2Client> AttackOf(const std::string& target, const Case& attack) {
  auto attacker = std::make_unique<Http2Client>(target, /*window=*/0);
  for (int i = 0; i < attack.calls; ++i) {
    const std::uint32_t stream = attacker->StartCall(attack.method);
    if (!attacker->SendBody(stream, GrpcFrame(attack.message), attack.method != "SoftmaxStream")) break;
  }
  return attacker;
}

class CostlyAnswers : public ::testing::TestWithParam<Case> {};

TEST_P(CostlyAnswers, OfOneConnectionCostItsShare) {
  const Case& attack = GetParam();
  ServerProcess server(
      {"--backend=cpu", "--memory-quota=512MiB", "--max-unread-bytes-per-connection=16MiB", "--answer-timeout=5s"});
  GoodClient good(server.target());
  EXPECT_TRUE(good.IsUnderWay());
  const std::int64_t before = server.PeakResidentBytes();
  std::vector<std::future<std::unique_ptr<Http2Client>>> attacks;
  for (int i = 0; i < Attackers(); ++i) {
    attacks.push_back(std::async(std::launch::async, [&] { return AttackOf(server.target(), attack); }));
  }
  std::vector<std::unique_ptr<Http2Client>> attackers;
  for (auto& one : attacks) attackers.push_back(one.get());
  LetPass(std::chrono::seconds(2));
  const std::int64_t grown = server.PeakResidentBytes() - before;
  if (!kIsSanitized) {
    EXPECT_LT(grown, kAttackMayGrow * Attackers());
  }
  attackers.clear();
  const double p99 = good.P99Ms();
  if (IsOn("SOFTMAX_TEST_PRINT")) {
    std::printf("%-40s good p99 %6.2f ms, grew %4.1f MiB\n", attack.name.c_str(), p99,
                static_cast<double>(grown) / (1 << 20));
  }
  EXPECT_TRUE(Eventually([&] { return NumberOf(server, R"(softmax_slabs{state="used"} )") == 0; }));
}

INSTANTIATE_TEST_SUITE_P(Kinds, CostlyAnswers, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace softmax::testing

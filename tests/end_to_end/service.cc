#include "tests/end_to_end/service.h"

#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "common/base/process_settings.h"
#include "tests/end_to_end/requests.h"
#include "tests/support/all_operations.h"
#include "tests/support/environment.h"
#include "tests/support/eventually.h"
#include "tests/support/kernel_cases.h"

namespace softmax::testing {
namespace {

server::Backend BackendUnderTest() {
  const char* const name = std::getenv("SOFTMAX_TEST_BACKEND");
  return name != nullptr && std::string(name) == "cuda" ? server::Backend::kCuda : server::Backend::kCpu;
}

// Where the environment asks for a GPU and there is none, every test is skipped, in words that ctest knows.
class GpuOrSkip final : public ::testing::Environment {
 public:
  void SetUp() override {
    if (BackendUnderTest() == server::Backend::kCuda && access("/dev/nvidiactl", F_OK) != 0) {
      GTEST_SKIP() << "SKIPPED: no GPU";
    }
  }
};
const ::testing::Environment* const kGpuOrSkip = ::testing::AddGlobalTestEnvironment(new GpuOrSkip);

}  // namespace

Service::Service(const Edit& edit) {
  static const bool applied = (ApplyProcessSettings(), SetPoller(/*own_sockets=*/true), true);
  (void)applied;
  config_.address = {"127.0.0.1:0"};
  config_.metrics_address = "127.0.0.1:0";
  config_.backend = BackendUnderTest();
  config_.threads = 2;
  config_.cpu_threads = 2;
  config_.arena_bytes = 64 << 20;
  config_.max_request_bytes = config_.max_response_bytes = 16 << 20;
  if (IsOn("SOFTMAX_TEST_GATHER")) {
    // The path of a GPU's server: inputs that no thread copies.
    config_.fault = "gather";
    config_.unsafe_testing = true;
    config_.gather_bytes = 4096;
  }
  if (edit) edit(config_);
  absl::StatusOr<std::unique_ptr<server::Server>> server = server::Server::Create(config_);
  if (!server.ok()) {
    ADD_FAILURE() << server.status();
    std::abort();
  }
  server_ = std::move(*server);
  target_ = server_->addresses().front();
  if (!server_->metrics_address().empty()) books_ = BooksOf(server_->metrics_address());
}

Service::~Service() {
  if (!books_.empty()) ExpectBooksAsBefore(books_, server_->metrics_address());
}

std::unique_ptr<client::Client> Service::NewClient(client::ClientOptions options) const {
  options.target = target_;
  auto client = client::Client::Create(options);
  EXPECT_TRUE(client.ok()) << client.status();
  return std::move(*client);
}

std::shared_ptr<grpc::Channel> Service::NewChannel() const { return OwnChannel(target_); }

std::int64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t size = 0, resident = 0;
  statm >> size >> resident;
  return resident * 4096;
}

client::TensorView Question::view() const { return {static_cast<client::DataType>(input_type), shape, data}; }

client::SoftmaxOptions Question::options() const {
  client::SoftmaxOptions options;
  options.operation = static_cast<client::Operation>(operation);
  options.axis = axis;
  options.scale = scale;
  options.output_dtype = static_cast<client::DataType>(output_type);
  options.lengths = lengths;
  return options;
}

Question MakeQuestion(std::vector<std::int64_t> shape, std::uint64_t seed, kernels::DataType input) {
  Question question;
  question.shape = std::move(shape);
  question.input_type = question.output_type = input;
  std::int64_t elements = 1;
  for (std::int64_t dim : question.shape) elements *= dim;
  question.data.resize(static_cast<std::size_t>(elements) * kernels::SizeOf(input));
  Random random(seed);
  for (std::int64_t i = 0; i < elements; ++i) {
    kernels::StoreElement(input, question.data.data(), i, random.Normal() * 3);
  }
  return question;
}

Question RandomQuestion(std::uint64_t seed, std::int64_t max_elements) {
  Random random(seed * 7919 + 1);
  std::vector<std::int64_t> shape;
  std::int64_t left = max_elements;
  const std::int64_t rank = 1 + random.Below(4);
  for (std::int64_t d = 0; d < rank; ++d) {
    const double limit = std::log(static_cast<double>(left) + 1) * random.Uniform();
    const std::int64_t dim = std::clamp<std::int64_t>(static_cast<std::int64_t>(std::exp(limit)), 1, left);
    shape.push_back(dim);
    left = std::max<std::int64_t>(1, left / dim);
  }
  const auto type = [&] { return static_cast<kernels::DataType>(1 + random.Below(4)); };
  Question question = MakeQuestion(shape, seed, type());
  if (random.Below(2) == 0) question.output_type = type();
  const auto operations = AllOperations();
  question.operation = operations[static_cast<std::size_t>(random.Below(3)) % operations.size()];
  question.axis = static_cast<int>(random.Below(rank));
  if (random.Below(3) == 0) question.scale = 0.1 + 2 * random.Uniform();
  if (random.Below(4) == 0) {
    const std::int64_t cols = shape[static_cast<std::size_t>(question.axis)];
    std::int64_t rows = 1;
    for (std::int64_t dim : shape) rows *= dim;
    rows /= cols;
    for (std::int64_t r = 0; r < rows; ++r) {
      question.lengths.push_back(static_cast<std::uint32_t>(random.Below(cols + 1)));
    }
  }
  return question;
}

v1::SoftmaxRequest NativeRequestOf(const Question& question, std::uint64_t id) {
  v1::SoftmaxRequest request;
  request.set_id(id);
  request.set_operation(static_cast<v1::Operation>(question.operation));
  request.set_axis(question.axis);
  request.set_scale(question.scale);
  request.set_output_dtype(static_cast<v1::DataType>(question.output_type));
  for (const std::uint32_t length : question.lengths) request.add_lengths(length);
  request.mutable_input()->set_dtype(static_cast<v1::DataType>(question.input_type));
  for (const std::int64_t dimension : question.shape) request.mutable_input()->add_shape(dimension);
  request.mutable_input()->set_data(question.data.data(), question.data.size());
  return request;
}

kernels::Segment SegmentOf(const Question& question) {
  const int rank = static_cast<int>(question.shape.size());
  const int axis = question.axis < 0 ? question.axis + rank : question.axis;
  kernels::Segment segment;
  segment.outer = segment.inner = 1;
  for (int d = 0; d < axis; ++d) segment.outer *= question.shape[static_cast<std::size_t>(d)];
  for (int d = axis + 1; d < rank; ++d) segment.inner *= question.shape[static_cast<std::size_t>(d)];
  segment.cols = question.shape[static_cast<std::size_t>(axis)];
  segment.input_stride = segment.output_stride = segment.cols * segment.inner;
  segment.scale = question.scale;
  segment.operation = question.operation;
  if (!question.lengths.empty()) segment.lengths = question.lengths.data();
  segment.input = question.data.data();
  return segment;
}

kernels::Judgement JudgeAnswer(const Question& question, std::span<const std::byte> answer) {
  kernels::Segment segment = SegmentOf(question);
  segment.output = const_cast<std::byte*>(answer.data());
  const std::size_t expected =
      question.data.size() / kernels::SizeOf(question.input_type) * kernels::SizeOf(question.output_type);
  if (answer.size() != expected) {
    kernels::Judgement judgement;
    judgement.ok = false;
    judgement.message = "the answer has " + std::to_string(answer.size()) + " bytes, not " + std::to_string(expected);
    return judgement;
  }
  return kernels::Judge(question.input_type, question.output_type, segment, kernels::Bounds::kUsual);
}

}  // namespace softmax::testing

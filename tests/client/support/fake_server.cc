#include "tests/client/support/fake_server.h"

#include <google/protobuf/util/message_differencer.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/reference.h"
#include "tests/support/all_operations.h"
#include "tests/support/eventually.h"

namespace softmax::client {
namespace {

constexpr std::chrono::hours kForEver(24);

struct Row {
  std::vector<double> values;
  std::size_t valid = 0;
};

// torch's softmax of one row in double; what lies beyond `valid` comes out as the operation's
// "nothing".
std::vector<double> ComputeRow(const Row& row, double scale, bool log) {
  const double kNan = std::numeric_limits<double>::quiet_NaN();
  const double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<double> out(row.values.size(), log ? -kInfinity : 0.0);
  double largest = -kInfinity;
  bool poisoned = row.valid == 0;
  for (std::size_t i = 0; i < row.valid; ++i) {
    const double x = row.values[i] * scale;
    poisoned = poisoned || std::isnan(x) || x == kInfinity;
    largest = std::max(largest, x);
  }
  if (poisoned || largest == -kInfinity) {
    const std::size_t end = row.valid == 0 ? out.size() : row.valid;
    std::fill(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(end), kNan);
    return out;
  }
  // Wider than double, so that float64 answers are right to the last bits too.
  using Wide = long double;
  const auto shifted = [&](std::size_t i) { return Wide{row.values[i]} * scale - largest; };
  Wide sum = 0;
  for (std::size_t i = 0; i < row.valid; ++i) sum += std::exp(shifted(i));
  for (std::size_t i = 0; i < row.valid; ++i) {
    out[i] = static_cast<double>(log ? shifted(i) - std::log(sum) : std::exp(shifted(i)) / sum);
  }
  return out;
}

grpc::Status Invalid(const std::string& message) { return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, message); }

}  // namespace

namespace {

grpc::Status Compute(const softmax::v1::SoftmaxRequest& request, softmax::v1::SoftmaxResponse* response) {
  const softmax::v1::Tensor& input = request.input();
  const int rank = input.shape_size();
  if (input.dtype() == softmax::v1::DATA_TYPE_UNSPECIFIED) return Invalid("input.dtype: 0");
  if (rank == 0) return Invalid("input.shape: rank 0");
  const int axis = request.has_axis() ? request.axis() : -1;
  const int at = axis < 0 ? axis + rank : axis;
  std::int64_t outer = 1;
  std::int64_t inner = 1;
  for (int i = 0; i < rank; ++i) (i < at ? outer : i > at ? inner : outer) *= i == at ? 1 : input.shape(i);
  const std::int64_t cols = input.shape(at);
  // The one size this server refuses, so that tests see how its message arrives.
  if (cols == 13) return Invalid("input.shape: dimension 13 is not allowed here");
  if (request.lengths_size() != 0 && request.lengths_size() != outer * inner) {
    return Invalid("lengths: " + std::to_string(request.lengths_size()) + " entries, expected " +
                   std::to_string(outer * inner));
  }
  const auto in_type = static_cast<kernels::DataType>(input.dtype());
  const auto out_type = request.output_dtype() == softmax::v1::DATA_TYPE_UNSPECIFIED
                            ? in_type
                            : static_cast<kernels::DataType>(request.output_dtype());
  std::vector<std::byte> aligned_in(input.data().size());
  std::copy_n(reinterpret_cast<const std::byte*>(input.data().data()), aligned_in.size(), aligned_in.begin());
  std::vector<std::byte> out(static_cast<std::size_t>(outer * cols * inner) * kernels::SizeOf(out_type));
  const double scale = request.has_scale() ? request.scale() : 1.0;
  const bool log = request.operation() != softmax::v1::OPERATION_UNSPECIFIED &&
                   kernels::TraitsOf(static_cast<kernels::Operation>(request.operation())).is_log;
  for (std::int64_t r = 0; r < outer * inner; ++r) {
    const auto index = [&](std::int64_t c) { return (r / inner * cols + c) * inner + r % inner; };
    Row row;
    for (std::int64_t c = 0; c < cols; ++c) {
      row.values.push_back(kernels::LoadElement(in_type, aligned_in.data(), index(c)));
    }
    row.valid = request.lengths_size() == 0 ? row.values.size() : request.lengths(static_cast<int>(r));
    const std::vector<double> values = ComputeRow(row, scale, log);
    for (std::int64_t c = 0; c < cols; ++c) {
      kernels::StoreElement(out_type, out.data(), index(c), values[static_cast<std::size_t>(c)]);
    }
  }
  response->set_id(request.id());
  response->mutable_timing()->set_execution_ns(1234);
  response->mutable_timing()->set_batch_rows(static_cast<std::uint64_t>(outer * inner));
  softmax::v1::Tensor* output = response->mutable_output();
  output->set_dtype(static_cast<softmax::v1::DataType>(out_type));
  *output->mutable_shape() = input.shape();
  output->set_data(out.data(), out.size());
  return grpc::Status::OK;
}

// The last large request and its answer: tests send the same one many times, and a double's worth of care takes time.
class LastAnswer {
 public:
  bool Find(const softmax::v1::SoftmaxRequest& request, softmax::v1::SoftmaxResponse* response) {
    std::lock_guard lock(mu_);
    if (answer_ == nullptr || request.input().data() != request_.input().data()) return false;
    if (!google::protobuf::util::MessageDifferencer::Equals(request, request_)) return false;
    *response = *answer_;
    return true;
  }
  void Keep(const softmax::v1::SoftmaxRequest& request, const softmax::v1::SoftmaxResponse& response) {
    std::lock_guard lock(mu_);
    request_ = request;
    answer_ = std::make_unique<softmax::v1::SoftmaxResponse>(response);
  }

 private:
  std::mutex mu_;
  softmax::v1::SoftmaxRequest request_;                   // guarded by mu_
  std::unique_ptr<softmax::v1::SoftmaxResponse> answer_;  // guarded by mu_
};

}  // namespace

grpc::Status ComputeAnswer(const softmax::v1::SoftmaxRequest& request, softmax::v1::SoftmaxResponse* response) {
  static LastAnswer last;
  const bool large = request.input().data().size() > 1 << 20;
  if (large && last.Find(request, response)) return grpc::Status::OK;
  const grpc::Status status = Compute(request, response);
  if (large && status.ok()) last.Keep(request, *response);
  return status;
}

class FakeServer::Service final : public softmax::v1::SoftmaxService::Service {
 public:
  explicit Service(FakeServer& server) : server_(server) {}

  grpc::Status Softmax(grpc::ServerContext* context, const softmax::v1::SoftmaxRequest* request,
                       softmax::v1::SoftmaxResponse* response) override {
    return Answer(*context, *request, response);
  }

  grpc::Status SoftmaxStream(grpc::ServerContext* context,
                             grpc::ServerReaderWriter<softmax::v1::SoftmaxStreamResponse,
                                                      softmax::v1::SoftmaxStreamRequest>* stream) override {
    softmax::v1::SoftmaxStreamRequest message;
    while (stream->Read(&message)) {
      if (server_.behavior_.break_streams) {
        return grpc::Status(grpc::StatusCode::ABORTED, "this stream breaks");
      }
      server_.largest_message_ = std::max(server_.largest_message_.load(), message.requests_size());
      softmax::v1::SoftmaxStreamResponse answers;
      for (int i = message.requests_size() - 1; i >= 0; --i) {
        softmax::v1::SoftmaxResponse* answer = answers.add_responses();
        const grpc::Status status = Answer(*context, message.requests(i), answer);
        answer->set_id(message.requests(i).id() + (server_.behavior_.unknown_ids ? 1000 : 0));
        if (status.ok()) continue;
        const int pushback = server_.behavior_.pushback_ms;
        if (pushback > 0) answer->mutable_status()->set_retry_after_ms(static_cast<std::uint32_t>(pushback));
        answer->mutable_status()->set_code(status.error_code());
        answer->mutable_status()->set_message(status.error_message());
      }
      if (!stream->Write(answers)) break;
    }
    return grpc::Status::OK;
  }

  grpc::Status GetServerInfo(grpc::ServerContext* context, const softmax::v1::GetServerInfoRequest* /*request*/,
                             softmax::v1::GetServerInfoResponse* response) override {
    ++server_.questions_;
    testing::Eventually([&] { return !server_.behavior_.leave_questions_open || context->IsCancelled(); }, kForEver);
    const bool few = server_.behavior_.few_abilities;
    response->set_version("1.2.3");
    response->set_build("test");
    response->set_backend("fake");
    response->add_devices("none");
    response->add_dtypes(softmax::v1::DATA_TYPE_FLOAT32);
    response->add_dtypes(softmax::v1::DATA_TYPE_FLOAT16);
    response->add_dtypes(softmax::v1::DATA_TYPE_BFLOAT16);
    if (!few) response->add_dtypes(softmax::v1::DATA_TYPE_FLOAT64);
    for (const auto operation : testing::AllOperations<softmax::v1::Operation>()) response->add_operations(operation);
    response->mutable_limits()->set_max_rank(8);
    response->mutable_limits()->set_max_request_bytes(few ? 3 << 20 : 123456789012);
    response->mutable_limits()->set_max_response_bytes(few ? 3 << 20 : 123456789012);
    if (const FakeRegions* const regions = server_.regions_; regions != nullptr) {
      response->mutable_regions()->set_socket(regions->path());
      response->mutable_regions()->set_max_bytes(1 << 30);
      response->mutable_regions()->set_max_bytes_per_connection(1 << 28);
      response->mutable_regions()->set_max_tensor_bytes(1 << 26);
    }
    return grpc::Status::OK;
  }

 private:
  grpc::Status Answer(grpc::ServerContext& context, const softmax::v1::SoftmaxRequest& request,
                      softmax::v1::SoftmaxResponse* response) {
    server_.Note(context);
    ++server_.requests_;  // whoever sees this finds the rest
    const auto begin = std::chrono::steady_clock::now();
    const auto is_due = [&] {
      const std::chrono::milliseconds delay(server_.behavior_.delay_ms);
      return std::chrono::steady_clock::now() - begin >= delay || context.IsCancelled();
    };
    testing::Eventually(is_due, kForEver, std::chrono::milliseconds(1));
    if (server_.behavior_.refuse) {
      return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "queue: full");
    }
    if (server_.behavior_.fail_next > 0 && server_.behavior_.fail_next-- > 0) {
      const int pushback = server_.behavior_.pushback_ms;
      if (pushback != kNoPushback) context.AddTrailingMetadata("grpc-retry-pushback-ms", std::to_string(pushback));
      return grpc::Status(static_cast<grpc::StatusCode>(server_.behavior_.fail_code.load()),
                          server_.behavior_.control_characters ? "\x1b[2Jnot\nnow\a" : "not now");
    }
    const FakeRegions* const regions = server_.regions_;
    if (regions != nullptr && (request.input().has_place() || request.has_output_place())) {
      ++server_.placed_;
      return AnswerPlaced(*regions, request, response);
    }
    const grpc::Status status = ComputeAnswer(request, response);
    if (!status.ok() || response->output().data().empty()) return status;
    const auto elements = static_cast<std::int64_t>(
        response->output().data().size() / kernels::SizeOf(static_cast<kernels::DataType>(response->output().dtype())));
    std::vector<std::int64_t> shape(response->output().shape().begin(), response->output().shape().end());
    if (server_.behavior_.flatten_answers) shape = {elements};
    if (server_.behavior_.undecodable_answers) shape = {elements, 1, 1, 1, 1, 1, 1, 1, 1};
    response->mutable_output()->mutable_shape()->Assign(shape.begin(), shape.end());
    std::string& data = *response->mutable_output()->mutable_data();
    // The low half of one element's bits: near enough to pass for right at a glance.
    if (server_.behavior_.wrong_values) data[data.size() - 3] = static_cast<char>(data[data.size() - 3] ^ 0x7f);
    if (server_.behavior_.swap_answers) {
      std::lock_guard lock(mu_);
      if (previous_.size() == data.size())
        data.swap(previous_);
      else
        previous_ = data;
    }
    return status;
  }

  static grpc::Status AnswerPlaced(const FakeRegions& regions, softmax::v1::SoftmaxRequest request,
                                   softmax::v1::SoftmaxResponse* response) {
    softmax::v1::Tensor& input = *request.mutable_input();
    if (input.has_place()) {
      std::size_t bytes = kernels::SizeOf(static_cast<kernels::DataType>(input.dtype()));
      for (const std::int64_t dimension : input.shape()) bytes *= static_cast<std::size_t>(dimension);
      const auto data = regions.At(input.place(), bytes);
      if (data.empty()) return grpc::Status(grpc::StatusCode::NOT_FOUND, "input.place.region: there is none");
      input.set_data(data.data(), data.size());
    }
    const grpc::Status status = ComputeAnswer(request, response);
    if (!status.ok() || !request.has_output_place()) return status;
    softmax::v1::Tensor& output = *response->mutable_output();
    const auto data = regions.At(request.output_place(), output.data().size());
    if (data.empty()) return grpc::Status(grpc::StatusCode::NOT_FOUND, "output_place.region: there is none");
    std::memcpy(data.data(), output.data().data(), data.size());
    output.clear_data();
    *output.mutable_place() = request.output_place();
    return grpc::Status::OK;
  }

  FakeServer& server_;
  std::mutex mu_;
  std::string previous_;  // guarded by mu_
};

class FakeServer::Health final : public grpc::health::v1::Health::Service {
 public:
  explicit Health(FakeServer& server) : behavior_(server.behavior_), checks_(server.health_checks_) {}

  grpc::Status Check(grpc::ServerContext* /*context*/, const grpc::health::v1::HealthCheckRequest* request,
                     grpc::health::v1::HealthCheckResponse* response) override {
    ++checks_;
    if (!request->service().empty() && request->service() != "softmax.v1.SoftmaxService") {
      return grpc::Status(grpc::StatusCode::NOT_FOUND, "unknown service");
    }
    response->set_status(behavior_.serving ? grpc::health::v1::HealthCheckResponse::SERVING
                                           : grpc::health::v1::HealthCheckResponse::NOT_SERVING);
    return grpc::Status::OK;
  }

  grpc::Status Watch(grpc::ServerContext* context, const grpc::health::v1::HealthCheckRequest* /*request*/,
                     grpc::ServerWriter<grpc::health::v1::HealthCheckResponse>* writer) override {
    bool told = !behavior_.serving;
    while (!context->IsCancelled()) {
      const bool serving = !told;
      const auto is_news = [&] { return behavior_.serving == serving || context->IsCancelled(); };
      if (!testing::Eventually(is_news, kForEver, std::chrono::milliseconds(2)) || context->IsCancelled()) continue;
      told = serving;
      grpc::health::v1::HealthCheckResponse response;
      response.set_status(serving ? grpc::health::v1::HealthCheckResponse::SERVING
                                  : grpc::health::v1::HealthCheckResponse::NOT_SERVING);
      writer->Write(response);
    }
    return grpc::Status::CANCELLED;
  }

 private:
  Behavior& behavior_;
  std::atomic<int>& checks_;
};

void FakeServer::Note(const grpc::ServerContext& context) {
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find("authorization");
  const grpc::string_ref authority = context.ExperimentalGetAuthority();
  std::lock_guard lock(mu_);
  arrivals_.push_back(std::chrono::steady_clock::now());
  peers_.insert(context.peer());
  authorization_ = found == metadata.end() ? "" : std::string(found->second.data(), found->second.size());
  authority_.assign(authority.data(), authority.size());
}

FakeServer::FakeServer(const std::string& listen_on, std::shared_ptr<grpc::ServerCredentials> credentials)
    : service_(std::make_unique<Service>(*this)), health_(std::make_unique<Health>(*this)) {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(listen_on, credentials ? credentials : grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(service_.get());
  builder.RegisterService(health_.get());
  builder.SetMaxReceiveMessageSize(-1);
  server_ = builder.BuildAndStart();
  address_ = listen_on.rfind("unix:", 0) == 0 ? listen_on : "127.0.0.1:" + std::to_string(port);
}

FakeServer::~FakeServer() { server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(2)); }

}  // namespace softmax::client

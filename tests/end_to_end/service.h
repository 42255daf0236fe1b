#pragma once

#include <grpcpp/channel.h>

#include <functional>
#include <memory>
#include <string>

#include "client/softmax_client/softmax_client.h"
#include "kernels/reference.h"
#include "server/app/server.h"
#include "softmax/v1/softmax.pb.h"
#include "tests/end_to_end/books.h"

namespace softmax::testing {

// A whole server in this process, on free loopback ports. The backend is the environment's SOFTMAX_TEST_BACKEND, or
// cpu: the same tests run on a GPU. A test that leaves something in its books (books.h) fails when it ends.
class Service {
 public:
  using Edit = std::function<void(server::Config&)>;

  // Small memory by default (64 MiB arena, 16 MiB messages), two queue threads.
  explicit Service(const Edit& edit = {});
  ~Service();

  const std::string& target() const { return target_; }
  server::Server& server() { return *server_; }
  const server::Config& config() const { return config_; }
  std::unique_ptr<client::Client> NewClient(client::ClientOptions options = {}) const;
  // A channel of its own connection, with room for large answers.
  std::shared_ptr<grpc::Channel> NewChannel() const;
  // Stops the server; the object stays for inspection.
  void Drain() { server_->Drain(); }
  // Ends the server at once, with calls under way: what they hold is not left behind.
  void EndAmongCalls() {
    books_.clear();
    server_.reset();
  }

 private:
  server::Config config_;
  std::unique_ptr<server::Server> server_;
  std::string target_;
  Books books_;  // at the start
};

// Resident memory of this process, in bytes.
std::int64_t ResidentBytes();

// A tensor of the given shape with values that tell elements apart, and what to ask for.
struct Question {
  kernels::DataType input_type = kernels::DataType::kFloat32;
  kernels::DataType output_type = kernels::DataType::kFloat32;
  kernels::Operation operation = kernels::Operation::kSoftmax;
  std::vector<std::int64_t> shape;
  int axis = -1;
  double scale = 1;
  std::vector<std::uint32_t> lengths;
  std::vector<std::byte> data;

  client::TensorView view() const;
  client::SoftmaxOptions options() const;
};
Question MakeQuestion(std::vector<std::int64_t> shape, std::uint64_t seed,
                      kernels::DataType input = kernels::DataType::kFloat32);
// Of random shape (up to max_elements), types, operation, axis, scale and lengths.
Question RandomQuestion(std::uint64_t seed, std::int64_t max_elements);

// What asks it of the native contract, its input in the message.
v1::SoftmaxRequest NativeRequestOf(const Question& question, std::uint64_t id = 0);
// Its rows as kernels see them, without a place for results. Borrows the question's data and lengths.
kernels::Segment SegmentOf(const Question& question);
// Judges an answer by kernels/reference.h.
kernels::Judgement JudgeAnswer(const Question& question, std::span<const std::byte> answer);

}  // namespace softmax::testing

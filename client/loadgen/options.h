#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/softmax_client/types.h"

namespace softmax::client {

// One kind of request and how often it is sent relative to the others.
struct ShapeSpec {
  std::vector<std::int64_t> shape;
  double weight = 1;
};

enum class Method { kUnary, kStream };

// kSample: a fraction of the answers is judged against the reference. kSizesOnly: for echo servers
// that compute nothing; only status and length of each answer are looked at.
enum class Checking { kSample, kSizesOnly };

// Everything that a run depends on, already validated.
struct LoadOptions {
  std::string address = "localhost:50051";
  int connections = 8;  // in total, dealt out to the processes
  int in_flight = 8;    // requests per connection
  int processes = 1;
  int threads = 2;  // completion-queue threads per process
  std::vector<ShapeSpec> shapes;
  DataType dtype = DataType::kFloat32;
  std::optional<DataType> output_dtype;
  Operation operation = Operation::kSoftmax;
  std::optional<std::int32_t> axis;
  std::optional<double> scale;
  Method method = Method::kUnary;
  int requests_per_message = 1;  // streams only
  std::chrono::nanoseconds duration = std::chrono::seconds(10);
  std::chrono::nanoseconds warmup = std::chrono::seconds(1);
  std::chrono::nanoseconds connect_timeout = std::chrono::seconds(5);
  std::chrono::nanoseconds timeout{0};  // per call, or per request on a stream; 0: none
  // Calls still open so long after the end are cancelled and counted as errors.
  std::chrono::nanoseconds grace = std::chrono::seconds(10);
  Checking checking = Checking::kSample;
  double verify_fraction = 0.01;
  std::uint64_t seed = 1;
  bool allow_errors = false;
  std::string json_path;  // empty: none; "-": standard output
  std::string csv_path;
  std::vector<int> server_pids;

  DataType answer_dtype() const { return output_dtype.value_or(dtype); }
};

// "4096x1024", or "4096x1024:3" with a weight.
std::optional<ShapeSpec> ParseShape(const std::string& text);
std::string ShapeText(const std::vector<std::int64_t>& shape);

// The shape of a payload of `bytes`: rows of at most 1024 columns where the number of elements
// allows it.
std::optional<ShapeSpec> ShapeForPayload(std::uint64_t bytes, DataType dtype);

// Reads the command line. Nothing: the program is to end with `*exit_code`, and what there is to
// say was said.
std::optional<LoadOptions> ParseCommandLine(int argc, char** argv, int* exit_code);

}  // namespace softmax::client

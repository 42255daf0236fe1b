// What the client library costs: one thread's throughput through it beside that of bare gRPC calls with the same bytes
// on a connection with the same settings, whose answers are looked at no further than their length. Both take turns on
// one server, an echo best of all: softmax-echo-server.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <functional>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "client/softmax_client/channel.h"
#include "client/softmax_client/softmax_client.h"
#include "client/softmax_client/wire.h"
#include "common/base/process_settings.h"

namespace softmax::client {
namespace {

using Clock = std::chrono::steady_clock;

struct BenchOptions {
  std::string address = "127.0.0.1:50061";
  std::uint64_t bytes = 16 << 20;
  int in_flight = 1;
  std::string call = "into";
  int pairs = 15;
  double seconds = 1;
  bool default_malloc = false;
};

// Runs `step` for so long; calls per second.
double RateOf(double seconds, const std::function<void()>& step) {
  const auto start = Clock::now();
  int calls = 0;
  double elapsed = 0;
  do {
    step();
    ++calls;
    elapsed = std::chrono::duration<double>(Clock::now() - start).count();
  } while (elapsed < seconds);
  return calls / elapsed;
}

// Bare calls, `in_flight` at a time.
class Raw {
 public:
  Raw(const BenchOptions& options, const std::vector<float>& values, const std::vector<std::int64_t>& shape)
      : stub_(CreateChannel(options.address, ChannelSettings())), calls_(static_cast<std::size_t>(options.in_flight)) {
    RequestFields fields;
    fields.dtype = DataType::kFloat32;
    fields.shape = shape;
    fields.data_bytes = values.size() * sizeof(float);
    AppendRequestHeader(fields, Framing::kUnary, &message_);
    message_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    for (Call& call : calls_) Send(call);
  }
  ~Raw() {
    for (Call& call : calls_) call.context->TryCancel();
    queue_.Shutdown();
    void* tag = nullptr;
    for (bool ok = false; queue_.Next(&tag, &ok);) {
    }
  }

  // One answer taken, one request sent.
  void Step() {
    void* tag = nullptr;
    bool ok = false;
    queue_.Next(&tag, &ok);
    Call& call = *static_cast<Call*>(tag);
    if (!call.status.ok()) throw std::runtime_error(call.status.error_message());
    if (call.response.Length() < message_.size() / 2) throw std::runtime_error("too short an answer");
    call.response.Clear();
    Send(call);
  }

 private:
  struct Call {
    std::optional<grpc::ClientContext> context;
    std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
    grpc::ByteBuffer response;
    grpc::Status status;
  };

  void Send(Call& call) {
    const grpc::Slice slice(message_.data(), message_.size(), grpc::Slice::STATIC_SLICE);
    call.reader.reset();
    call.context.emplace();
    call.reader = stub_.PrepareUnaryCall(&*call.context, kSoftmaxMethod, grpc::ByteBuffer(&slice, 1), &queue_);
    call.reader->StartCall();
    call.reader->Finish(&call.response, &call.status, &call);
  }

  grpc::GenericStub stub_;
  std::string message_;
  grpc::CompletionQueue queue_;
  std::vector<Call> calls_;
};

// The library: blocking calls with one in flight, asynchronous ones with more.
class Library {
 public:
  Library(const BenchOptions& options, const std::vector<float>& values, const std::vector<std::int64_t>& shape)
      : options_(options), input_(ViewOf(values, shape)), output_(values.size() * sizeof(float)) {
    auto client = Client::Create({.target = options.address, .deadline = std::chrono::seconds(60)});
    if (!client.ok()) throw std::runtime_error(std::string(client.status().message()));
    client_ = *std::move(client);
    if (options_.in_flight > 1) {
      for (int i = 0; i < options_.in_flight; ++i) SendAsync();
    }
  }

  void Step() {
    if (options_.in_flight == 1) {
      Check(options_.call == "into" ? client_->SoftmaxInto(input_, output_) : client_->Softmax(input_).status());
      return;
    }
    {
      std::unique_lock lock(mu_);
      answered_.wait(lock, [this] { return answers_ > 0; });
      --answers_;
      Check(status_);
    }
    SendAsync();
  }

 private:
  static void Check(const absl::Status& status) {
    if (!status.ok()) throw std::runtime_error(std::string(status.message()));
  }
  void SendAsync() {
    client_->SoftmaxAsync(input_, {}, [this](const absl::StatusOr<Tensor>& answer) {
      std::lock_guard lock(mu_);
      if (!answer.ok()) status_ = answer.status();
      ++answers_;
      answered_.notify_one();
    });
  }

  const BenchOptions& options_;
  const TensorView input_;
  std::vector<std::byte> output_;
  std::mutex mu_;
  std::condition_variable answered_;
  int answers_ = 0;
  absl::Status status_;
  std::unique_ptr<Client> client_;  // last: its callbacks use the others
};

double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// The 95 % interval of the median, by resampling.
std::pair<double, double> IntervalOf(const std::vector<double>& values) {
  std::mt19937_64 random(1);
  std::vector<double> medians;
  for (int i = 0; i < 4000; ++i) {
    std::vector<double> drawn;
    for (std::size_t v = 0; v < values.size(); ++v) drawn.push_back(values[random() % values.size()]);
    medians.push_back(MedianOf(drawn));
  }
  std::sort(medians.begin(), medians.end());
  return {medians[100], medians[3899]};
}

void Run(const BenchOptions& options) {
  const std::vector<std::int64_t> shape = {static_cast<std::int64_t>(options.bytes / 4096), 1024};
  const std::vector<float> values(static_cast<std::size_t>(shape[0]) * 1024, 1.0f);
  std::vector<double> raw_rates;
  std::vector<double> library_rates;
  std::vector<double> ratios;
  for (int pair = -1; pair < options.pairs; ++pair) {
    // Which one goes first changes from pair to pair. Each has a connection of its own, so that neither rests on what
    // the other one left.
    double raw = 0;
    double library = 0;
    const auto run_raw = [&] {
      Raw caller(options, values, shape);
      caller.Step();
      raw = RateOf(options.seconds, [&] { caller.Step(); });
    };
    if (pair % 2 == 0) run_raw();
    {
      Library caller(options, values, shape);
      caller.Step();
      library = RateOf(options.seconds, [&] { caller.Step(); });
    }
    if (pair % 2 != 0) run_raw();
    if (pair < 0) continue;  // warms up
    raw_rates.push_back(raw);
    library_rates.push_back(library);
    ratios.push_back(library / raw);
  }
  const auto [low, high] = IntervalOf(ratios);
  const double megabytes = static_cast<double>(values.size() * sizeof(float)) / 1e6;
  std::printf("%llu bytes, %d in flight, %s: library %.1f calls/s (%.1f MB/s), raw %.1f calls/s (%.1f MB/s)\n",
              static_cast<unsigned long long>(values.size() * sizeof(float)), options.in_flight,
              options.in_flight > 1 ? "async" : options.call.c_str(), MedianOf(library_rates),
              MedianOf(library_rates) * megabytes, MedianOf(raw_rates), MedianOf(raw_rates) * megabytes);
  std::printf("library / raw: median %.3f of %d pairs, 95 %% interval %.3f to %.3f\n", MedianOf(ratios), options.pairs,
              low, high);
}

}  // namespace
}  // namespace softmax::client

int main(int argc, char** argv) {
  softmax::client::BenchOptions options;
  CLI::App app("One thread's throughput through the client library beside bare gRPC calls, in turns");
  app.add_option("--address", options.address, "of a softmax-server, or better of softmax-echo-server")
      ->capture_default_str();
  app.add_option("--bytes", options.bytes, "of the tensor, a multiple of 4096")
      ->capture_default_str()
      ->check(CLI::Range(std::uint64_t{4096}, std::uint64_t{1} << 30));
  app.add_option("--in-flight", options.in_flight, "1: blocking calls")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  app.add_option("--call", options.call, "into or tensor: which blocking call")
      ->capture_default_str()
      ->check(CLI::IsMember({"into", "tensor"}));
  app.add_option("--pairs", options.pairs)->capture_default_str()->check(CLI::Range(1, 1000));
  app.add_option("--seconds", options.seconds, "of each half of a pair")->capture_default_str();
  app.add_flag("--default-malloc", options.default_malloc, "without the programs' settings of malloc and abseil");
  CLI11_PARSE(app, argc, argv);
  if (!options.default_malloc) softmax::ApplyProcessSettings();
  try {
    softmax::client::Run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "softmax-client-bench: %s\n", error.what());
    return 1;
  }
  return 0;
}

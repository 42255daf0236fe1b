#pragma once

#include <absl/functional/any_invocable.h>
#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/softmax_client/types.h"

// The client library: softmax over the network, for C++ programs. No gRPC and no protobuf type.
//
//   auto client = softmax::client::Client::Create({.target = "localhost:50051"});
//   const std::vector<float> values = {1, 2, 3};
//   const std::vector<std::int64_t> shape = {1, 3};
//   auto answer = (*client)->Softmax(softmax::client::ViewOf(values, shape));
//   for (float y : answer->values<float>()) ...
//
// Errors are absl statuses with gRPC's codes; the message begins with the server's address. What
// can be seen to be wrong before sending is INVALID_ARGUMENT and is not sent.
namespace softmax::client {

struct ClientOptions {
  std::string target = "localhost:50051";  // host:port, or unix:/path
  // Of every call that does not bring its own timeout.
  std::chrono::nanoseconds deadline = std::chrono::seconds(10);
  // Largest answer that is taken, header included. Larger ones are RESOURCE_EXHAUSTED.
  std::int64_t max_receive_bytes = 256 << 20;
  // Calls are dealt out to so many connections in turn. One connection keeps about one core busy.
  int connections = 1;
  // A connection that has been silent for so long is probed, and cut when no reply comes within 20
  // s. Zero: never.
  std::chrono::milliseconds keepalive_time = std::chrono::seconds(60);
};

struct SoftmaxOptions {
  Operation operation = Operation::kSoftmax;
  std::optional<std::int32_t> axis;                 // negative counts from the end; unset: the last
  std::optional<double> scale;                      // finite and > 0; unset: 1
  std::optional<DataType> output_dtype;             // unset: the input's
  std::span<const std::uint32_t> lengths;           // empty, or one per row; read before the call returns
  std::optional<std::chrono::nanoseconds> timeout;  // unset: the client's deadline (a stream: none)
};

struct ServerLimits {
  std::uint64_t max_request_bytes = 0;
  std::uint64_t max_response_bytes = 0;
  std::uint32_t max_rank = 0;
  std::uint64_t max_rows = 0;
  std::uint64_t max_columns = 0;
  std::uint32_t max_requests_per_stream_message = 0;
  std::uint32_t max_in_flight_per_stream = 0;
};

struct ServerInfo {
  std::string version;
  std::string build;
  std::string backend;
  std::vector<std::string> devices;
  std::vector<DataType> dtypes;
  std::vector<Operation> operations;
  ServerLimits limits;
  bool degraded = false;
  bool unsafe_testing = false;
};

struct StreamOptions {
  // Send refuses more than so many unanswered requests. Keep it at or below the server's
  // max_in_flight_per_stream.
  std::size_t max_in_flight = 256;
  // Requests that wait while a message is being written share the next one, up to so many.
  std::size_t max_requests_per_message = 64;
};

// Runs on the client's callback thread, one at a time: it must not block, and must not destroy the
// client or stream.
using Callback = absl::AnyInvocable<void(absl::StatusOr<Tensor>)>;
using StreamCallback = absl::AnyInvocable<void(std::uint64_t id, absl::StatusOr<Tensor> answer)>;

// Many requests over one connection, answered in any order. Made by Client::OpenStream, which
// outlives it. Thread-safe, but Finish and the destructor must not run beside Send.
class Stream {
 public:
  virtual ~Stream() = default;  // Cancels what is unanswered; waits until the last callback has returned.

  // Sends a request; never blocks. `id` comes back with its answer and must differ from every
  // unanswered one's. The tensor's memory must stay as it is until the callback for it runs.
  // RESOURCE_EXHAUSTED: too many are unanswered; when a callback has run there is room. Once the
  // stream has broken: its status. When not OK, no callback comes.
  virtual absl::Status Send(std::uint64_t id, const TensorView& input, const SoftmaxOptions& options = {}) = 0;

  // No more requests; waits until all are answered. What the stream itself came to: not OK when it
  // broke, in which case every unanswered request's callback has run with that status.
  virtual absl::Status Finish() = 0;
};

// A connection (or several) to one server. Thread-safe: share one client among all threads.
// Connects at the first call, and again after a break: a call while the server cannot be reached is
// UNAVAILABLE.
//
// Memory passed in is borrowed and sent from where it lies, without a copy. A synchronous call
// returns, and an asynchronous one calls back, only when gRPC has let go of it: when a server stops
// reading in the middle of a request, that can be up to 20 s after the deadline, until its
// connection is cut.
class Client {
 public:
  // INVALID_ARGUMENT for options out of range. Does not connect.
  static absl::StatusOr<std::unique_ptr<Client>> Create(ClientOptions options);

  // Cancels asynchronous calls (their callbacks run, with CANCELLED) and waits for them. Streams
  // must be gone, and no call may be running.
  virtual ~Client() = default;

  // Blocks until the answer is there. Received bytes are copied once.
  virtual absl::StatusOr<Tensor> Softmax(const TensorView& input, const SoftmaxOptions& options = {}) = 0;

  // The same, with the answer's elements put into the caller's memory, which must have exactly
  // their size. `output` may be the input's memory. Untouched when not OK.
  virtual absl::Status SoftmaxInto(const TensorView& input, std::span<std::byte> output,
                                   const SoftmaxOptions& options = {}, ServerTiming* timing = nullptr) = 0;

  // Returns at once. `done` runs exactly once, on the callback thread, or on this one when the
  // request cannot be sent. The tensor's memory must stay as it is until then.
  virtual void SoftmaxAsync(const TensorView& input, const SoftmaxOptions& options, Callback done) = 0;

  // A stream over one of the connections. `on_answer` runs exactly once for every request that Send
  // took.
  virtual absl::StatusOr<std::unique_ptr<Stream>> OpenStream(const StreamOptions& options,
                                                             StreamCallback on_answer) = 0;

  virtual absl::StatusOr<ServerInfo> GetServerInfo() = 0;

  // Connects if need be, and waits for it. UNAVAILABLE when there is no connection in time.
  virtual absl::Status WaitForConnection(std::chrono::nanoseconds timeout) = 0;
};

}  // namespace softmax::client

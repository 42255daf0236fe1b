#pragma once

#include <absl/functional/any_invocable.h>
#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "client/softmax_client/options.h"
#include "client/softmax_client/region.h"
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
// can be seen to be wrong before sending is INVALID_ARGUMENT and is not sent; what a server's
// GetServerInfo is known to rule out has the code that the server would answer with, and is not sent
// either. Large tensors (2 MiB) make the client ask for that once. An answer of another type or shape than was asked
// for, or one that cannot be decoded, is INTERNAL.
namespace softmax::client {

// When the server that refused with this status (RESOURCE_EXHAUSTED) wants to be asked again; nothing: it does not say.
std::optional<std::chrono::milliseconds> RetryAfter(const absl::Status& status);

// The bytes of the summary that such a request asks for, as SummaryOptions::output must have them. The request must be
// right otherwise.
std::size_t SummaryBytes(const TensorView& input, const SoftmaxOptions& options);

// Runs on the client's callback thread, one at a time: it must not block, and must not destroy the
// client or stream.
using Callback = absl::AnyInvocable<void(absl::StatusOr<Tensor>)>;
using StreamCallback = absl::AnyInvocable<void(std::uint64_t id, absl::StatusOr<Tensor> answer)>;

// Many requests over one connection, answered in any order. Made by Client::OpenStream, which
// outlives it. Thread-safe, but Finish and the destructor must not run beside Send.
//
// Nothing on it is sent again: when the stream breaks, or the server is too busy for a request, its callback runs with
// that status (RetryAfter tells the server's advice), and what to do is the caller's choice. A stream breaks as a
// whole, often with hundreds of requests unanswered, and to throw all of them at another server at once, or to hold up
// those that are sent meanwhile, is right only for callers who still want every answer. SoftmaxBatch is for those: it
// goes on with a new stream, on another address where there is one.
class Stream {
 public:
  virtual ~Stream() = default;  // Cancels what is unanswered; waits until the last callback has returned.

  // Sends a request; never blocks. `id` comes back with its answer and must differ from every
  // unanswered one's. The tensor's memory must stay as it is until the callback for it runs.
  // RESOURCE_EXHAUSTED: too many are unanswered; when a callback has run there is room. Once the
  // stream has broken: its status. When not OK, no callback comes.
  virtual absl::Status Send(std::uint64_t id, const TensorView& input, const SoftmaxOptions& options = {}) = 0;

  // No more requests; waits until all are answered. What the stream itself came to: not OK when it
  // broke, in which case every unanswered request's callback has run with that status. INTERNAL: the server sent what
  // cannot be decoded, or an answer to no request.
  virtual absl::Status Finish() = 0;

  // Ends the stream: the callbacks of unanswered requests run with CANCELLED. Returns at once; from any thread.
  virtual void Cancel() = 0;
};

// Connections to a server, or to several that do the same. Thread-safe: share one client among all threads.
// Connects at the first call, and again after a break. A call while no server can be reached is
// UNAVAILABLE when its retries (RetryOptions) have not helped.
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

  // The same, with the answer's elements put into the caller's memory: SoftmaxOptions::output is `output`. Not for
  // summaries.
  virtual absl::Status SoftmaxInto(const TensorView& input, std::span<std::byte> output,
                                   const SoftmaxOptions& options = {}, ServerTiming* timing = nullptr) = 0;

  // Returns at once. `done` runs exactly once, on the callback thread, or on this one when the
  // request cannot be sent. The tensor's memory must stay as it is until then.
  virtual void SoftmaxAsync(const TensorView& input, const SoftmaxOptions& options, Callback done) = 0;

  // The same with a future, which is ready when `done` would run.
  virtual std::future<absl::StatusOr<Tensor>> SoftmaxFuture(const TensorView& input,
                                                            const SoftmaxOptions& options = {}) = 0;

  // Many tensors over one stream, several in a message. Blocks; the results are in the items' order, each with its own
  // status. What a server was too busy for, or what was left when a stream broke, is sent again as RetryOptions say; a
  // round that got any answer starts their count anew.
  virtual std::vector<absl::StatusOr<Tensor>> SoftmaxBatch(std::span<const BatchItem> items,
                                                           const BatchOptions& options = {}) = 0;

  // A stream over one of the connections. `on_answer` runs exactly once for every request that Send took.
  // INVALID_ARGUMENT: options out of range, or a bearer_token that cannot be sent.
  virtual absl::StatusOr<std::unique_ptr<Stream>> OpenStream(const StreamOptions& options,
                                                             StreamCallback on_answer) = 0;

  // `timeout`: with its retries, above 0; unset: the client's deadline.
  virtual absl::StatusOr<ServerInfo> GetServerInfo(std::optional<std::chrono::nanoseconds> timeout = {}) = 0;

  // Connects if need be, and waits for it; of several addresses one is enough. UNAVAILABLE when there is no connection
  // in time.
  virtual absl::Status WaitForConnection(std::chrono::nanoseconds timeout) = 0;

  // Memory that the server shares with this process, for tensors that are not to travel (region.h): pass views of it,
  // and SoftmaxOptions::output (or SoftmaxInto's) in it, to any call of this client. Those of one request may lie in
  // regions and elsewhere, as the caller likes. `device`: of ServerInfo::devices; unset: the one with the fewest bytes
  // of regions.
  // Blocks: shared memory is made (some 0.1 s for each GiB). FAILED_PRECONDITION: the target is not one server of this
  // machine; UNIMPLEMENTED: the server shares no such memory, or there is no CUDA here for device memory;
  // PERMISSION_DENIED: not with this user; RESOURCE_EXHAUSTED: no more bytes; UNAVAILABLE: there is no server.
  virtual absl::StatusOr<Region> AllocateRegion(std::uint64_t bytes, Memory memory = Memory::kHost,
                                                std::optional<std::uint32_t> device = {}) = 0;

  // Whether all of these bytes lie in one region of this client.
  virtual bool IsInRegion(std::span<const std::byte> bytes) const = 0;

  virtual ClientStats Stats() const = 0;
};

}  // namespace softmax::client

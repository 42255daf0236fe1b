#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "client/softmax_client/types.h"

// What callers of the client library choose, and what it tells them about itself and the server. No gRPC and no
// protobuf type.
namespace softmax::client {

// When a failed attempt is made again. Softmax changes nothing on the server, so doing it twice does no harm.
//
// Tried again are UNAVAILABLE, and RESOURCE_EXHAUSTED where the server says when to come back
// (`grpc-retry-pushback-ms`, or an answer's retry_after_ms); never past the call's deadline, and on another connection
// where there is one. Between attempts n and n + 1 lies the time the server asked for, otherwise a random time of up to
// initial_backoff * multiplier^(n - 1), at most max_backoff.
//
// What no server has seen, because its connection was just being closed, is sent again whatever max_attempts is, and
// counts nowhere.
//
// All calls of a client share a budget, so that a server in trouble is not buried in retries: it starts with
// max_tokens, a failed attempt takes 1, a call that ends well returns token_ratio, and below half of max_tokens nothing
// is retried.
struct RetryOptions {
  int max_attempts = 5;  // the first included; 1: no retries
  std::chrono::milliseconds initial_backoff{10};
  std::chrono::milliseconds max_backoff{1000};
  double multiplier = 2;
  double max_tokens = 1000;
  double token_ratio = 0.1;
};

// Keys and certificates in PEM, as text and not as paths.
struct TlsOptions {
  std::string root_certificates;  // whom to trust; empty: the machine's own list
  // For a server that asks its clients who they are (mTLS); both or neither.
  std::string certificate_chain;
  std::string private_key;
};

// Which tensors lie in memory that the server shares (region.h).
enum class RegionUse : std::uint8_t {
  kExplicit,  // those that the caller has put there
  // Others too: the library copies them into regions of its own, and answers are handed out of these. Where there are
  // none, because the target is not one server of this machine, or the server shares no memory, or not with this user,
  // or no more of it, tensors go in messages.
  kAuto,
};

struct ClientOptions {
  // One server or several, which then share the load:
  //   host:port          dns:///host:port   every address that the name has
  //   ipv4:a:1,b:2       ipv6:[a]:1,[b]:2   unix:/path          a:1,b:2,unix:/path
  std::string target = "localhost:50051";
  // Of every call that does not bring its own timeout. Attempts, waits and retries are all within it.
  std::chrono::nanoseconds deadline = std::chrono::seconds(10);
  // Largest answer that is taken, header included; larger ones are RESOURCE_EXHAUSTED. Unset: whatever the server's own
  // limit lets it send. -1: the same.
  std::optional<std::int64_t> max_receive_bytes;
  // To each address. Calls are dealt out to the connections in turn. One connection keeps about one core busy.
  int connections = 1;
  // A connection that has been silent for so long is probed, and cut when no reply comes within keepalive_timeout.
  // Zero: never.
  std::chrono::milliseconds keepalive_time = std::chrono::seconds(60);
  std::chrono::milliseconds keepalive_timeout = std::chrono::seconds(20);
  RetryOptions retry;
  // A call that finds no server to talk to is tried until its deadline, instead of max_attempts times.
  bool wait_for_ready = false;
  // Several servers, and names of `dns:///`: those that do not report SERVING (grpc.health.v1) get no calls. A server
  // that does not offer the health service counts as healthy.
  bool health_checks = true;
  // The server's --regions-socket, as this process sees it. Empty: where GetServerInfo says, and only for a target that
  // is this machine: unix:, localhost or a loopback address.
  std::string regions_socket;
  RegionUse regions = RegionUse::kExplicit;
  // kAuto: for tensors of this size on; below, messages are as fast. And the most bytes of regions at once.
  std::uint64_t regions_from_bytes = 64 << 10;
  std::uint64_t regions_pool_bytes = 256 << 20;
  // Unset: plain text.
  std::optional<TlsOptions> tls;
  // The name that is asked for, and that a certificate must have, instead of the target's host.
  std::string authority;
  // Makes `authorization: Bearer ...` of every attempt, so that tokens may change. Needs TLS, or unix: targets. Must be
  // thread-safe and must not block. A token that is empty or not of visible ASCII characters is not sent: the call is
  // INVALID_ARGUMENT, and the message does not show the token.
  std::function<std::string()> bearer_token;
};

// Where in its caller's trace a call stands, as W3C's Trace Context has it: what the caller's tracing library injects.
// Servers that send spans (--trace-endpoint) add theirs below it.
struct TraceContext {
  std::string traceparent;  // 00-<trace id>-<parent id>-<flags>; empty: the call is in no trace
  std::string tracestate;   // may be empty
};

struct SoftmaxOptions {
  Operation operation = Operation::kSoftmax;
  std::optional<std::int32_t> axis;        // negative counts from the end; unset: the last
  std::optional<double> scale;             // finite and > 0; unset: 1
  std::optional<DataType> output_dtype;    // unset: the input's
  std::span<const std::uint32_t> lengths;  // empty, or one per row; read before the call returns
  SummaryOptions summary;                  // nothing: the whole tensor; its indices are read like the lengths
  // Where the answer's elements are put, exactly their bytes, instead of memory of the Tensor's own, which then looks
  // at them there; it may be the input's memory. Untouched when the answer is not OK, unless it lies in a region: then
  // the server writes there, and may do so even when the call has ended otherwise than well (but for refusals:
  // INVALID_ARGUMENT, NOT_FOUND, RESOURCE_EXHAUSTED), so that a new region is safest for the next call. Such a call is
  // tried again only after a refusal. Empty: memory of the Tensor's own.
  std::span<std::byte> output;
  std::optional<std::chrono::nanoseconds> timeout;  // above 0; unset: the client's deadline (a stream: none)
  TraceContext trace;  // not of requests of a stream or a batch, which have one of their own
  // A stop request ends the call with CANCELLED, whatever it is waiting for. Not for requests of a stream, which is
  // cancelled as a whole.
  std::stop_token cancel;
  // For programs with interrupts of their own, such as Python's Ctrl-C: runs on the calling thread some 20 times a
  // second while Softmax or SoftmaxInto waits, and may request the stop. Other calls do not look at it.
  std::function<void()> while_waiting;
};

struct StreamOptions {
  // Send refuses more unanswered requests than this. Keep it at or below the server's max_in_flight_per_stream.
  std::size_t max_in_flight = 256;
  // Requests that wait while a message is being written share the next one, up to this number.
  std::size_t max_requests_per_message = 64;
  std::optional<std::chrono::nanoseconds> timeout;  // of the whole stream, above 0; unset: none
  TraceContext trace;                               // of all its requests
};

// One of many requests that are sent together.
struct BatchItem {
  TensorView input;
  SoftmaxOptions options;  // its timeout and cancel are those of the batch
};

struct BatchOptions {
  std::optional<std::chrono::nanoseconds> timeout;  // of the whole batch, above 0; unset: the client's deadline
  std::stop_token cancel;
  std::size_t max_in_flight = 256;
  std::size_t max_requests_per_message = 64;
  TraceContext trace;  // of all its requests
};

// Of memory that the server shares with processes of its machine (region.h). Bytes.
struct RegionLimits {
  std::string socket;  // as the server sees it
  std::uint64_t max_bytes = 0;
  std::uint64_t max_bytes_per_connection = 0;
  std::uint64_t max_device_bytes = 0;  // of each device; 0: none
  std::uint64_t max_device_bytes_per_connection = 0;
  std::uint64_t max_tensor_bytes = 0;  // of a tensor in a region, where max_request_bytes is the limit of others
};

struct ServerLimits {
  std::uint64_t max_request_bytes = 0;
  std::uint64_t max_response_bytes = 0;
  std::uint32_t max_rank = 0;
  std::uint64_t max_rows = 0;
  std::uint64_t max_columns = 0;
  std::uint32_t max_requests_per_stream_message = 0;
  std::uint32_t max_in_flight_per_stream = 0;
  std::uint32_t max_top_k = 0;  // of a summary; 0: the server knows none, and answers with whole tensors
};

struct ServerInfo {
  std::string version;
  std::string build;
  std::string backend;
  std::vector<std::string> devices;
  std::vector<DataType> dtypes;
  std::vector<Operation> operations;
  ServerLimits limits;
  bool degraded = false;                  // a device was lost; the server will leave
  std::vector<std::string> lost_devices;  // number, name and why
  bool unsafe_testing = false;
  std::optional<RegionLimits> regions;  // unset: it shares no memory
};

// What a client has done so far. Requests of streams are not counted; those of batches are.
struct ClientStats {
  std::uint64_t calls = 0;      // ended, well or not; what was refused before sending is not a call
  std::uint64_t attempts = 0;   // ended: a call's first one and its retries
  std::uint64_t retries = 0;    // attempts that were not a call's first
  std::uint64_t throttled = 0;  // retries that the budget did not allow
  // By absl::StatusCode (gRPC's numbers); [0] is OK.
  std::array<std::uint64_t, 17> calls_by_code = {};
  std::array<std::uint64_t, 17> attempts_by_code = {};
};

}  // namespace softmax::client

#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/base/usable_cores.h"
#include "server/base/backend.h"

namespace softmax::server {

// Everything that can be set, with its default. Each field is the flag of the same name (max_batch_bytes is
// --max-batch-bytes), which fields.h describes.
struct Config {
  using Duration = std::chrono::nanoseconds;

  // Listening. "host:port", "[v6]:port" or "unix:/path".
  std::vector<std::string> address = {"0.0.0.0:50051"};
  std::string metrics_address = "0.0.0.0:9400";  // or "none"
  std::string health_address = "none";           // plaintext grpc.health.v1 and nothing else, for probes; or "none"
  std::string unix_socket_mode = "0600";         // of unix sockets, octal
  bool reflection = true;
  std::string oip_shared_memory = "none";  // folder whose files clients may register as shared memory; or "none"

  // Who may come in. Paths, or "none". Read at start and again when a file changes.
  std::string tls_cert = "none";       // PEM chain; with tls_key every TCP address speaks TLS (unix sockets do not)
  std::string tls_key = "none";        // PEM, not encrypted
  std::string tls_client_ca = "none";  // PEM; clients must then show a certificate of one of these authorities
  std::string token_file = "none";     // SHA-256 of each bearer token in hex, one a line

  // Execution.
  Backend backend = Backend::kAuto;
  std::vector<std::uint32_t> devices;       // CUDA ordinals; empty: all
  std::uint64_t threads = 0;                // completion queues, one thread each; 0: EffectiveThreads
  std::string poller = "poll";              // or epoll1: how gRPC's threads wait for sockets
  std::uint64_t cpu_threads = 0;            // workers of the CPU backend; 0: one a core
  std::uint64_t filler_threads = 0;         // take what a completion queue may not wait for; 0: a quarter of the cores
  std::uint64_t max_in_flight_batches = 2;  // per thread

  // Batching.
  std::uint64_t max_batch_bytes = 1 << 20;
  std::uint64_t max_batch_requests = 256;
  Duration max_queue_delay{0};  // 0: an idle device never waits for company

  // Limits, of one request, one connection and the whole server.
  std::uint64_t max_request_bytes = 64 << 20;
  std::uint64_t max_response_bytes = 64 << 20;
  std::uint64_t max_rank = 8;
  std::uint64_t max_rows = 1ull << 31;
  std::uint64_t max_columns = 1ull << 31;
  std::uint64_t max_top_k = 1024;  // of a summary
  std::uint64_t max_requests_per_stream_message = 1024;
  std::uint64_t max_in_flight_per_stream = 256;
  std::uint64_t max_batched_per_connection = 16;
  std::uint64_t max_in_flight_bytes_per_connection = 0;  // 0: EffectiveInFlightBytes
  std::uint64_t max_concurrent_streams = 256;            // calls at once on one connection
  std::uint64_t max_connections = 4096;
  std::uint64_t max_waiting_calls = 8192;  // of all connections, whose first message is not there whole
  Duration first_message_timeout = std::chrono::seconds(10);  // once half as many wait
  Duration max_connection_idle{0};                            // without a call, then closed; 0: never
  Duration max_connection_age{0};                             // then closed once its calls have ended; 0: never
  std::uint64_t max_queued_requests = 4096;
  std::uint64_t max_queued_bytes = 1ull << 30;

  // Memory.
  std::uint64_t arena_bytes = 512ull << 20;    // pinned at start, for inputs and outputs together
  std::uint64_t slab_bytes = 64 << 10;         // the arena's smallest piece
  std::uint64_t receive_bytes = 256ull << 20;  // pinned at start, for messages as they arrive; 0: tensors are copied
  std::uint64_t gather_bytes = 64 << 10;       // smaller tensors are copied all the same
  std::uint64_t max_unread_bytes_per_connection = 64 << 20;
  std::uint64_t max_unread_bytes = 512 << 20;  // of all connections, outside the arena
  std::uint64_t memory_quota = 4ull << 30;     // of gRPC, for messages in transit

  // Regions: memory shared with processes of this machine.
  std::string regions_socket = "none";  // path; or "none": there are no regions
  std::string regions_uids = "own";     // who may connect: own, any, or uids separated by commas
  std::uint64_t regions_connections = 64;
  std::uint64_t regions_bytes = 1ull << 30;    // of host memory, all connections together
  std::uint64_t regions_connection_bytes = 0;  // of one; 0: half of all
  std::uint64_t regions_device_bytes = 0;      // of each device's memory; 0: none
  std::uint64_t regions_device_connection_bytes = 0;

  // Drain and health.
  Duration answer_timeout = std::chrono::seconds(10);  // unread answers are given up after this
  Duration device_timeout = std::chrono::seconds(30);  // a batch that runs longer: its device hangs; 0: never
  Duration degraded_limit = std::chrono::minutes(10);  // how long to serve on with fewer devices; 0: not at all
  Duration drain_delay{0};                             // from NOT_SERVING to refusing
  Duration drain_timeout = std::chrono::seconds(30);   // from refusing to cancelling what is left
  Duration keepalive_time = std::chrono::seconds(60);
  Duration keepalive_timeout = std::chrono::seconds(20);
  Duration min_ping_interval = std::chrono::seconds(5);  // clients' keepalive may not be busier

  // Logging.
  std::string log_level = "info";  // trace, debug, info, warning, error, off
  std::string log_format = "text";
  Duration slow_request = std::chrono::seconds(1);  // requests that take longer are logged; 0: none

  // Traces.
  std::string trace_endpoint = "auto";  // http:// or https://; auto: as OpenTelemetry's variables say; or "none"
  std::string trace_ratio = "0";        // of requests without a traceparent that are traced, 0 to 1

  // Testing. The command line alone can set it.
  bool unsafe_testing = false;
  std::string fault = "none";  // what devices and memory are made to do: server/execution/faults.h
};

// Whether a path or address is given: "none" stands for none.
inline bool IsSet(const std::string& value) { return value != "none"; }

struct ParseResult {
  bool run = false;   // start with `config`; otherwise print and leave with exit_code
  int exit_code = 0;  // 2: a wrong flag, variable, file or value
  Config config;
  std::string output;                 // for stdout: help, version, the printed configuration
  std::string error;                  // for stderr
  std::vector<std::string> warnings;  // to log once logging is up
};

// Reads defaults, then the config file (--config or SOFTMAX_CONFIG), then the environment (SOFTMAX_MAX_BATCH_BYTES for
// --max-batch-bytes), then the command line; the later wins. A config that CheckConfig refuses is an error here too.
ParseResult ParseConfig(int argc, const char* const* argv);

// What 0 ("choose for me") comes to where so many cores may be used.
std::uint64_t EffectiveThreads(const Config& config, unsigned cores);        // QueuesFor
std::uint64_t EffectiveCpuThreads(const Config& config, unsigned cores);     // every core
std::uint64_t EffectiveFillerThreads(const Config& config, unsigned cores);  // a quarter, at least 1
// All three, and why: "threads 2, cpu-threads 4, filler-threads 1 for 4 of 32 cores (the cgroup's quota)".
std::string DescribeThreads(const Config& config, const UsableCores& cores);
// What max_in_flight_bytes_per_connection comes to: an eighth of the memory quota, at least two of the largest
// requests.
std::uint64_t EffectiveInFlightBytes(const Config& config);

// What 0 comes to for one connection's share of regions of host and of device memory.
std::uint64_t EffectiveRegionBytes(const Config& config);
std::uint64_t EffectiveRegionDeviceBytes(const Config& config);

std::string BackendName(Backend backend);

// The version of the project and the commit it was built from ("unknown" outside of a checkout).
const char* Version();
const char* Commit();

// `config` as a config file that sets every key; reading it back gives the same config.
std::string PrintConfig(const Config& config);

// Every number in `config` in bytes, seconds, counts or 0/1, named as the flag with underscores
// ("max_batch_bytes", "drain_timeout_seconds").
std::vector<std::pair<std::string, double>> ConfigSettings(const Config& config);

}  // namespace softmax::server

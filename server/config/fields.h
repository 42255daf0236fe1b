#pragma once

#include <string>
#include <vector>

#include "server/config/config.h"

// The one list of what can be set: flags, environment, config file, --print-config and the
// published settings all walk it, so none of them can miss a field.
namespace softmax::server {

constexpr char kListening[] = "Listening";
constexpr char kSecurity[] = "Security";
constexpr char kExecution[] = "Execution";
constexpr char kBatching[] = "Batching";
constexpr char kLimits[] = "Limits";
constexpr char kMemory[] = "Memory";
constexpr char kRegions[] = "Regions";
constexpr char kDrain[] = "Drain and health";
constexpr char kMetrics[] = "Metrics";
constexpr char kLogging[] = "Logging";
constexpr char kTraces[] = "Traces";
constexpr char kTesting[] = "Testing";

struct FieldText {
  const char* name;  // of the flag, without dashes
  const char* group;
  const char* help;
};

// A number of things, and its limits.
struct CountRange {
  std::uint64_t min = 1;
  std::uint64_t max = 0xffffffff;
};

// `C` is Config or const Config. The visitor has Texts, Text, Word, Choice, Ordinals, OneOf (the
// backend), Count, Bytes, Duration, Switch, TestingSwitch and TestingWord.
template <typename C, typename V>
void VisitListening(C& c, V& v) {
  v.Texts(
      {"address", kListening, "Where to serve: host:port, [v6]:port, :port or unix:/path; may be given more than once"},
      c.address);
  v.Text({"health-address", kListening,
          "Where to serve grpc.health.v1 alone, in plain text, for probes that know neither TLS nor tokens: "
          "host:port, or none"},
         c.health_address);
  v.Word({"unix-socket-mode", kListening, "Who may connect to unix sockets: their files' permissions, octal"},
         c.unix_socket_mode, "MODE");
  v.Switch({"reflection", kListening, "Serve gRPC reflection (for grpcurl)"}, c.reflection);
  v.Word({"oip-shared-memory", kListening,
          "Folder (of a tmpfs, such as /dev/shm) whose files clients of the Open Inference Protocol may register as "
          "shared memory, and name as places of tensors; or none"},
         c.oip_shared_memory, "DIR");
  v.Duration({"keepalive-time", kListening, "Ping a silent connection after this long"}, c.keepalive_time);
  v.Duration({"keepalive-timeout", kListening,
              "Close a connection whose ping, or whose unread bytes, stay unanswered this long"},
             c.keepalive_timeout);
  v.Duration({"min-ping-interval", kListening,
              "Close a connection whose client pings more often than this, with calls or without"},
             c.min_ping_interval);
}

template <typename C, typename V>
void VisitSecurity(C& c, V& v) {
  v.Word({"tls-cert", kSecurity,
          "Certificate chain (PEM) for TLS on every TCP address; read again when it changes; or none"},
         c.tls_cert, "FILE");
  v.Word({"tls-key", kSecurity, "Its private key (PEM, not encrypted, not readable by others)"}, c.tls_key, "FILE");
  v.Word({"tls-client-ca", kSecurity,
          "Clients must show a certificate signed by one of these authorities (PEM); none = any client"},
         c.tls_client_ca, "FILE");
  v.Word({"token-file", kSecurity,
          "Requests must carry a bearer token whose SHA-256, in hex, is a line of this file; none = no tokens"},
         c.token_file, "FILE");
}

template <typename C, typename V>
void VisitExecution(C& c, V& v) {
  v.OneOf({"backend", kExecution,
           "auto takes CUDA where a device is found and the CPU elsewhere; null answers rubbish and "
           "needs --unsafe-testing"},
          c.backend);
  v.Ordinals({"devices", kExecution, "CUDA devices to use, such as 0,1; or all"}, c.devices);
  v.Count({"threads", kExecution,
           "Completion queues, one thread each; 0 = by the cores that the process may use (affinity mask, the cgroup's "
           "quota): three quarters of them up to 8, half of them above, at most 32"},
          c.threads, {0, 256});
  v.Choice({"poller", kExecution,
            "How the threads wait for sockets. poll: each for its own; epoll1: one waits for all, for few threads with "
            "thousands of connections; the environment's GRPC_POLL_STRATEGY goes first"},
           c.poller, {"poll", "epoll1"});
  v.Count({"cpu-threads", kExecution, "Workers of the CPU backend; 0 = one a core"}, c.cpu_threads, {0, 1024});
  v.Count({"filler-threads", kExecution,
           "Threads that copy large requests and those that waited for memory; 0 = a quarter of the "
           "cores, at least 1"},
          c.filler_threads, {0, 256});
  v.Count({"max-in-flight-batches", kExecution,
           "Launched batches at once per thread: more hides launch cost, fewer makes larger batches"},
          c.max_in_flight_batches, {1, 64});
}

template <typename C, typename V>
void VisitBatching(C& c, V& v) {
  v.Bytes({"max-batch-bytes", kBatching, "A batch is launched when it holds this much"}, c.max_batch_bytes);
  v.Count({"max-batch-requests", kBatching, "A batch is launched when it holds this many requests"},
          c.max_batch_requests, {1, 65536});
  v.Duration({"max-queue-delay", kBatching,
              "Hold a batch open this long for company even when nothing runs; 0us = never wait"},
             c.max_queue_delay);
}

template <typename C, typename V>
void VisitLimits(C& c, V& v) {
  v.Bytes({"max-request-bytes", kLimits, "Largest request; at most half of --arena-bytes"}, c.max_request_bytes);
  v.Bytes({"max-response-bytes", kLimits,
           "Largest answer (output_dtype may be wider than the input); at most half of "
           "--arena-bytes"},
          c.max_response_bytes);
  v.Count({"max-rank", kLimits, "Most dimensions of a tensor"}, c.max_rank, {1, 8});
  v.Count({"max-rows", kLimits, "Most rows of a request"}, c.max_rows, {1, 1ull << 31});
  v.Count({"max-columns", kLimits, "Longest axis of a request"}, c.max_columns, {1, 1ull << 31});
  v.Count({"max-top-k", kLimits, "Most of the largest elements that a summary may ask for in each row"}, c.max_top_k,
          {1, 1024});
  v.Count({"max-requests-per-stream-message", kLimits, "Most requests in one message of a stream"},
          c.max_requests_per_stream_message);
  v.Count({"max-in-flight-per-stream", kLimits, "Unanswered requests of one stream before it is no longer read"},
          c.max_in_flight_per_stream);
  v.Count({"max-batched-per-connection", kLimits,
           "Requests of one connection that are batched at a time while others have some too (a connection alone: 4 "
           "times as many); the rest waits for its turn; 0 = no limit"},
          c.max_batched_per_connection, {0, 65536});
  v.Bytes({"max-in-flight-bytes-per-connection", kLimits,
           "Unanswered requests of one connection may hold this much; further ones are RESOURCE_EXHAUSTED, and its "
           "streams are not read; 0 = an eighth of memory-quota, at least two of the largest requests"},
          c.max_in_flight_bytes_per_connection);
  v.Count(
      {"max-concurrent-streams", kLimits, "Calls at once on one connection (HTTP/2 streams); a client queues the rest"},
      c.max_concurrent_streams, {1, 0x7fffffff});
  v.Count({"max-connections", kLimits, "Then idle connections make room, or newcomers are closed"}, c.max_connections);
  v.Count(
      {"max-waiting-calls", kLimits,
       "Calls of all connections that may wait for their first message, some 11 KiB each; above it, connections that "
       "hold many and open more are ended, and those that bring messages above twice as many"},
      c.max_waiting_calls, {1, 1u << 30});
  v.Duration({"first-message-timeout", kLimits,
              "Once half of --max-waiting-calls wait, connections that hold many of them and bring nothing for so long "
              "are ended"},
             c.first_message_timeout);
  v.Duration({"max-connection-idle", kLimits, "Close a connection that has had no call for so long; 0s = never"},
             c.max_connection_idle);
  v.Duration({"max-connection-age", kLimits,
              "Close a connection after so long, once its calls have ended, so that clients spread and revoked "
              "certificates go; 0s = never"},
             c.max_connection_age);
  v.Count({"max-queued-requests", kLimits, "Requests that may wait for memory; more are RESOURCE_EXHAUSTED"},
          c.max_queued_requests);
  v.Bytes({"max-queued-bytes", kLimits, "Bytes of requests that may wait for memory; more are RESOURCE_EXHAUSTED"},
          c.max_queued_bytes);
}

template <typename C, typename V>
void VisitMemory(C& c, V& v) {
  v.Bytes({"arena-bytes", kMemory, "Memory for tensors, inputs and outputs together, pinned at start; whole slabs"},
          c.arena_bytes);
  v.Bytes({"slab-bytes", kMemory, "The arena's smallest piece; a power of two"}, c.slab_bytes);
  v.Bytes(
      {"receive-bytes", kMemory,
       "Memory that messages arrive in, pinned at start, where a GPU reads them without a copy; 0 = all are copied"},
      c.receive_bytes);
  v.Bytes({"gather-bytes", kMemory, "Smallest request that is read where it arrived; smaller ones are copied"},
          c.gather_bytes);
  v.Bytes({"max-unread-bytes-per-connection", kMemory,
           "Answers of one connection, to come and not read, may hold this much; its further requests wait until "
           "it has read"},
          c.max_unread_bytes_per_connection);
  v.Bytes({"max-unread-bytes", kMemory,
           "Unread answers of all connections may hold this much outside the arena; a connection may have half of "
           "what is left"},
          c.max_unread_bytes);
  v.Bytes({"memory-quota", kMemory, "What gRPC may hold for messages in transit"}, c.memory_quota);
}

template <typename C, typename V>
void VisitRegions(C& c, V& v) {
  v.Word({"regions-socket", kRegions,
          "Share memory with processes of this machine: the path of the unix socket where they get regions; or none"},
         c.regions_socket, "PATH");
  v.Word(
      {"regions-uids", kRegions, "Whose processes may connect to it: own (the server's uid), any, or uids as 0,1000"},
      c.regions_uids, "LIST");
  v.Count({"regions-connections", kRegions, "Connections to it at once; then those without a region make room"},
          c.regions_connections, {1, 4096});
  v.Bytes({"regions-bytes", kRegions, "Host memory of all regions together; 0 = none"}, c.regions_bytes);
  v.Bytes({"regions-connection-bytes", kRegions, "Host memory of one connection's regions; 0 = half of regions-bytes"},
          c.regions_connection_bytes);
  v.Bytes({"regions-device-bytes", kRegions, "Memory of each device for regions; 0 = none"}, c.regions_device_bytes);
  v.Bytes({"regions-device-connection-bytes", kRegions,
           "Memory of each device for one connection's regions; 0 = half of regions-device-bytes"},
          c.regions_device_connection_bytes);
}

template <typename C, typename V>
void VisitDrain(C& c, V& v) {
  v.Duration(
      {"answer-timeout", kDrain, "An answer the client does not read is given up after this long, then its connection"},
      c.answer_timeout);
  v.Duration({"device-timeout", kDrain,
              "A device whose batch has not come back after this long hangs: its requests fail, and it is out; without "
              "another one the server drains and ends with exit code 70; 0s = never"},
             c.device_timeout);
  v.Duration({"degraded-limit", kDrain,
              "How long to serve on when one of several devices was lost, before the server drains and ends with exit "
              "code 70; 0s = not at all"},
             c.degraded_limit);
  v.Duration({"drain-delay", kDrain,
              "On SIGTERM: how long to serve on as NOT_SERVING before refusing, so that load "
              "balancers notice"},
             c.drain_delay);
  v.Duration({"drain-timeout", kDrain, "On SIGTERM: how long accepted requests may take before they are cancelled"},
             c.drain_timeout);
}

template <typename C, typename V>
void VisitConfig(C& c, V& v) {
  VisitListening(c, v);
  VisitSecurity(c, v);
  VisitExecution(c, v);
  VisitBatching(c, v);
  VisitLimits(c, v);
  VisitMemory(c, v);
  VisitRegions(c, v);
  VisitDrain(c, v);
  v.Text({"metrics-address", kMetrics, "Where Prometheus scrapes /metrics: host:port, [v6]:port, :port, or none"},
         c.metrics_address);
  v.Choice({"log-level", kLogging, "The least important messages to print"}, c.log_level,
           {"trace", "debug", "info", "warning", "error", "off"});
  v.Choice({"log-format", kLogging, "Lines for people or for machines"}, c.log_format, {"text", "json"});
  v.Duration({"slow-request", kLogging,
              "Log requests that take longer, with the times of their stages, ten a second at most; 0s = none"},
             c.slow_request);
  v.Word({"trace-endpoint", kTraces,
          "Where to send spans of requests by OTLP over gRPC, as http://collector:4317 or https://...; auto = where "
          "OTEL_EXPORTER_OTLP_ENDPOINT says, if it does; or none"},
         c.trace_endpoint, "URL");
  v.Word(
      {"trace-ratio", kTraces,
       "How many of the requests that come without a traceparent are traced, from 0 to 1; those with one as it says"},
      c.trace_ratio, "RATIO");
  v.TestingSwitch({"unsafe-testing", kTesting,
                   "Allow --backend=null and fault switches; loopback and unix addresses only, "
                   "command line only"},
                  c.unsafe_testing);
  v.TestingWord({"fault", kTesting,
                 "Make devices and memory fail, a list: devices:N, error:N, sticky:N, hang:N, late:TIME (all four also "
                 "@DEVICE), alloc:N, slabs:N, cuda:CALL:N; or none"},
                c.fault, "FAULT");
}

}  // namespace softmax::server

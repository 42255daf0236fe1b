#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/config/config.h"

// The one list of what can be set: flags, environment, config file, --print-config and the
// published settings all walk it, so none of them can miss a field.
namespace softmax::server {

// The group of what the command line alone can set; no config file has it.
inline constexpr std::string_view kTesting = "Testing";

struct FieldText {
  const char* name;  // of the flag, without dashes
  std::string_view group;
  const char* help;
};
inline bool IsTesting(FieldText text) { return text.group == kTesting; }

// What a field is, where its type does not say it. A string with none of them is an address.
struct Word {
  const char* shown;  // in --help, for the value
};
using Choices = std::vector<std::string>;
// A number of things, and its limits.
struct CountRange {
  std::uint64_t min = 1;
  std::uint64_t max = 0xffffffff;
};
struct SizeInBytes {};

// `C` is Config or const Config. The visitor is called with each field's text, the field and perhaps what it is.
template <typename C, typename V>
void VisitConfig(C& c, V& v) {
  std::string_view group = "Listening";
  v({"address", group, "Where to serve: host:port, [v6]:port, :port or unix:/path; may be given more than once"},
    c.address);
  v({"health-address", group,
     "Where to serve grpc.health.v1 alone, in plain text, for probes that know neither TLS nor tokens: host:port, or "
     "none"},
    c.health_address);
  v({"unix-socket-mode", group, "Who may connect to unix sockets: their files' permissions, octal"}, c.unix_socket_mode,
    Word{"MODE"});
  v({"reflection", group, "Serve gRPC reflection (for grpcurl)"}, c.reflection);
  v({"oip-shared-memory", group,
     "Folder (of a tmpfs, such as /dev/shm) whose files clients of the Open Inference Protocol may register as shared "
     "memory, and name as places of tensors; or none"},
    c.oip_shared_memory, Word{"DIR"});
  v({"keepalive-time", group, "Ping a silent connection after this long"}, c.keepalive_time);
  v({"keepalive-timeout", group, "Close a connection whose ping, or whose unread bytes, stay unanswered this long"},
    c.keepalive_timeout);
  v({"min-ping-interval", group, "Close a connection whose client pings more often than this, with calls or without"},
    c.min_ping_interval);

  group = "Security";
  v({"tls-cert", group, "Certificate chain (PEM) for TLS on every TCP address; read again when it changes; or none"},
    c.tls_cert, Word{"FILE"});
  v({"tls-key", group, "Its private key (PEM, not encrypted, not readable by others)"}, c.tls_key, Word{"FILE"});
  v({"tls-client-ca", group,
     "Clients must show a certificate signed by one of these authorities (PEM); none = any client"},
    c.tls_client_ca, Word{"FILE"});
  v({"token-file", group,
     "Requests must carry a bearer token whose SHA-256, in hex, is a line of this file; none = no tokens"},
    c.token_file, Word{"FILE"});

  group = "Execution";
  v({"backend", group,
     "auto takes CUDA where a device is found and the CPU elsewhere; null answers rubbish and needs --unsafe-testing"},
    c.backend);
  v({"devices", group, "CUDA devices to use, such as 0,1; or all"}, c.devices);
  v({"threads", group,
     "Completion queues, one thread each; 0 = by the cores that the process may use (affinity mask, the cgroup's "
     "quota): three quarters of them up to 8, half of them above, at most 32"},
    c.threads, CountRange{0, 256});
  v({"poller", group,
     "How the threads wait for sockets. poll: each for its own; epoll1: one waits for all, for few threads with "
     "thousands of connections; the environment's GRPC_POLL_STRATEGY goes first"},
    c.poller, Choices{"poll", "epoll1"});
  v({"cpu-threads", group, "Workers of the CPU backend; 0 = one a core"}, c.cpu_threads, CountRange{0, 1024});
  v({"filler-threads", group,
     "Threads that copy large requests and those that waited for memory; 0 = a quarter of the cores, at least 1"},
    c.filler_threads, CountRange{0, 256});
  v({"max-in-flight-batches", group,
     "Launched batches at once per thread: more hides launch cost, fewer makes larger batches"},
    c.max_in_flight_batches, CountRange{1, 64});

  group = "Batching";
  v({"max-batch-bytes", group, "A batch is launched when it holds this much"}, c.max_batch_bytes, SizeInBytes{});
  v({"max-batch-requests", group, "A batch is launched when it holds this many requests"}, c.max_batch_requests,
    CountRange{1, 65536});
  v({"max-queue-delay", group, "Hold a batch open this long for company even when nothing runs; 0us = never wait"},
    c.max_queue_delay);

  group = "Limits";
  v({"max-request-bytes", group, "Largest request; at most half of --arena-bytes"}, c.max_request_bytes, SizeInBytes{});
  v({"max-response-bytes", group,
     "Largest answer (output_dtype may be wider than the input); at most half of --arena-bytes"},
    c.max_response_bytes, SizeInBytes{});
  v({"max-rank", group, "Most dimensions of a tensor"}, c.max_rank, CountRange{1, 8});
  v({"max-rows", group, "Most rows of a request"}, c.max_rows, CountRange{1, 1ull << 31});
  v({"max-columns", group, "Longest axis of a request"}, c.max_columns, CountRange{1, 1ull << 31});
  v({"max-top-k", group, "Most of the largest elements that a summary may ask for in each row"}, c.max_top_k,
    CountRange{1, 1024});
  v({"max-requests-per-stream-message", group, "Most requests in one message of a stream"},
    c.max_requests_per_stream_message, CountRange{});
  v({"max-in-flight-per-stream", group, "Unanswered requests of one stream before it is no longer read"},
    c.max_in_flight_per_stream, CountRange{});
  v({"max-batched-per-connection", group,
     "Requests of one connection that are batched at a time while others have some too (a connection alone: 4 times as "
     "many); the rest waits for its turn; 0 = no limit"},
    c.max_batched_per_connection, CountRange{0, 65536});
  v({"max-in-flight-bytes-per-connection", group,
     "Unanswered requests of one connection may hold this much; further ones are RESOURCE_EXHAUSTED, and its streams "
     "are not read; 0 = an eighth of memory-quota, at least two of the largest requests"},
    c.max_in_flight_bytes_per_connection, SizeInBytes{});
  v({"max-concurrent-streams", group, "Calls at once on one connection (HTTP/2 streams); a client queues the rest"},
    c.max_concurrent_streams, CountRange{1, 0x7fffffff});
  v({"max-connections", group, "Then idle connections make room, or newcomers are closed"}, c.max_connections,
    CountRange{});
  v({"max-waiting-calls", group,
     "Calls of all connections that may wait for their first message, some 11 KiB each; above it, connections that "
     "hold many and open more are ended, and those that bring messages above twice as many"},
    c.max_waiting_calls, CountRange{1, 1u << 30});
  v({"first-message-timeout", group,
     "Once half of --max-waiting-calls wait, connections that hold many of them and bring nothing for so long are "
     "ended"},
    c.first_message_timeout);
  v({"max-connection-idle", group, "Close a connection that has had no call for so long; 0s = never"},
    c.max_connection_idle);
  v({"max-connection-age", group,
     "Close a connection after so long, once its calls have ended, so that clients spread and revoked certificates go; "
     "0s = never"},
    c.max_connection_age);
  v({"max-queued-requests", group, "Requests that may wait for memory; more are RESOURCE_EXHAUSTED"},
    c.max_queued_requests, CountRange{});
  v({"max-queued-bytes", group, "Bytes of requests that may wait for memory; more are RESOURCE_EXHAUSTED"},
    c.max_queued_bytes, SizeInBytes{});

  group = "Memory";
  v({"arena-bytes", group, "Memory for tensors, inputs and outputs together, pinned at start; whole slabs"},
    c.arena_bytes, SizeInBytes{});
  v({"slab-bytes", group, "The arena's smallest piece; a power of two"}, c.slab_bytes, SizeInBytes{});
  v({"receive-bytes", group,
     "Memory that messages arrive in, pinned at start, where a GPU reads them without a copy; 0 = all are copied"},
    c.receive_bytes, SizeInBytes{});
  v({"gather-bytes", group, "Smallest request that is read where it arrived; smaller ones are copied"}, c.gather_bytes,
    SizeInBytes{});
  v({"max-unread-bytes-per-connection", group,
     "Answers of one connection, to come and not read, may hold this much; its further requests wait until it has "
     "read"},
    c.max_unread_bytes_per_connection, SizeInBytes{});
  v({"max-unread-bytes", group,
     "Unread answers of all connections may hold this much outside the arena; a connection may have half of what is "
     "left"},
    c.max_unread_bytes, SizeInBytes{});
  v({"memory-quota", group, "What gRPC may hold for messages in transit"}, c.memory_quota, SizeInBytes{});

  group = "Regions";
  v({"regions-socket", group,
     "Share memory with processes of this machine: the path of the unix socket where they get regions; or none"},
    c.regions_socket, Word{"PATH"});
  v({"regions-uids", group, "Whose processes may connect to it: own (the server's uid), any, or uids as 0,1000"},
    c.regions_uids, Word{"LIST"});
  v({"regions-connections", group, "Connections to it at once; then those without a region make room"},
    c.regions_connections, CountRange{1, 4096});
  v({"regions-bytes", group, "Host memory of all regions together; 0 = none"}, c.regions_bytes, SizeInBytes{});
  v({"regions-connection-bytes", group, "Host memory of one connection's regions; 0 = half of regions-bytes"},
    c.regions_connection_bytes, SizeInBytes{});
  v({"regions-device-bytes", group, "Memory of each device for regions; 0 = none"}, c.regions_device_bytes,
    SizeInBytes{});
  v({"regions-device-connection-bytes", group,
     "Memory of each device for one connection's regions; 0 = half of regions-device-bytes"},
    c.regions_device_connection_bytes, SizeInBytes{});

  group = "Drain and health";
  v({"answer-timeout", group, "An answer the client does not read is given up after this long, then its connection"},
    c.answer_timeout);
  v({"device-timeout", group,
     "A device whose batch has not come back after this long hangs: its requests fail, and it is out; without another "
     "one the server drains and ends with exit code 70; 0s = never"},
    c.device_timeout);
  v({"degraded-limit", group,
     "How long to serve on when one of several devices was lost, before the server drains and ends with exit code 70; "
     "0s = not at all"},
    c.degraded_limit);
  v({"drain-delay", group,
     "On SIGTERM: how long to serve on as NOT_SERVING before refusing, so that load balancers notice"},
    c.drain_delay);
  v({"drain-timeout", group, "On SIGTERM: how long accepted requests may take before they are cancelled"},
    c.drain_timeout);

  group = "Metrics";
  v({"metrics-address", group, "Where Prometheus scrapes /metrics: host:port, [v6]:port, :port, or none"},
    c.metrics_address);

  group = "Logging";
  v({"log-level", group, "The least important messages to print"}, c.log_level,
    Choices{"trace", "debug", "info", "warning", "error", "off"});
  v({"log-format", group, "Lines for people or for machines"}, c.log_format, Choices{"text", "json"});
  v({"slow-request", group,
     "Log requests that take longer, with the times of their stages, ten a second at most; 0s = none"},
    c.slow_request);

  group = "Traces";
  v({"trace-endpoint", group,
     "Where to send spans of requests by OTLP over gRPC, as http://collector:4317 or https://...; auto = where "
     "OTEL_EXPORTER_OTLP_ENDPOINT says, if it does; or none"},
    c.trace_endpoint, Word{"URL"});
  v({"trace-ratio", group,
     "How many of the requests that come without a traceparent are traced, from 0 to 1; those with one as it says"},
    c.trace_ratio, Word{"RATIO"});

  group = kTesting;
  v({"unsafe-testing", group,
     "Allow --backend=null and fault switches; loopback and unix addresses only, command line only"},
    c.unsafe_testing);
  v({"fault", group,
     "Make devices and memory fail, a list: devices:N, error:N, sticky:N, hang:N, late:TIME (all four also @DEVICE), "
     "alloc:N, slabs:N, cuda:CALL:N; or none"},
    c.fault, Word{"FAULT"});
}

}  // namespace softmax::server

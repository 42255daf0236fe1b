#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/base/security_flags.h"
#include "client/loadgen/plan/arrivals.h"
#include "client/loadgen/plan/mix.h"
#include "client/softmax_client/options.h"
#include "client/softmax_client/target.h"
#include "client/softmax_client/types.h"

namespace softmax::client {

enum class Method { kUnary, kStream };

// kOip: the Open Inference Protocol (KServe v2), which other servers speak, too.
enum class Protocol { kNative, kOip };

// Closed: every slot sends its next request when it has its answer. Open: requests are sent when they are due, however
// the server answers, and their latency counts from the moment they were due.
enum class Loop { kClosed, kOpen };

// kSample: a fraction of the answers is judged against the reference. kSizesOnly: for echo servers
// that compute nothing; only status and length of each answer are looked at.
enum class Checking { kSample, kSizesOnly };

// Where requests' tensors and their answers lie. kHost, kDevice: in memory that the server shares. kAuto: copied into
// and out of such host memory, as a caller would whose tensors lie elsewhere; in messages, if the server shares none.
enum class RegionKind { kNone, kHost, kDevice, kAuto };

// What the service should keep: a percentage of all requests answered well within a time.
struct ServiceLevel {
  double percentile = 99;
  std::chrono::nanoseconds limit{0};  // 0: none is asked for
};

// "p99<=2ms", "p99=2ms" or "p99:2ms".
std::optional<ServiceLevel> ParseServiceLevel(const std::string& text);

enum class SweepKind { kNone, kRate, kConcurrency };

// Everything that a single run depends on, already validated.
struct LoadOptions {
  // The servers, which all do the same. Every sending thread has connections to each of them and uses them in turn.
  std::vector<Address> addresses = {{"localhost:50051"}};
  Credentials security;
  int connections = 8;  // to each address, dealt out to the processes
  int attempts = 1;     // unary calls: tries of a request, as RetryOptions has it; 1: none is made again
  int in_flight = 8;    // closed loop: requests per connection
  int processes = 1;
  int threads = 2;  // completion-queue threads per process
  Mix mix;
  std::optional<DataType> output_dtype;
  std::optional<std::int32_t> axis;
  std::optional<double> scale;
  Protocol protocol = Protocol::kNative;
  Method method = Method::kUnary;
  RegionKind regions = RegionKind::kNone;
  int requests_per_message = 1;  // streams only
  Loop loop = Loop::kClosed;
  ArrivalPlan arrivals;      // open loop only
  int max_in_flight = 4096;  // open loop: on all connections together; what is due beyond it is dropped
  ServiceLevel slo;
  std::chrono::nanoseconds duration = std::chrono::seconds(10);
  std::chrono::nanoseconds warmup = std::chrono::seconds(1);
  // Above 0: the warm-up goes on until the rates and medians of its last three windows differ by at most this
  // fraction, or until max_warmup.
  double stable_within = 0;
  std::chrono::nanoseconds max_warmup = std::chrono::seconds(30);
  std::chrono::nanoseconds connect_timeout = std::chrono::seconds(5);
  std::chrono::nanoseconds timeout{0};  // per call, or per request on a stream; 0: none
  // Calls still open so long after the end are cancelled and counted as errors.
  std::chrono::nanoseconds grace = std::chrono::seconds(10);
  Checking checking = Checking::kSample;
  double verify_fraction = 0.01;
  std::uint64_t seed = 1;
  // Of one measurement by several generators: this one has every parts-th arrival of an open loop, from number `part`
  // on, and a closed loop of its own.
  int part = 0;
  int parts = 1;
  double start_at_s = 0;  // the warm-up begins then, in seconds since 1970; 0: as soon as the connections are there
  std::vector<int> server_pids;
  std::vector<std::string> server_metrics;  // host:port or URLs of the servers' /metrics; empty: not asked

  int TotalConnections() const { return connections * static_cast<int>(addresses.size()); }
};

// What the whole program does: one run, or several that differ in one thing.
struct Plan {
  LoadOptions load;
  SweepKind sweep = SweepKind::kNone;
  std::vector<double> sweep_values;  // requests per second, or requests in flight on all connections together
  bool search = false;               // for the highest rate that keeps load.slo
  double search_low = 100;           // requests per second
  double search_high = 200000;
  double search_precision = 0.02;  // the answer's relative distance from a rate that was seen to fail
  int repeats = 1;
  bool allow_errors = false;
  std::string json_path;  // empty: none; "-": standard output
  std::string csv_path;
  std::string html_path;
  std::string command;  // as it was called, for the report; fit to be pasted into a shell
};

// "100,200,400", "100..1000/100" (steps) or "1..64*2" (factors).
std::optional<std::vector<double>> ParseSweepValues(const std::string& text);

// The same load with `per_second` requests per second, evenly spaced or at random as in `load`, for its duration.
LoadOptions AtRate(LoadOptions load, double per_second);

// The same load as a closed loop with `requests` in flight (a multiple of the number of addresses), on as many of its
// connections as divide them evenly.
LoadOptions AtConcurrency(LoadOptions load, int requests);

// How many processes send where nothing is said: enough that the generator is not the limit on a machine whose cores
// they share with the server. An open loop has one, because each watches the clock and costs a core.
int DefaultProcesses(Loop loop, unsigned cores);

// A word of a command as a shell has to be given it.
std::string ShellQuoted(const std::string& word);

// By this machine's clock, since 1970.
double ClockSeconds();

// How the program was called, fit to be pasted into a shell.
std::string CommandText(int argc, char** argv);

// "a:1,b:2".
std::string AddressesText(const LoadOptions& load);

// Reads the command line. Nothing: the program is to end with `*exit_code`, and what there is to
// say was said.
std::optional<Plan> ParseCommandLine(int argc, char** argv, int* exit_code);

}  // namespace softmax::client

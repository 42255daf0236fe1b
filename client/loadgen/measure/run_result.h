#pragma once

#include <array>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "client/loadgen/measure/board.h"
#include "client/loadgen/measure/histogram.h"
#include "client/loadgen/measure/machine.h"
#include "client/loadgen/plan/load_options.h"
#include "client/loadgen/plan/workload.h"

namespace softmax::client {

// "UNAVAILABLE" of a grpc::StatusCode.
std::string CodeName(int code);

using Percentiles = std::array<double, 5>;
inline constexpr Percentiles kPercentiles = {50, 90, 99, 99.9, 99.99};

struct LatencyFigures {
  std::uint64_t count = 0;
  // kUnknown without one answer.
  double mean_us = kUnknown;
  double min_us = kUnknown;
  double max_us = kUnknown;
  // As in kPercentiles; kUnknown where fewer than ten answers lie beyond it: that would tell of chance alone.
  Percentiles at_us = {kUnknown, kUnknown, kUnknown, kUnknown, kUnknown};
  std::vector<HistogramBucket> histogram;  // all of it, so that figures of several generators add up
};

LatencyFigures FiguresOf(const Histogram& histogram);
// Adds the histogram that such figures are of.
void AddFigures(const LatencyFigures& figures, Histogram* to);

// "12.3"; "-" of what is kUnknown.
std::string FigureText(double value, int digits = 1);
// "1234.5", and "0.00123" of slow ones.
std::string RateText(double per_second);

// What one class of requests came to.
struct ClassFigures {
  std::string name;
  double per_second = 0;
  double gigabytes_per_second = 0;  // payload, one way, 1e9 bytes
  LatencyFigures latency;
};

// What was sent to one address, of the window's requests.
struct AddressFigures {
  std::string address;
  std::uint64_t attempts = 0;
  std::uint64_t answered = 0;
  std::uint64_t failed = 0;  // attempts
};

struct GeneratorFigures {
  double cpu_cores = 0;
  double busiest_thread = 0;  // share of one core
  std::string why;            // the generator, not the server, set the figures; empty: it did not

  bool limited() const { return !why.empty(); }
};

using CountsByCode = std::array<std::uint64_t, kCodes>;  // by grpc::StatusCode
inline std::uint64_t Sum(const CountsByCode& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

// A value of the report's document, as the text that stands for it there; empty: null.
struct JsonText {
  std::string text;
};

struct GeneratorPart;

// What a run came to. Rates are per second of the measured window. The document has it by report/result_fields.h.
struct RunResult {
  std::string name;
  LoadOptions load;     // how it was run; of one that was read back the loop and the time of the SLO only
  int connections = 0;  // to all addresses
  int in_flight = 0;    // open loop: at most, on all connections; closed loop: on each
  double seconds = 0;   // length of the measured window
  double warmup_seconds = 0;
  int part = 0;  // as in LoadOptions
  int parts = 1;
  double began_s = kUnknown;     // the window, in seconds since 1970
  double clock_ms = kUnknown;    // how far its clock may be from the true time; kUnknown: no time server sets it
  bool warmup_stable = true;     // false: --stable was asked for and not reached
  double offered_per_s = 0;      // open loop: what was due; closed loop: what was achieved
  double achieved_per_s = 0;     // good answers that came within the window
  double goodput_per_s = 0;      // those within the time of the SLO; without an SLO what was achieved
  double within_slo = kUnknown;  // open loop: of all that was due, closed loop: of all answers and errors
  double gigabytes_per_s = 0;
  LatencyFigures latency;  // from the moment a request was due
  LatencyFigures service;  // from its actual send; in a closed loop the same
  LatencyFigures lag;      // open loop: from due to sent
  std::vector<ClassFigures> classes;
  CountsByCode errors = {};         // of the requests that `sent` counts
  CountsByCode warmup_errors = {};  // of the warm-up's requests
  std::string first_error;          // of both
  std::uint64_t sent = 0;
  std::vector<AddressFigures> addresses;
  CountsByCode retried = {};         // of the window's requests: attempts that failed and were made again
  std::uint64_t throttled = 0;       // and those that the budget did not allow to be made again
  std::uint64_t dropped_full = 0;    // because --max-in-flight requests were unanswered
  std::uint64_t dropped_behind = 0;  // because the generator was too slow
  std::uint64_t late = 0;
  std::uint64_t verified = 0;
  std::uint64_t judged = 0;
  std::uint64_t wrong = 0;
  std::string first_wrong;
  GeneratorFigures generator;
  double server_cores = kUnknown;  // kUnknown: not asked for
  double machine_busy = kUnknown;  // share of all cores
  JsonText server;                 // what the server said of the window, as server_metrics.h has it
  JsonText servers;                // of several servers that were asked: an array with each one's
  std::string server_unknown;      // why it (or some of several) said nothing although it was asked
  bool interrupted = false;
  bool complete = true;  // false: a sending process ended badly, and figures are missing
  std::vector<std::string> verdicts;
  std::vector<TimelinePoint> timeline;
  std::vector<GeneratorPart> generators;  // of a merged run

  std::uint64_t attempts() const;
  // The requests that were to be answered.
  std::uint64_t due() const { return load.loop == Loop::kOpen ? sent + dropped() : latency.count + Sum(errors); }
  std::uint64_t retries() const { return Sum(retried); }
  std::uint64_t dropped() const { return dropped_full + dropped_behind; }
};

// One of the generators of a merged run.
struct GeneratorPart {
  std::string file;
  std::string lacks;  // why there is no run of it; empty: there is
  MachineName machine;
  RunResult run;
};

// Adds everything that stands on the board; the rest is the caller's.
void ReadBoard(const LoadOptions& options, const Workload& workload, const Board& board, RunResult* out);

// Fills in generator.why and verdicts from all else.
void Judge(RunResult* result);

// Whether what else runs on the generator's machine competed with it.
bool MachineWasFull(const RunResult& result);

// Whether the run kept its SLO: enough of what was due (dropped, failed and late requests count against it).
bool KeepsSlo(const RunResult& result);

// "p99<=2ms".
std::string ServiceLevelText(const ServiceLevel& level);

}  // namespace softmax::client

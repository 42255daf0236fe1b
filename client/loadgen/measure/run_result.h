#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "client/loadgen/measure/board.h"
#include "client/loadgen/measure/histogram.h"
#include "client/loadgen/measure/timeline.h"
#include "client/loadgen/plan/load_options.h"
#include "client/loadgen/plan/workload.h"

namespace softmax::client {

// "UNAVAILABLE" of a grpc::StatusCode.
std::string CodeName(int code);

inline constexpr std::array<double, 5> kPercentiles = {50, 90, 99, 99.9, 99.99};

// Of what was not measured.
inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

struct LatencyFigures {
  std::uint64_t count = 0;
  // kUnknown without one answer.
  double mean_us = kUnknown;
  double min_us = kUnknown;
  double max_us = kUnknown;
  // As in kPercentiles; kUnknown where fewer than ten answers lie beyond it: that would tell of chance alone.
  std::array<double, kPercentiles.size()> at_us = {kUnknown, kUnknown, kUnknown, kUnknown, kUnknown};
};

LatencyFigures FiguresOf(const Histogram& histogram);

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

// What a run came to. Rates are per second of the measured window.
struct RunResult {
  std::string name;
  LoadOptions load;    // how it was run
  double seconds = 0;  // length of the measured window
  double warmup_seconds = 0;
  bool warmup_stable = true;  // false: --stable was asked for and not reached
  double offered_per_s = 0;   // open loop: what was due; closed loop: what was achieved
  double achieved_per_s = 0;  // good answers that came within the window
  double goodput_per_s = 0;   // those within the time of the SLO; without an SLO what was achieved
  double within_slo = 1;      // open loop: of all that was due, closed loop: of all answers and errors
  double gigabytes_per_s = 0;
  LatencyFigures latency;  // from the moment a request was due
  LatencyFigures service;  // from its actual send; in a closed loop the same
  LatencyFigures lag;      // open loop: from due to sent
  std::vector<ClassFigures> classes;
  std::array<std::uint64_t, kCodes> errors = {};  // of the requests that `sent` counts
  std::uint64_t error_count = 0;
  std::array<std::uint64_t, kCodes> warmup_errors = {};  // of the warm-up's requests
  std::uint64_t warmup_error_count = 0;
  std::string first_error;  // of both
  std::uint64_t sent = 0;
  std::vector<AddressFigures> addresses;
  std::array<std::uint64_t, kCodes> retried = {};  // of the window's requests: attempts that failed and were made again
  std::uint64_t throttled = 0;                     // and those that the budget did not allow to be made again
  std::uint64_t dropped_full = 0;                  // because --max-in-flight requests were unanswered
  std::uint64_t dropped_behind = 0;                // because the generator was too slow
  std::uint64_t late = 0;
  std::uint64_t verified = 0;
  std::uint64_t judged = 0;
  std::uint64_t wrong = 0;
  std::string first_wrong;
  double generator_cores = 0;
  double busiest_sender = 0;   // share of one core
  double server_cores = -1;    // below 0: not asked for
  double machine_busy = -1;    // share of all cores; below 0: not known
  std::string servers_json;    // of several servers that were asked: an array with each one's
  std::string server_json;     // what the server said of the window, as server_metrics.h has it; or empty
  std::string server_unknown;  // why it (or some of several) said nothing although it was asked
  bool interrupted = false;
  bool lost_process = false;    // a sending process ended badly; the figures are incomplete
  std::string generator_limit;  // why the generator, not the server, set the figures; empty: it did not
  std::vector<std::string> verdicts;
  std::vector<TimelinePoint> timeline;

  std::uint64_t attempts() const;
  std::uint64_t retries() const { return std::accumulate(retried.begin(), retried.end(), std::uint64_t{0}); }
  std::uint64_t dropped() const { return dropped_full + dropped_behind; }
};

// Adds everything that stands on the board; the rest is the caller's.
void ReadBoard(const LoadOptions& options, const Workload& workload, const Board& board, RunResult* out);

// Fills in generator_limit and verdicts from all else.
void Judge(RunResult* result);

// Whether the run kept its SLO: enough of what was due (dropped, failed and late requests count against it).
bool KeepsSlo(const RunResult& result);

// "p99<=2ms".
std::string ServiceLevelText(const ServiceLevel& level);

}  // namespace softmax::client

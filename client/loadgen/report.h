#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "client/loadgen/board.h"
#include "client/loadgen/options.h"

namespace softmax::client {

struct LatencyFigures {
  std::uint64_t calls = 0;
  double calls_per_second = 0;
  double gigabytes_per_second = 0;  // payload, one way, 1e9 bytes
  double p50_us = 0;
  double p90_us = 0;
  double p99_us = 0;
  double p999_us = 0;
  double max_us = 0;
};

// What a run came to, read off the board.
struct Report {
  double seconds = 0;  // length of the measured window
  LatencyFigures total;
  std::vector<LatencyFigures> shapes;  // as in the options
  std::array<std::uint64_t, kCodes> errors = {};
  std::uint64_t error_count = 0;
  std::string first_error;
  std::uint64_t verified = 0;
  std::uint64_t judged = 0;
  std::uint64_t wrong = 0;
  std::string first_wrong;
  double generator_cores = 0;
  double server_cores = -1;  // below 0: not asked for
  bool interrupted = false;
  bool lost_process = false;  // a sending process ended badly; the figures are incomplete
};

Report MakeReport(const LoadOptions& options, const Board& board);

std::string ReportTable(const LoadOptions& options, const Report& report);
std::string ReportJson(const LoadOptions& options, const Report& report);
// One line per shape and one in total, below a header line.
std::string ReportCsv(const LoadOptions& options, const Report& report, bool with_header);

// The program's exit code.
int ExitCodeFor(const LoadOptions& options, const Report& report);

const char* CodeName(int code);

}  // namespace softmax::client

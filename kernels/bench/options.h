#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/bench/point.h"
#include "kernels/bench/runner.h"

namespace softmax::kernels::bench {

struct Options {
  std::vector<Point> points;
  std::vector<std::string> providers;
  RunSettings run;
  std::string csv;  // empty: standard output
  std::string json;
  bool resume = false;
  bool list = false;
  double max_seconds = 0;  // 0: no limit
};

// Reads the command line. Nothing: the program is to end with `*exit_code`, and what there is to say was said.
std::optional<Options> ParseCommandLine(int argc, const char* const* argv, int* exit_code);

}  // namespace softmax::kernels::bench

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/bench/point.h"

namespace softmax::kernels::bench {

struct SuiteSettings {
  std::int64_t tensor_bytes = 256 << 20;  // what M = fill makes the input as large as
  std::uint64_t seed = 1;                 // of widths that are drawn
};

// Reads the text of a suite (the format: kernels/bench/suites/all.txt) and appends its points. Returns what is wrong,
// with the number of the line, or an empty string.
std::string ParseSuite(const std::string& text, const SuiteSettings& settings, std::vector<Point>* points);

// The suite built into the program under this name, else the text of the file. Returns what is wrong.
std::string LoadSuite(const std::string& name_or_file, std::string* text);

// One line a point, in a form that the tests compare with what lab/kernels/kernel_peers.py makes of the same suite.
std::string Describe(const Point& point);

}  // namespace softmax::kernels::bench

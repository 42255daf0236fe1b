#pragma once

#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kernels/bench/point.h"

namespace softmax::kernels::bench {

// What one provider did at one point.
struct Result {
  Point point;
  std::string provider;
  double us = 0;            // the median of one launch; meaningless with an error, like the other figures
  double gbps = 0;          // input and output bytes over time; host_*: of one direction
  double ceiling_gbps = 0;  // the same for the fastest copy of the same bytes
  int samples = 0;
  std::string mode;   // event: one launch between two events; graphN: N in one graph; wallN: N on the host's clock
  std::string error;  // why there is no ratio
};

inline constexpr char kCsvHeader[] = "section,dtype,op,M,N,provider,us,GBps,ceiling_GBps,ratio,samples,mode";

// Without the line break. A failed point keeps its place, with empty figures.
std::string CsvRow(const Result& result);

// Keys of rows that have a ratio, in the text of a results file.
std::set<std::string> KeysOf(const std::string& csv);
// The text without the rows that have none: they are to be measured again.
std::string WithoutFailures(const std::string& csv);

// A results file, or standard output if no path is given. Every row is on disk before the next point starts.
class ResultFile {
 public:
  // Returns what is wrong. With resume an existing file is continued, otherwise it is replaced.
  std::string Open(const std::string& path, bool resume);
  bool Has(const Point& point, const std::string& provider) const { return keys_.count(Key(point, provider)) != 0; }
  void Add(const Result& result);

 private:
  std::set<std::string> keys_;
  std::ofstream file_;
};

// An array of objects with the columns of the CSV, and "device" and "error" besides. Returns what is wrong.
std::string WriteJson(const std::string& path, const std::string& device, const std::vector<Result>& results);

double Median(std::vector<double> values);

}  // namespace softmax::kernels::bench

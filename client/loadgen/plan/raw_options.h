#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "client/loadgen/plan/options.h"

// Internal to reading the command line.
namespace softmax::client {

// What stands on the command line, before it is checked as a whole. Times are in seconds.
struct RawOptions {
  Plan plan;
  std::vector<std::string> addresses;
  std::vector<std::string> shapes;
  std::uint64_t payload_bytes = 0;
  std::string rows;
  std::string columns;
  std::vector<std::string> dtypes;
  std::vector<std::string> operations;
  std::vector<std::string> answers;
  std::string output_dtype;
  std::int32_t axis = -1;
  double scale = 1;
  bool stream = false;
  std::string protocol = "native";
  double rate = 0;
  std::string schedule;
  std::string trace;
  std::string arrivals = "constant";
  std::string slo;
  double slo_latency = 0;
  double duration = 10;
  double warmup = 1;
  double stable_percent = 0;
  double max_warmup = 30;
  double connect_timeout = 5;
  SecurityFlags security;
  double timeout = 0;
  bool no_verify = false;
  std::string sweep;
  std::string search_range;
  double search_precision_percent = 2;
};

// Which flags were given, and how often. Knows them all, so that a misspelt one is found out.
class GivenFlags {
 public:
  void Add(const std::string& flag, std::size_t count) { counts_[flag] = count; }
  std::size_t count(const std::string& flag) const { return counts_.at(flag); }

 private:
  std::map<std::string, std::size_t> counts_;
};

// Reads the command line, each flag for itself. Nothing: the program is to end with `*exit_code`, and what there is to
// say was said. CLI11, which takes long to compile, is included behind this alone.
std::optional<GivenFlags> ParseFlags(int argc, char** argv, RawOptions& raw, int* exit_code);

// What single flags cannot know; fills in the rest of raw.plan. Returns what is wrong, in one line; empty: all is well.
std::string CheckTogether(const GivenFlags& given, RawOptions& raw);
// Its part about servers and requests.
std::string CheckWhatIsSent(const GivenFlags& given, RawOptions& raw);

}  // namespace softmax::client

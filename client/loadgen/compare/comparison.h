#pragma once

#include <absl/status/statusor.h>

#include <optional>
#include <string>
#include <vector>

#include "client/loadgen/compare/results_file.h"

namespace softmax::client {

// A figure on both sides: the geometric mean of the runs. kUnknown where some run does not tell it.
struct FigureChange {
  std::string name;  // "requests/s", "p99 us"
  double before = kUnknown;
  double after = kUnknown;
  double change = kUnknown;  // 0.05: 5 % more
  // Within these with 95 % confidence; kUnknown where there is nothing to tell it by.
  double low = kUnknown;
  double high = kUnknown;

  bool is_certain() const { return low > 0 || high < 0; }
};

// One load, the runs of one name; or one kind of its requests.
struct LoadChange {
  std::string name;
  std::string basis;  // of the intervals, in words
  std::vector<FigureChange> figures;
  std::vector<LoadChange> classes;  // where there are several
};

// "p99>+5%": fails when that figure has risen by more, and it is certain that it has risen.
struct FailRule {
  std::string text;
  std::string figure;  // as FigureChange names it
  bool above = true;
  double limit = 0;  // as a change
};
std::optional<FailRule> ParseFailRule(const std::string& text);

struct RuleVerdict {
  std::string text;
  bool failed = false;
};

struct Comparison {
  std::vector<Difference> differences;
  std::vector<LoadChange> loads;
  std::vector<std::string> notes;  // loads that only one side has
  std::vector<RuleVerdict> verdicts;
};

// Intervals are Student's of the logarithms of the repeats' figures (Welch); where a side has a single run, of six
// parts of its timeline, for the rate, p50 and p99. The files could be read. INVALID_ARGUMENT: no load is on both
// sides.
absl::StatusOr<Comparison> Compare(const std::vector<ResultsFile>& before, const std::vector<ResultsFile>& after,
                                   const std::vector<FailRule>& rules);

// For a person.
std::string ComparisonTable(const Comparison& comparison);

// One document (schema 1) with "comparison", which the HTML page reads: the structs above by the names of their members
// (of a FigureChange all, of rules only their verdicts). What is kUnknown is null.
std::string ComparisonJson(const std::string& command, const Comparison& comparison);

// softmax-loadgen merge, softmax-loadgen compare: the exit code; nothing: the command line
// begins with a flag.
std::optional<int> RunCommand(int argc, char** argv);

}  // namespace softmax::client

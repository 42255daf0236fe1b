#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "client/loadgen/experiment.h"
#include "client/loadgen/report/report.h"

namespace softmax::client {

// A file that --json wrote.
struct ResultsFile {
  std::string path;
  std::string problem;  // why it could not be read; empty: it was, and has a run at least
  ReportHead head;
  Outcome outcome;
};

std::vector<ResultsFile> ReadResults(const std::vector<std::string>& paths);

// One measurement that several generators made together, as if one had: counts, rates and histograms add up. A stretch
// of the timeline has the mean of their medians, by answers, and the highest p99. Each generator, those whose file
// could not be read too, stands in `generators` of the runs, and what is missing in their verdicts. The head is the
// first file's. INVALID_ARGUMENT: no file could be read, or they are not of one measurement; it names them.
absl::StatusOr<ResultsFile> MergeResults(const std::vector<ResultsFile>& files);

// The value of that name; empty: there is none.
std::string TextOf(const Texts& texts, const std::string& name);

// One thing that is not the same. Of several files on a side, all that they say.
struct Difference {
  std::string what;
  std::string before;
  std::string after;
};

// In flags, tools, machines and servers. The files could be read.
std::vector<Difference> DifferencesOf(const std::vector<ResultsFile>& before, const std::vector<ResultsFile>& after);

}  // namespace softmax::client

#pragma once

#include <absl/status/statusor.h>

#include <vector>

#include "client/loadgen/compare/results_file.h"

namespace softmax::client {

// One measurement that several generators made together, as if one had: counts, rates and histograms add up. A stretch
// of the timeline has the mean of their medians, by answers, and the highest p99. Each generator, those whose file
// could not be read too, stands in `generators` of the runs, and what is missing in their verdicts. The head is the
// first file's. INVALID_ARGUMENT: no file could be read, or they are not of one measurement; it names them.
absl::StatusOr<ResultsFile> MergeResults(const std::vector<ResultsFile>& files);

}  // namespace softmax::client

#pragma once

#include <string>

#include "client/loadgen/experiment.h"

namespace softmax::client {

// One line for each class of each run and one in total, below a header line.
std::string ReportCsv(const Outcome& outcome, bool with_header);

}  // namespace softmax::client

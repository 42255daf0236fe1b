#pragma once

#include <string>

#include "client/loadgen/experiment.h"
#include "client/loadgen/plan/load_options.h"

namespace softmax::client {

// For a person: one run with all that is known of it, or a line for each of several.
std::string ReportTable(const Plan& plan, const Outcome& outcome);

}  // namespace softmax::client

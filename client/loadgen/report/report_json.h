#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

#include "client/loadgen/experiment.h"
#include "client/loadgen/plan/load_options.h"

namespace softmax::client {

// A document of schema 1, which the HTML report and the scripts read: one object with "settings", "runs" and "search".
std::string ReportJson(const Plan& plan, const Outcome& outcome);

// The runs of such a document and its search, by the same list of fields (result_fields.h); what it lacks is as in a
// new RunResult. INVALID_ARGUMENT: it is none, or names the first value that is none of its kind.
absl::StatusOr<Outcome> ReadReport(std::string_view json);

}  // namespace softmax::client

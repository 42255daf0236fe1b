#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/loadgen/experiment.h"
#include "client/loadgen/measure/machine.h"
#include "client/loadgen/plan/load_options.h"

namespace softmax::client {

// A document of schema 1, which the HTML report and the scripts read: one object with "settings", "runs" and "search".
std::string ReportJson(const Plan& plan, const Outcome& outcome);

using Texts = std::vector<std::pair<std::string, std::string>>;  // by name, in order

// What a document says beside its runs.
struct ReportHead {
  Texts tool;  // version, commit, grpc, command
  MachineName machine;
  Texts settings;
};

// The same of runs that were made on other machines, put together by this program and `command`.
std::string ReportJson(const ReportHead& head, const std::string& command, const Outcome& outcome);

// The runs of such a document and its search, by the same list of fields (result_fields.h); what it lacks is as in a
// new RunResult. INVALID_ARGUMENT: it is none, or names the first value that is none of its kind.
absl::StatusOr<Outcome> ReadReport(std::string_view json, ReportHead* head = nullptr);

}  // namespace softmax::client

#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/loadgen/experiment.h"
#include "client/loadgen/measure/machine.h"
#include "client/loadgen/plan/load_options.h"

// What is written about an invocation.
namespace softmax::client {

// Prints the table and writes the files that the plan names. False: one could not be written, and that was said.
bool WriteReports(const Plan& plan, const Outcome& outcome);
// The same of another table and JSON document than the plan's.
bool WriteReports(const Plan& plan, const std::string& table, const std::string& json);

// For a person: one run with all that is known of it, or a line for each of several.
std::string ReportTable(const Plan& plan, const Outcome& outcome);

// One line for each class of each run and one in total, below a header line.
std::string ReportCsv(const Outcome& outcome, bool with_header);

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

// The runs of the same name, next to one another: [first, last).
struct RunGroup {
  std::size_t first = 0;
  std::size_t last = 0;
};
std::vector<RunGroup> GroupsOf(const Outcome& outcome);

const char* MethodName(const LoadOptions& load);

// "off", "TLS", or "mutual TLS" where this client shows a certificate.
const char* TlsName(const LoadOptions& load);

}  // namespace softmax::client

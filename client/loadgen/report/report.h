#pragma once

#include <string>

#include "client/loadgen/experiment.h"
#include "client/loadgen/plan/load_options.h"

// What is written about an invocation, as text.
namespace softmax::client {

// For a person. One run with all that is known of it, or a line for each of several.
std::string ReportTable(const Plan& plan, const Outcome& outcome);

// A document of schema 1, which the HTML report and the scripts read: one object with "settings", "runs" and "search".
std::string ReportJson(const Plan& plan, const Outcome& outcome);

// One line for each class of each run and one in total, below a header line.
std::string ReportCsv(const Outcome& outcome, bool with_header);

// Prints the table and writes the files that the plan names. False: one could not be written, and that was said.
bool WriteReports(const Plan& plan, const Outcome& outcome);

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

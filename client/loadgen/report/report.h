#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "client/loadgen/experiment.h"
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

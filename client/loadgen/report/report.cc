#include "client/loadgen/report/report.h"

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>
#include <sys/stat.h>

#include <cstdio>

#include "client/base/file.h"
#include "client/base/program.h"
#include "client/loadgen/report/html/html_report.h"
#include "common/base/shortage.h"

namespace softmax::client {
namespace {

// False: the file could not be written, and that was said.
bool Arrived(const absl::Status& written) {
  if (!written.ok()) Say(absl::StrCat("cannot write ", written.message()));
  return written.ok();
}

}  // namespace

bool WriteReports(const Plan& plan, const Outcome& outcome) {
  bool good = WriteReports(plan, ReportTable(plan, outcome), ReportJson(plan, outcome));
  if (!plan.csv_path.empty()) {
    struct stat info {};
    const bool fresh = plan.csv_path == "-" || stat(plan.csv_path.c_str(), &info) != 0 || info.st_size == 0;
    good = Arrived(AppendToFile(plan.csv_path, ReportCsv(outcome, fresh))) && good;
  }
  return good;
}

bool WriteReports(const Plan& plan, const std::string& table, const std::string& json) {
  // Where the figures go to standard output for a program, the table makes room for them.
  const bool taken = plan.json_path == "-" || plan.csv_path == "-" || plan.html_path == "-";
  std::fputs(table.c_str(), taken ? stderr : stdout);
  bool good = OutputArrived("softmax-loadgen");
  if (!plan.json_path.empty()) good = Arrived(WriteFile(plan.json_path, json)) && good;
  if (!plan.html_path.empty()) good = Arrived(WriteFile(plan.html_path, HtmlReport(json))) && good;
  return good;
}

std::vector<RunGroup> GroupsOf(const Outcome& outcome) {
  std::vector<RunGroup> groups;
  for (std::size_t i = 0; i < outcome.runs.size(); ++i) {
    if (groups.empty() || outcome.runs[groups.back().first].name != outcome.runs[i].name) groups.push_back({i, i});
    groups.back().last = i + 1;
  }
  return groups;
}

const char* TlsName(const LoadOptions& load) {
  if (!load.security.tls) return "off";
  return load.security.tls->certificate_chain.empty() ? "TLS" : "mutual TLS";
}

const char* MethodName(const LoadOptions& load) {
  if (load.protocol == Protocol::kOip) return "ModelInfer";
  return load.method == Method::kStream ? "stream" : "unary";
}

}  // namespace softmax::client

#include "client/loadgen/report/report.h"

#include <sys/stat.h>

#include <cstdio>

#include "client/loadgen/report/html/html_report.h"
#include "client/loadgen/report/output_file.h"

namespace softmax::client {
namespace {

// False: the file could not be written, and that was said.
bool Said(const std::string& path, const std::string& problem) {
  if (problem.empty()) return true;
  std::fprintf(stderr, "softmax-loadgen: cannot write %s: %s\n", path.c_str(), problem.c_str());
  return false;
}

bool WriteHtml(const Plan& plan, const Outcome& outcome) {
  const auto page = HtmlReport(ReportJson(plan, outcome));
  if (page.ok()) return Said(plan.html_path, ReplaceFile(plan.html_path, *page));
  std::fprintf(stderr, "softmax-loadgen: no HTML report: %s\n", std::string(page.status().message()).c_str());
  return false;
}

}  // namespace

bool WriteReports(const Plan& plan, const Outcome& outcome) {
  bool good = true;
  // Where the figures go to standard output for a program, the table makes room for them.
  const bool taken = plan.json_path == "-" || plan.csv_path == "-" || plan.html_path == "-";
  std::fputs(ReportTable(plan, outcome).c_str(), taken ? stderr : stdout);
  std::fflush(nullptr);
  if (!plan.json_path.empty())
    good = Said(plan.json_path, ReplaceFile(plan.json_path, ReportJson(plan, outcome))) && good;
  if (!plan.csv_path.empty()) {
    struct stat info {};
    const bool fresh = plan.csv_path == "-" || stat(plan.csv_path.c_str(), &info) != 0 || info.st_size == 0;
    good = Said(plan.csv_path, AppendToFile(plan.csv_path, ReportCsv(outcome, fresh))) && good;
  }
  if (!plan.html_path.empty()) good = WriteHtml(plan, outcome) && good;
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
  if (!load.tls) return "off";
  return load.tls->certificate_chain.empty() ? "TLS" : "mutual TLS";
}

const char* MethodName(const LoadOptions& load) { return load.method == Method::kStream ? "stream" : "unary"; }

}  // namespace softmax::client

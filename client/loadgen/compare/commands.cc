#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "client/base/command_line.h"
#include "client/base/program.h"
#include "client/loadgen/compare/comparison.h"
#include "client/loadgen/plan/option_flags.h"
#include "client/loadgen/report/report.h"
#include "common/base/shortage.h"

namespace softmax::client {
namespace {

struct CommandOptions {
  std::vector<std::string> files;  // merge
  std::string before;              // compare: several with commas
  std::string after;
  std::vector<FailRule> rules;
  Plan plan;  // where reports go, and the command
};

void AddCompareFlags(CLI::App& app, CommandOptions* options) {
  app.add_option("before", options->before, "--json of runs, several with commas")->type_name("FILE")->required();
  app.add_option("after", options->after, "the same")->type_name("FILE")->required();
  AddParsedList(app, "--fail-if", options->rules, ParseFailRule,
                "rate, goodput, mean, p50, p90, p99, p99.9 or p99.99, and >+N% or <-N%",
                "exit with 1 when a figure has certainly changed, and by more: 'p99>+5%', 'rate<-3%'; may be repeated");
}

int CannotBeDone(const std::string& why) {
  Say(why);
  return 2;
}

int RunMerge(const CommandOptions& options) {
  const auto merged = MergeResults(ReadResults(options.files));
  if (!merged.ok()) return CannotBeDone(std::string(merged.status().message()));
  const std::string json = ReportJson(merged->head, options.plan.command, merged->outcome);
  const bool written = WriteReports(options.plan, ReportTable(options.plan, merged->outcome), json);
  const int exit_code = ExitCodeFor(options.plan, merged->outcome);
  return exit_code == 0 && !written ? kExitUnavailable : exit_code;
}

int RunCompare(const CommandOptions& options) {
  const std::vector<ResultsFile> before = ReadResults(absl::StrSplit(options.before, ','));
  const std::vector<ResultsFile> after = ReadResults(absl::StrSplit(options.after, ','));
  for (const auto* files : {&before, &after}) {
    for (const ResultsFile& file : *files) {
      if (!file.problem.empty()) return CannotBeDone(absl::StrCat(file.path, ": ", file.problem));
    }
  }
  const auto comparison = Compare(before, after, options.rules);
  if (!comparison.ok()) return CannotBeDone(std::string(comparison.status().message()));
  const std::string json = ComparisonJson(options.plan.command, *comparison);
  const bool written = WriteReports(options.plan, ComparisonTable(*comparison), json);
  const bool failed = std::any_of(comparison->verdicts.begin(), comparison->verdicts.end(),
                                  [](const RuleVerdict& verdict) { return verdict.failed; });
  return failed ? 1 : written ? 0 : kExitUnavailable;
}

}  // namespace

std::optional<int> RunCommand(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  const bool merges = name == "merge";
  if (name.empty() || name[0] == '-') return std::nullopt;
  if (!merges && name != "compare") return CannotBeDone(name + ": expected merge, compare or flags (--help)");
  CommandOptions options;
  options.plan.command = CommandText(argc, argv);
  CLI::App app(merges ? "Puts together what several generators measured at the same time (--part, --start-at). Exit "
                        "codes: as of a run; 1 also when one is missing; 2 wrong usage, or not of one measurement."
                      : "What changed between two builds or settings, with 95 % intervals. Exit codes: 0 done; 1 "
                        "--fail-if; 2 wrong usage, or what cannot be compared.",
               "softmax-loadgen " + name);
  if (merges) {
    app.add_option("files", options.files, "--json of each generator")->type_name("FILE")->required();
  } else {
    AddCompareFlags(app, &options);
  }
  AddOutputFlags(app, options.plan);
  int exit_code = 0;
  if (!ParseArguments(app, argc - 1, argv + 1, &exit_code)) return exit_code;
  if (const std::string problem = CheckOutputs(options.plan); !problem.empty()) return CannotBeDone(problem);
  return merges ? RunMerge(options) : RunCompare(options);
}

}  // namespace softmax::client

#include "client/loadgen/compare/results_file.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "common/base/text_file.h"

namespace softmax::client {
namespace {

constexpr std::size_t kMostResultsBytes = std::size_t{1} << 30;

// What one file says of how it was made.
Texts FactsOf(const ResultsFile& file) {
  Texts facts = file.head.settings;
  for (const auto& [name, value] : file.head.tool) {
    if (name != "command") facts.emplace_back("softmax-loadgen: " + name, value);  // its flags are settings
  }
  const MachineName& machine = file.head.machine;
  facts.emplace_back("generator: host", machine.host);
  if (machine.cores > 0) {  // of a merge there may be several kinds
    facts.emplace_back("generator: processor", absl::StrCat(machine.cores, " cores of ", machine.processor));
    facts.emplace_back("generator: system", machine.system);
  }
  const std::string& said = file.outcome.runs.front().server.text;
  const auto server = nlohmann::json::parse(said.empty() ? "{}" : said);
  for (const char* name : {"version", "commit", "backend"}) {
    const auto value = server.find(name);
    const bool is_known = value != server.end() && value->is_string();
    facts.emplace_back(absl::StrCat("server: ", name), is_known ? value->get<std::string>() : "");
  }
  return facts;
}

}  // namespace

std::vector<ResultsFile> ReadResults(const std::vector<std::string>& paths) {
  std::vector<ResultsFile> files;
  for (const std::string& path : paths) {
    ResultsFile& file = files.emplace_back();
    file.path = path;
    std::string text;
    file.problem = ReadTextFile(path, kMostResultsBytes, &text);
    if (!file.problem.empty()) continue;
    auto outcome = ReadReport(text, &file.head);
    if (!outcome.ok()) {
      file.problem = std::string(outcome.status().message());
    } else if (outcome->runs.empty()) {
      file.problem = "has no runs";
    } else {
      file.outcome = *std::move(outcome);
    }
  }
  return files;
}

std::string TextOf(const Texts& texts, const std::string& name) {
  const auto at = std::find_if(texts.begin(), texts.end(), [&](const auto& text) { return text.first == name; });
  return at == texts.end() ? "" : at->second;
}

std::vector<Difference> DifferencesOf(const std::vector<ResultsFile>& before, const std::vector<ResultsFile>& after) {
  struct Values {
    std::set<std::string> before, after;
  };
  std::map<std::string, Values> facts;
  for (const auto& [files, of] : {std::pair(&before, &Values::before), std::pair(&after, &Values::after)}) {
    for (const ResultsFile& file : *files) {
      for (const auto& [name, value] : FactsOf(file)) (facts[name].*of).insert(value);
    }
  }
  std::vector<Difference> differences;
  for (const auto& [name, of] : facts) {
    if (of.before != of.after)
      differences.push_back({name, absl::StrJoin(of.before, ", "), absl::StrJoin(of.after, ", ")});
  }
  return differences;
}

}  // namespace softmax::client

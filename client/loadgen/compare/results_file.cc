#include "client/loadgen/compare/results_file.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "common/base/text_file.h"

namespace softmax::client {
namespace {

constexpr std::size_t kMostResultsBytes = std::size_t{1} << 30;

// What one file says of how it was made, in order.
Texts FactsOf(const ResultsFile& file) {
  Texts facts = file.head.settings;
  for (const auto& [name, value] : file.head.tool) facts.emplace_back("softmax-loadgen: " + name, value);
  const MachineName& machine = file.head.machine;
  facts.emplace_back("generator: host", machine.host);
  facts.emplace_back("generator: processor", absl::StrCat(machine.cores, " cores of ", machine.processor));
  facts.emplace_back("generator: system", machine.system);
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
  std::vector<std::string> names;
  const auto facts_of = [&](const std::vector<ResultsFile>& files) {
    std::vector<Texts> facts;
    for (const ResultsFile& file : files) {
      for (const auto& fact : facts.emplace_back(FactsOf(file))) {
        if (std::find(names.begin(), names.end(), fact.first) == names.end()) names.push_back(fact.first);
      }
    }
    return facts;
  };
  const std::vector<Texts> facts_before = facts_of(before);
  const std::vector<Texts> facts_after = facts_of(after);
  std::vector<Difference> differences;
  for (const std::string& name : names) {
    const auto all_of = [&](const std::vector<Texts>& facts) {
      std::set<std::string> values;
      for (const Texts& of : facts) values.insert(TextOf(of, name));
      return absl::StrJoin(values, ", ");
    };
    Difference of{name, all_of(facts_before), all_of(facts_after)};
    if (of.before != of.after) differences.push_back(std::move(of));
  }
  return differences;
}

}  // namespace softmax::client

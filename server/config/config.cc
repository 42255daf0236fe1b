#include "server/config/config.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_replace.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <optional>
#include <set>
#include <string_view>

#include "common/base/process_settings.h"
#include "common/base/safe_text.h"
#include "common/base/text_file.h"
#include "server/config/check.h"
#include "server/config/flags.h"
#include "server/config/values.h"

extern "C" char** environ;  // NOLINT: POSIX names it so

namespace softmax::server {
namespace {

constexpr int kUsageError = 2;
constexpr std::size_t kMostConfigFileBytes = 1 << 20;
constexpr char kPrefix[] = "SOFTMAX_";

std::string VariableName(const std::string& flag) {
  return absl::StrCat(kPrefix, absl::AsciiStrToUpper(absl::StrReplaceAll(flag, {{"-", "_"}})));
}

// An empty variable is none: compose passes ${X:-} on as one.
std::optional<std::string> Variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr || *value == 0) return std::nullopt;
  return value;
}

std::vector<std::string> Split(const FieldName& field, const std::string& value) {
  return field.arity == FieldArity::kRepeated ? SplitAtCommas(value) : std::vector<std::string>{value};
}

std::string ApplyEnvironment(Config* config) {
  for (const FieldName& field : ConfigFieldNames()) {
    const std::string variable = VariableName(field.name);
    const std::optional<std::string> value = Variable(variable);
    if (!value) continue;
    const std::string error = ApplyValues(field.name, Split(field, *value), ConfigSource::kEnvironment, config);
    if (!error.empty()) return absl::StrCat("environment variable ", variable, ": ", error);
  }
  return "";
}

// Kubernetes sets SOFTMAX_SERVER_PORT and the like for a Service of that name, so an unknown name
// is no error.
std::vector<std::string> UnknownVariables() {
  std::set<std::string> known = {VariableName("config")};
  for (const std::string& name : FlagNames()) known.insert(VariableName(name));
  std::vector<std::string> warnings;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string name(text.substr(0, text.find('=')));
    const bool of_a_service = name.find("_SERVICE_") != std::string::npos || name.find("_PORT") != std::string::npos;
    if (name.starts_with(kPrefix) && !of_a_service && !known.contains(name)) {
      warnings.push_back("environment variable " + name + " is not known and has no effect");
    }
  }
  return warnings;
}

// CLI11 takes a quote that is not closed for a part of the value, and knows no escapes.
bool HasStrayCharacter(const std::string& value) {
  return std::any_of(value.begin(), value.end(), [](unsigned char c) { return c == '"' || std::iscntrl(c) != 0; });
}

// max_rank is another spelling of max-rank.
std::string NameOfKey(const std::string& key) { return absl::StrReplaceAll(key, {{"_", "-"}}); }

std::string ApplyFileItem(const ConfigFileItem& item, const std::vector<FieldName>& fields, Config* config) {
  const std::string name = NameOfKey(item.name);
  const auto field =
      std::find_if(fields.begin(), fields.end(), [&](const FieldName& known) { return known.name == name; });
  if (field == fields.end()) return "unknown key " + item.name + Suggestion(name, "");
  std::vector<std::string> values = item.values;
  if (field->arity == FieldArity::kCommas) {
    values = {absl::StrJoin(values, ",")};
  }
  if (field->arity == FieldArity::kOne && values.size() != 1) {
    return "key " + item.name + ": wants one value and is given " + std::to_string(values.size()) +
           " (is the value quoted, and the key there only once?)";
  }
  if (std::any_of(values.begin(), values.end(), HasStrayCharacter)) {
    return "key " + item.name + ": its value holds a quotation mark or a control character (is a quote not closed?)";
  }
  const std::string error = ApplyValues(name, values, ConfigSource::kFile, config);
  return error.empty() ? "" : "key " + item.name + ": " + error;
}

std::string ApplyFile(const std::string& path, Config* config) {
  const std::string prefix = "config file " + path + ": ";
  std::string text;
  if (const std::string problem = ReadTextFile(path, kMostConfigFileBytes, &text); !problem.empty()) {
    return prefix + problem;
  }
  const std::vector<FieldName> fields = ConfigFieldNames();
  std::set<std::string> seen;
  for (const ConfigFileItem& item : ParseConfigText(text)) {
    if (!item.parents.empty()) {
      return prefix + "section or key " + item.parents.front() + ": there are no sections, only keys";
    }
    if (!seen.insert(NameOfKey(item.name)).second) return prefix + "key " + item.name + " is there twice";
    if (const std::string error = ApplyFileItem(item, fields, config); !error.empty()) return prefix + error;
  }
  return "";
}

std::string Apply(int argc, const char* const* argv, ParseResult* result, Actions* actions) {
  // First for --help, --config and mistakes of its own; then again, over what it beats.
  Config scratch;
  if (std::string error = ApplyCommandLine(argc, argv, &scratch, actions); !error.empty() || actions->told) {
    return error;
  }
  if (actions->config_file.empty()) actions->config_file = Variable(VariableName("config")).value_or("");
  if (!actions->config_file.empty()) {
    if (std::string error = ApplyFile(actions->config_file, &result->config); !error.empty()) return error;
  }
  if (std::string problem = PollStrategyProblem(); !problem.empty()) return problem;
  if (std::string error = ApplyEnvironment(&result->config); !error.empty()) return error;
  Actions again;
  if (std::string error = ApplyCommandLine(argc, argv, &result->config, &again); !error.empty()) return error;
  return std::string(CheckConfig(result->config).message());
}

}  // namespace

ParseResult ParseConfig(int argc, const char* const* argv) {
  ParseResult result;
  Actions actions;
  if (const std::string error = Apply(argc, argv, &result, &actions); !error.empty()) {
    result.exit_code = kUsageError;
    result.error = "softmax-server: " + SafeError(error) + "\nRun softmax-server --help for every flag.\n";
    return result;
  }
  if (actions.told) {
    result.output = *actions.told;
    return result;
  }
  result.warnings = UnknownVariables();
  result.run = !actions.print_config;
  result.output = actions.print_config ? absl::StrCat(PrintConfig(result.config), "\n# 0 chooses; here: ",
                                                      DescribeThreads(result.config, CoresOfThisProcess()), "\n")
                                       : "";
  return result;
}

}  // namespace softmax::server

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/config/fields.h"

// All that has to do with CLI11, which takes long to compile, is behind this header. What is said to be wrong is one
// line; empty: nothing is.
namespace softmax::server {

// Where a value comes from; the command line alone may open test doors.
enum class ConfigSource : std::uint8_t { kCommandLine, kEnvironment, kFile };

// A field that takes several values in a config file: one flag each, or one flag with commas.
enum class FieldArity : std::uint8_t { kOne, kRepeated, kCommas };
struct FieldName {
  std::string name;
  FieldArity arity = FieldArity::kOne;
};
std::vector<FieldName> ConfigFieldNames();
std::vector<std::string> FlagNames();

// Flags that say what to do, not how to serve; only --config has a variable, and none stands in a
// file.
struct Actions {
  std::string config_file;
  bool print_config = false;
  std::optional<std::string> told;  // what --help or --version print; nothing is served then
};

std::string ApplyCommandLine(int argc, const char* const* argv, Config* config, Actions* actions);

// One value, or several of one repeated flag, from somewhere other than the command line.
std::string ApplyValues(const std::string& name, const std::vector<std::string>& values, ConfigSource source,
                        Config* config);

// " (did you mean --threads?)", where `word` looks like a flag's name; `prefix` stands before that.
std::string Suggestion(const std::string& word, const std::string& prefix);

// What a config file says: a key and its values, below sections.
struct ConfigFileItem {
  std::vector<std::string> parents;
  std::string name;
  std::vector<std::string> values;
};
std::vector<ConfigFileItem> ParseConfigText(const std::string& text);

// Makes "67108864" of "64MiB". False: no such unit, or too large for 64 bits.
bool ExpandSize(std::string* text);

}  // namespace softmax::server

#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "server/config/fields.h"

namespace softmax::server {

// Where a value comes from; the command line alone may open test doors.
enum class ConfigSource : std::uint8_t { kCommandLine, kEnvironment, kFile };

// Adds one CLI11 option per field, which writes the field when it is given and leaves it alone
// otherwise. `config` must outlive `app`. A wrong value throws CLI::ValidationError that names the
// flag.
void AddConfigFlags(ConfigSource source, Config* config, CLI::App* app);

// A field that takes several values in a config file: one flag each, or one flag with commas.
enum class FieldArity : std::uint8_t { kOne, kRepeated, kCommas };
struct FieldName {
  std::string name;
  FieldArity arity = FieldArity::kOne;
};
std::vector<FieldName> ConfigFieldNames();

}  // namespace softmax::server

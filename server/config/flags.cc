#include "server/config/flags.h"

#include <functional>
#include <utility>

#include "server/config/values.h"

namespace softmax::server {
namespace {

class FlagAdder {
 public:
  FlagAdder(ConfigSource source, CLI::App* app) : source_(source), app_(app) {}

  void Texts(FieldText text, std::vector<std::string>& field) {
    const std::string shown = CLI::detail::join(field, ",");
    app_->add_option_function<std::vector<std::string>>(
            Flag(text), [&field](const std::vector<std::string>& values) { field = values; }, text.help)
        ->group(text.group)
        ->type_name("ADDRESS")
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->default_str(shown);
  }

  void Text(FieldText text, std::string& field) { Word(text, field, "ADDRESS"); }

  void Word(FieldText text, std::string& field, const char* type) {
    Add(text, type, field, [&field](const std::string& value) {
      field = value;
      return std::string(value.empty() ? "must not be empty" : "");
    });
  }

  void Choice(FieldText text, std::string& field, const std::vector<std::string>& choices) {
    Add(text, CLI::detail::join(choices, "|"), field,
        [&field, choices](const std::string& value) { return ParseChoice(value, choices, &field); });
  }

  void OneOf(FieldText text, Backend& field) {
    Add(text, "auto|cuda|cpu|null", BackendName(field),
        [&field](const std::string& value) { return ParseBackend(value, &field); });
  }

  void Ordinals(FieldText text, std::vector<std::uint32_t>& field) {
    Add(text, "LIST", FormatOrdinals(field),
        [&field](const std::string& value) { return ParseOrdinals(value, &field); });
  }

  void Count(FieldText text, std::uint64_t& field, CountRange range = {}) {
    Add(text, "COUNT", std::to_string(field),
        [&field, range](const std::string& value) { return ParseCount(value, range, &field); });
  }

  void Bytes(FieldText text, std::uint64_t& field) {
    Add(text, "SIZE", FormatBytes(field), [&field](const std::string& value) { return ParseBytes(value, &field); });
  }

  void Duration(FieldText text, Config::Duration& field) {
    Add(text, "TIME", FormatDuration(field),
        [&field](const std::string& value) { return ParseDuration(value, &field); });
  }

  void Switch(FieldText text, bool& field) {
    Add(text, "true|false", field ? "true" : "false", [&field](const std::string& value) {
      std::string chosen;
      std::string error = ParseChoice(value, {"true", "false"}, &chosen);
      field = error.empty() ? chosen == "true" : field;
      return error;
    });
  }

  void TestingSwitch(FieldText text, bool& field) {
    if (source_ == ConfigSource::kCommandLine) {
      app_->add_flag(Flag(text), field, text.help)->group(text.group);
      return;
    }
    RefuseHere(text);
  }

  void TestingWord(FieldText text, std::string& field, const char* type) {
    if (source_ == ConfigSource::kCommandLine) {
      Word(text, field, type);
    } else {
      RefuseHere(text);
    }
  }

 private:
  void RefuseHere(FieldText text) {
    Add(text, "", "", [](const std::string&) { return std::string("can be set on the command line only"); });
  }

  static std::string Flag(FieldText text) { return std::string("--") + text.name; }

  // `parse` writes the field, or returns what is wrong with the value.
  void Add(FieldText text, std::string type, std::string shown, std::function<std::string(const std::string&)> parse) {
    const std::string flag = Flag(text);
    app_->add_option_function<std::string>(
            flag,
            [flag, parse = std::move(parse)](const std::string& value) {
              if (const std::string error = parse(value); !error.empty()) {
                throw CLI::ValidationError(flag, error);
              }
            },
            text.help)
        ->group(text.group)
        ->type_name(std::move(type))
        ->default_str(std::move(shown));
  }

  const ConfigSource source_;
  CLI::App* const app_;
};

class NameCollector {
 public:
  void Texts(FieldText text, const std::vector<std::string>&) { Add(text, FieldArity::kRepeated); }
  void Ordinals(FieldText text, const std::vector<std::uint32_t>&) { Add(text, FieldArity::kCommas); }
  void Text(FieldText text, const std::string&) { Add(text); }
  void Word(FieldText text, const std::string&, const char*) { Add(text); }
  void Choice(FieldText text, const std::string&, const std::vector<std::string>&) { Add(text); }
  void OneOf(FieldText text, const Backend&) { Add(text); }
  void Count(FieldText text, const std::uint64_t&, CountRange = {}) { Add(text); }
  void Bytes(FieldText text, const std::uint64_t&) { Add(text); }
  void Duration(FieldText text, const Config::Duration&) { Add(text); }
  void Switch(FieldText text, const bool&) { Add(text); }
  void TestingSwitch(FieldText text, const bool&) { Add(text); }
  void TestingWord(FieldText text, const std::string&, const char*) { Add(text); }

  std::vector<FieldName> names;

 private:
  void Add(FieldText text, FieldArity arity = FieldArity::kOne) { names.push_back({text.name, arity}); }
};

}  // namespace

void AddConfigFlags(ConfigSource source, Config* config, CLI::App* app) {
  FlagAdder adder(source, app);
  VisitConfig(*config, adder);
}

std::vector<FieldName> ConfigFieldNames() {
  NameCollector collector;
  const Config config;
  VisitConfig(config, collector);
  return std::move(collector.names);
}

}  // namespace softmax::server

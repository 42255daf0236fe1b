#include "server/config/flags.h"

#include <absl/strings/str_cat.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <memory>
#include <sstream>
#include <type_traits>
#include <utility>

#include "common/base/help_formatter.h"
#include "common/base/help_text.h"
#include "common/base/nearest.h"
#include "server/config/values.h"

namespace softmax::server {
namespace {

class FlagAdder {
 public:
  FlagAdder(ConfigSource source, CLI::App* app) : source_(source), app_(app) {}

  // Addresses.
  void operator()(FieldText text, std::vector<std::string>& field) {
    const std::string shown = CLI::detail::join(field, ",");
    app_->add_option_function<std::vector<std::string>>(
            Flag(text),
            [&field, flag = Flag(text)](const std::vector<std::string>& values) {
              if (const std::string problem = ListProblem(values.size()); !problem.empty()) {
                throw CLI::ValidationError(flag, problem);
              }
              field.clear();
              for (const std::string& value : values) field.push_back(WithHost(value));
            },
            text.help)
        ->group(std::string(text.group))
        ->type_name("ADDRESS")
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->default_str(shown);
  }
  void operator()(FieldText text, std::string& field) {
    Add(text, "ADDRESS", field, [&field](const std::string& value) {
      field = WithHost(value);
      return EmptyProblem(value);
    });
  }
  void operator()(FieldText text, std::string& field, Word word) {
    Add(text, word.shown, field, [&field](const std::string& value) {
      field = value;
      return EmptyProblem(value);
    });
  }
  void operator()(FieldText text, std::string& field, const Choices& choices) {
    Add(text, CLI::detail::join(choices, "|"), field,
        [&field, choices](const std::string& value) { return ParseChoice(value, choices, &field); });
  }
  void operator()(FieldText text, Backend& field) {
    Add(text, "auto|cuda|cpu|null", BackendName(field),
        [&field](const std::string& value) { return ParseBackend(value, &field); });
  }
  void operator()(FieldText text, std::vector<std::uint32_t>& field) {
    Add(text, "LIST", FormatOrdinals(field),
        [&field](const std::string& value) { return ParseOrdinals(value, &field); });
  }
  void operator()(FieldText text, std::uint64_t& field, CountRange range) {
    Add(text, absl::StrCat("COUNT in [", range.min, " - ", range.max, "]"), std::to_string(field),
        [&field, range](const std::string& value) { return ParseCount(value, range, &field); });
  }
  void operator()(FieldText text, std::uint64_t& field, SizeInBytes) {
    Add(text, "SIZE", FormatBytes(field), [&field](const std::string& value) { return ParseBytes(value, &field); });
  }
  void operator()(FieldText text, Config::Duration& field) {
    Add(text, "TIME", FormatDuration(field),
        [&field](const std::string& value) { return ParseDuration(value, &field); });
  }
  void operator()(FieldText text, bool& field) {
    if (IsTesting(text) && source_ == ConfigSource::kCommandLine) {
      app_->add_flag(Flag(text), field, text.help)->group(std::string(text.group));
      return;
    }
    Add(text, "true|false", field ? "true" : "false",
        [&field](const std::string& value) { return ParseSwitch(value, &field); });
  }

 private:
  using Parse = std::function<std::string(const std::string& value)>;

  static std::string EmptyProblem(const std::string& value) { return value.empty() ? "must not be empty" : ""; }

  static std::string Flag(FieldText text) { return std::string("--") + text.name; }

  // `parse` writes the field, or returns what is wrong with the value.
  void Add(FieldText text, std::string type, std::string shown, Parse parse) {
    if (IsTesting(text) && source_ != ConfigSource::kCommandLine) {
      parse = [](const std::string&) { return std::string("can be set on the command line only"); };
    }
    const std::string flag = Flag(text);
    app_->add_option_function<std::string>(
            flag,
            [flag, parse = std::move(parse)](const std::string& value) {
              if (const std::string error = parse(value); !error.empty()) throw CLI::ValidationError(flag, error);
            },
            text.help)
        ->group(std::string(text.group))
        ->type_name(std::move(type))
        ->default_str(std::move(shown));
  }

  const ConfigSource source_;
  CLI::App* const app_;
};

struct NameCollector {
  template <typename Field, typename... What>
  void operator()(FieldText text, const Field&, const What&...) {
    names.push_back({text.name, std::is_same_v<Field, std::vector<std::string>>     ? FieldArity::kRepeated
                                : std::is_same_v<Field, std::vector<std::uint32_t>> ? FieldArity::kCommas
                                                                                    : FieldArity::kOne});
  }
  std::vector<FieldName> names;
};

// Adds one CLI11 option per field, which writes the field when it is given and leaves it alone otherwise. `config` must
// outlive `app`. A wrong value throws CLI::ValidationError that names the flag.
void AddConfigFlags(ConfigSource source, Config* config, CLI::App* app) {
  FlagAdder adder(source, app);
  VisitConfig(*config, adder);
}

std::unique_ptr<CLI::App> MakeApp(Config* config, Actions* actions) {
  auto app =
      std::make_unique<CLI::App>("Serves softmax over gRPC, in batches, on CUDA or on the CPU.", "softmax-server");
  app->set_help_flag("-h,--help", "Print this and leave")->group("General");
  app->set_version_flag("--version,-V,-v", std::string("softmax-server ") + Version() + " (" + Commit() + ")",
                        "Print the version and leave")
      ->group("General");
  app->add_option("--config", actions->config_file, "A TOML file with any of the flags as keys")
      ->check([](const std::string& path) { return std::string(path.empty() ? "must not be empty" : ""); })
      ->group("General")
      ->type_name("FILE");
  app->add_flag("--print-config", actions->print_config,
                "Print the configuration that would be served with, as a config file, and leave")
      ->group("General");
  AddConfigFlags(ConfigSource::kCommandLine, config, app.get());
  app->footer(
      "Each flag may also be set by a variable (SOFTMAX_MAX_BATCH_BYTES for --max-batch-bytes) or in the config file "
      "(max-batch-bytes = \"1MiB\"). The command line beats the environment, which beats the file.\n"
      "SIZE: bytes, or with KiB, MiB, GiB. TIME: a number with us, ms, s, m or h.\n\n"
      "Examples:\n"
      "  softmax-server --address :50051                    every address of IPv4 and IPv6\n"
      "  softmax-server --backend cpu --address unix:/tmp/softmax.sock\n"
      "  softmax-server --tls-cert chain.pem --tls-key key.pem --token-file tokens --health-address :8081\n"
      "  softmax-server --config softmax.toml --print-config");
  return app;
}

}  // namespace

std::vector<FieldName> ConfigFieldNames() {
  NameCollector collector;
  const Config config;
  VisitConfig(config, collector);
  return std::move(collector.names);
}

std::vector<std::string> FlagNames() {
  std::vector<std::string> names;
  for (const FieldName& field : ConfigFieldNames()) names.push_back(field.name);
  return names;
}

std::string Suggestion(const std::string& word, const std::string& prefix) {
  const auto nearest = Nearest(word, FlagNames());
  return nearest ? " (did you mean " + prefix + *nearest + "?)" : "";
}

std::string ApplyCommandLine(int argc, const char* const* argv, Config* config, Actions* actions) {
  // CLI11 would take the next argument for the value that is missing here.
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.starts_with("--") && word.find('=') == word.size() - 1) {
      return word.substr(0, word.size() - 1) + ": must not be empty";
    }
  }
  const auto app = MakeApp(config, actions);
  try {
    app->parse(argc, argv);
  } catch (const CLI::ExtrasError& error) {
    const std::string unknown = UnknownFlag(app->remaining(), FlagNames());
    return unknown.empty() ? error.what() : unknown;
  } catch (const CLI::CallForVersion& version) {
    actions->told = std::string(version.what()) + "\n";
  } catch (const CLI::Success&) {
    Config defaults;
    Actions none;
    const auto shown = MakeApp(&defaults, &none);
    ShowDefaultsAsOurs(shown.get());
    actions->told = shown->help();
    actions->told = WrapHelp(*actions->told, TerminalColumns());
  } catch (const CLI::ParseError& error) {
    return error.what();
  }
  return "";
}

std::string ApplyValues(const std::string& name, const std::vector<std::string>& values, ConfigSource source,
                        Config* config) {
  if (std::find(values.begin(), values.end(), "") != values.end()) {
    return values.size() == 1 ? "must not be empty" : "one of its values is empty";
  }
  // Before CLI11 sees them, which takes long over many.
  if (std::string problem = ListProblem(values.size()); !problem.empty()) return problem;
  CLI::App app;
  AddConfigFlags(source, config, &app);
  std::vector<std::string> arguments;
  arguments.reserve(values.size());
  for (const std::string& value : values) arguments.push_back(absl::StrCat("--", name, "=", value));
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    std::string text = error.what();
    // The source is named by the caller, in its own spelling.
    const std::string flag = "--" + name + ": ";
    return text.starts_with(flag) ? text.substr(flag.size()) : text;
  }
  return "";
}

std::vector<ConfigFileItem> ParseConfigText(const std::string& text) {
  std::istringstream stream(text);
  std::vector<ConfigFileItem> items;
  for (CLI::ConfigItem& item : CLI::ConfigTOML().from_config(stream)) {
    items.push_back({std::move(item.parents), std::move(item.name), std::move(item.inputs)});
  }
  return items;
}

bool ExpandSize(std::string* text) {
  try {
    CLI::AsSizeValue(/*kb_is_1000=*/true)(*text);
  } catch (const CLI::ValidationError&) {
    return false;
  }
  return true;
}

}  // namespace softmax::server

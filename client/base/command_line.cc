#include "client/base/command_line.h"

#include <absl/strings/str_cat.h>
#include <absl/time/time.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "client/base/program.h"
#include "common/base/duration.h"
#include "common/base/help_formatter.h"
#include "common/base/help_text.h"
#include "common/base/nearest.h"

namespace softmax::client {
namespace {

// `error`, or the flag that is not known with the one that it may be a slip of.
std::string WhatIsWrong(const CLI::App& app, const std::exception& error) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back(name);
  }
  const std::string unknown = UnknownFlag(app.remaining(), flags);
  return unknown.empty() ? error.what() : unknown;
}

}  // namespace

std::optional<std::chrono::nanoseconds> ParseDuration(const std::string& text) {
  static constexpr Unit kSeconds[] = {{"", 1'000'000'000}};
  static constexpr double kLongestNs = 1e4 * 3600e9;  // 10,000 hours: far from where clocks overflow
  auto written = ReadDuration(text, kDurationUnits, std::chars_format::general);
  if (!written) written = ReadDuration(text, kSeconds, std::chars_format::general);
  if (!written || written->ns > kLongestNs) return std::nullopt;
  return std::chrono::nanoseconds(std::llround(written->ns));
}

bool ParseArguments(CLI::App& app, int argc, char** argv, int* exit_code) {
  ShowDefaultsAsOurs(&app);
  app.set_version_flag("--version,-V,-v", app.get_name() + " " + Version() + " (" + Commit() + ")",
                       "Print the version and exit");
  try {
    app.parse(argc, argv);
    return true;
  } catch (const CLI::CallForHelp&) {
    std::fputs(WrapHelp(app.help(), TerminalColumns()).c_str(), stdout);
    *exit_code = 0;
  } catch (const CLI::Success& told) {
    *exit_code = app.exit(told);
  } catch (const CLI::ParseError& error) {
    Say(WhatIsWrong(app, error) + " (--help lists all flags)");
    *exit_code = 2;
  }
  return false;
}

CLI::Option* AddReader(CLI::App& app, const std::string& flag, bool is_list,
                       const std::function<bool(const std::string&, bool)>& read, const std::string& expected,
                       const std::string& what) {
  const auto take = [=](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      if (read(text, &text == &texts.front())) continue;
      throw CLI::ValidationError(absl::StrCat(flag, " ", text, ": expected ", expected));
    }
  };
  CLI::Option* const option = app.add_option_function<std::vector<std::string>>(flag, take, what);
  return is_list ? option->delimiter(',') : option->expected(1)->allow_extra_args(false);
}

CLI::Option* AddTime(CLI::App& app, const std::string& flag, std::chrono::nanoseconds& value,
                     std::chrono::nanoseconds least, std::chrono::nanoseconds most, const std::string& what) {
  const auto text = [](std::chrono::nanoseconds time) { return absl::FormatDuration(absl::FromChrono(time)); };
  const auto parse = [least, most](const std::string& given) {
    const auto time = ParseDuration(given);
    return time && *time >= least && *time <= most ? time : std::nullopt;
  };
  const std::string expected = "a time from " + text(least) + " to " + text(most) + ", such as 10s or 500ms";
  return AddParsed(app, flag, value, parse, expected, what)->option_text("TIME=" + text(value));
}

}  // namespace softmax::client

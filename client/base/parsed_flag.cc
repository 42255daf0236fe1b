#include "client/base/parsed_flag.h"

#include <absl/strings/str_cat.h>
#include <absl/time/time.h>

#include <CLI/CLI.hpp>
#include <optional>

#include "client/base/command_line.h"

namespace softmax::client {

CLI::Option* AddReader(CLI::App& app, const std::string& flag, const std::function<bool(const std::string&)>& read,
                       const std::string& expected, const std::string& what) {
  const auto take = [=](const std::string& text) {
    if (!read(text)) throw CLI::ValidationError(absl::StrCat(flag, " ", text, ": expected ", expected));
  };
  return app.add_option_function<std::string>(flag, take, what);
}

CLI::Option* AddListReader(CLI::App& app, const std::string& flag,
                           const std::function<bool(const std::string&, bool)>& read, const std::string& expected,
                           const std::string& what) {
  const auto take = [=](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      if (read(text, &text == &texts.front())) continue;
      throw CLI::ValidationError(absl::StrCat(flag, " ", text, ": expected ", expected));
    }
  };
  return app.add_option_function<std::vector<std::string>>(flag, take, what)->delimiter(',');
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

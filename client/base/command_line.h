#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

// What the client's programs share of reading a command line. CLI11 takes long to compile, and stays behind this.
namespace softmax::client {

// "10s", "500ms", "200us", "2m", "1h", or plain seconds.
std::optional<std::chrono::nanoseconds> ParseDuration(const std::string& text);

// Reads the command line, --help and --version with it, into what the flags of `app` fill in. False: the program is to
// end with `*exit_code`, and what there is to say was said.
bool ParseArguments(CLI::App& app, int argc, char** argv, int* exit_code);

// A flag whose text a function of ours, `read`, takes; where it returns false, the error says what was `expected`. Of a
// list, with commas or by repeating the flag, it takes each part.
CLI::Option* AddReader(CLI::App& app, const std::string& flag, bool is_list,
                       const std::function<bool(const std::string& text, bool first)>& read,
                       const std::string& expected, const std::string& what);

// A flag whose text `parse` turns into an optional. Where it was not given, `value` stays as it is.
template <typename T, typename Parse>
CLI::Option* AddParsed(CLI::App& app, const std::string& flag, T& value, Parse parse, const std::string& expected,
                       const std::string& what) {
  const auto read = [&value, parse](const std::string& text, bool /*first*/) {
    auto parsed = parse(text);
    if (!parsed) return false;
    value = *std::move(parsed);
    return true;
  };
  return AddReader(app, flag, /*is_list=*/false, read, expected, what);
}

// Of AddParsed: the text is one of these names.
template <typename T>
auto OneOf(std::vector<std::pair<std::string, T>> names) {
  return [names](const std::string& text) -> std::optional<T> {
    for (const auto& [name, value] : names) {
      if (name == text) return value;
    }
    return std::nullopt;
  };
}

// The same for each part of a list, which replaces what `values` has.
template <typename T, typename Parse>
CLI::Option* AddParsedList(CLI::App& app, const std::string& flag, std::vector<T>& values, Parse parse,
                           const std::string& expected, const std::string& what) {
  const auto read = [&values, parse](const std::string& text, bool first) {
    if (first) values.clear();
    auto parsed = parse(text);
    if (!parsed) return false;
    values.push_back(*std::move(parsed));
    return true;
  };
  return AddReader(app, flag, /*is_list=*/true, read, expected, what);
}

// A time from `least` to `most`, as ParseDuration reads it.
CLI::Option* AddTime(CLI::App& app, const std::string& flag, std::chrono::nanoseconds& value,
                     std::chrono::nanoseconds least, std::chrono::nanoseconds most, const std::string& what);

}  // namespace softmax::client

#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

// What both programs add to CLI11: flags whose text is read by a function of ours.
namespace softmax::client {

// A flag whose text `read` takes; where it returns false, the error says what was `expected`.
CLI::Option* AddReader(CLI::App& app, const std::string& flag, const std::function<bool(const std::string& text)>& read,
                       const std::string& expected, const std::string& what);

// The same for a list, with commas or by repeating the flag.
CLI::Option* AddListReader(CLI::App& app, const std::string& flag,
                           const std::function<bool(const std::string& text, bool first)>& read,
                           const std::string& expected, const std::string& what);

// A flag whose text `parse` turns into an optional. Where it was not given, `value` stays as it is.
template <typename T, typename Parse>
CLI::Option* AddParsed(CLI::App& app, const std::string& flag, T& value, Parse parse, const std::string& expected,
                       const std::string& what) {
  const auto read = [&value, parse](const std::string& text) {
    auto parsed = parse(text);
    if (!parsed) return false;
    value = *std::move(parsed);
    return true;
  };
  return AddReader(app, flag, read, expected, what);
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
  return AddListReader(app, flag, read, expected, what);
}

// A time from `least` to `most`, as ParseDuration reads it.
CLI::Option* AddTime(CLI::App& app, const std::string& flag, std::chrono::nanoseconds& value,
                     std::chrono::nanoseconds least, std::chrono::nanoseconds most, const std::string& what);

}  // namespace softmax::client

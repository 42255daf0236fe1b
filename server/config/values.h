#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "server/config/fields.h"

// Values as people write them. Parsers return what is wrong, quoting the text, or an empty string.
namespace softmax::server {

std::string ParseBytes(const std::string& text, std::uint64_t* out);  // "64MiB", "64mb", "4096", "5.36870912e+08"
std::string ParseDuration(const std::string& text,
                          std::chrono::nanoseconds* out);                               // "200us", "1.5s", "0"
std::string ParseCount(const std::string& text, CountRange range, std::uint64_t* out);  // "100", "1e+06"
std::string ParseOrdinals(const std::string& text,
                          std::vector<std::uint32_t>* out);  // "all", "0,1"
std::string ParseBackend(const std::string& text, Backend* out);
// "[::]:9400" of ":9400", which is every address of both families; "0.0.0.0:9400" on a machine without IPv6.
std::string WithHost(const std::string& address);
std::string ParseSwitch(const std::string& text, bool* out);  // "true", "False", "1", "off"
std::string ParseChoice(const std::string& text, const std::vector<std::string>& choices, std::string* out);

// The shortest exact form, which the parsers read back as the same value.
std::string FormatBytes(std::uint64_t bytes);
std::string FormatDuration(std::chrono::nanoseconds duration);
std::string FormatOrdinals(const std::vector<std::uint32_t>& ordinals);

// How many values a list may have, whose every two are compared; what is wrong with a list of `values`.
inline constexpr std::size_t kMostListed = 64;
std::string ListProblem(std::size_t values);

// "a,b" are two words, "a,b," three, the last of them empty, and "" is one.
std::vector<std::string> SplitAtCommas(const std::string& text);

}  // namespace softmax::server

#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace softmax {

struct Unit {
  const char* name;  // "": a bare number
  std::int64_t factor;
};

// Nanoseconds, largest first.
inline constexpr Unit kDurationUnits[] = {{"h", 3'600'000'000'000}, {"m", 60'000'000'000}, {"s", 1'000'000'000},
                                          {"ms", 1'000'000},        {"us", 1'000},         {"ns", 1}};

// A length of time as people write it: a number, and its unit right behind it.
struct WrittenDuration {
  double number;  // finite, 0 or more
  double ns;
};

// Reads "200us" or "1.5s", in one of these units; 0 needs none. Nothing: the text is not that.
std::optional<WrittenDuration> ReadDuration(std::string_view text, std::span<const Unit> units = kDurationUnits,
                                            std::chars_format format = std::chars_format::fixed);

}  // namespace softmax

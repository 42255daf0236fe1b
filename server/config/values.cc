#include "server/config/values.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>

#include "common/base/duration.h"
#include "server/config/flags.h"

namespace softmax::server {
namespace {

constexpr Unit kByteUnits[] = {{"TiB", std::int64_t{1} << 40},
                               {"GiB", std::int64_t{1} << 30},
                               {"MiB", std::int64_t{1} << 20},
                               {"KiB", std::int64_t{1} << 10},
                               {"", 1}};
// Doubles hold every nanosecond up to 104 days.
constexpr double kMaxDurationNs = 100.0 * 24 * 3600 * 1e9;

std::string Quote(const std::string& text) { return "'" + text + "'"; }

std::string Format(std::int64_t value, std::span<const Unit> units, const char* zero) {
  if (value == 0) return zero;
  const auto unit = std::find_if(units.begin(), units.end(), [&](const Unit& u) { return value % u.factor == 0; });
  return std::to_string(value / unit->factor) + unit->name;
}

template <typename T>
bool ParseWhole(const std::string& text, T* out) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *out);
  return error == std::errc() && stop == end;
}

// A whole number in digits, or with an exponent as Go's printer writes it from a million on: 5.36870912e+08. The latter
// must be a whole number exactly.
bool ParseNumber(const std::string& text, std::uint64_t* out) {
  constexpr int kMostZeros = 20;  // of a number of 64 bits
  const std::size_t e = text.find('e');
  if (e == std::string::npos) return ParseWhole(text, out);
  const std::size_t point = std::min(text.find('.'), e);
  const std::string whole = text.substr(0, point);
  std::string fraction = point < e ? text.substr(point + 1, e - point - 1) : "0";
  int power = 0;
  if (whole.empty() || fraction.empty()) return false;
  if (!ParseWhole(text.substr(text[e + 1] == '+' ? e + 2 : e + 1), &power)) return false;
  while (!fraction.empty() && fraction.back() == '0') fraction.pop_back();
  const int zeros = power - static_cast<int>(fraction.size());
  if (zeros < 0 || zeros > kMostZeros) return false;
  return ParseWhole(whole + fraction + std::string(static_cast<std::size_t>(zeros), '0'), out);
}

}  // namespace

std::string ParseBytes(const std::string& text, std::uint64_t* out) {
  std::string want = Quote(text) +
                     " is not a size: want a whole number of bytes, or one with "
                     "KiB, MiB, GiB, TiB (or kB, MB, GB, TB: powers of 1000)";
  if (text.empty() || text.front() < '0' || text.front() > '9') return want;
  std::string number = text;
  std::uint64_t bytes = 0;
  if (!ParseNumber(text, &bytes) && (!ExpandSize(&number) || !ParseWhole(number, &bytes))) return want;
  if (bytes > (std::uint64_t{1} << 62)) return Quote(text) + " is more than 4 EiB";
  *out = bytes;
  return "";
}

std::string ParseDuration(const std::string& text, std::chrono::nanoseconds* out) {
  const auto written = ReadDuration(text);
  if (!written) return Quote(text) + " is not a duration: want a number with ns, us, ms, s, m or h, such as 200us";
  if (written->ns > kMaxDurationNs) return Quote(text) + " is more than 100 days";
  *out = std::chrono::nanoseconds(std::llround(written->ns));
  return "";
}

std::string ParseCount(const std::string& text, CountRange range, std::uint64_t* out) {
  std::uint64_t value = 0;
  if (!ParseNumber(text, &value) || value < range.min || value > range.max) {
    return Quote(text) + " is not a whole number from " + std::to_string(range.min) + " to " +
           std::to_string(range.max);
  }
  *out = value;
  return "";
}

std::string ParseOrdinals(const std::string& text, std::vector<std::uint32_t>* out) {
  out->clear();
  if (text == "all") return "";
  for (const std::string& word : SplitAtCommas(text)) {
    std::uint32_t ordinal = 0;
    if (!ParseWhole(std::string(absl::StripAsciiWhitespace(word)), &ordinal) || ordinal > 1023) {
      return Quote(text) + " is not a list of CUDA devices: want all, or ordinals such as 0,1";
    }
    if (std::find(out->begin(), out->end(), ordinal) != out->end()) {
      return Quote(text) + " names device " + std::to_string(ordinal) + " twice";
    }
    out->push_back(ordinal);
  }
  return "";
}

std::string ParseBackend(const std::string& text, Backend* out) {
  for (const Backend backend : {Backend::kAuto, Backend::kCuda, Backend::kCpu, Backend::kNull}) {
    if (text == BackendName(backend)) {
      *out = backend;
      return "";
    }
  }
  return Quote(text) + " is not one of auto, cuda, cpu, null";
}

std::string WithHost(const std::string& address) {
  if (!address.starts_with(':')) return address;
  const int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return "0.0.0.0" + address;
  close(fd);
  return "[::]" + address;
}

std::string ParseSwitch(const std::string& text, bool* out) {
  const std::string word = absl::AsciiStrToLower(text);
  if (word == "true" || word == "1" || word == "yes" || word == "on") {
    *out = true;
    return "";
  }
  if (word == "false" || word == "0" || word == "no" || word == "off") {
    *out = false;
    return "";
  }
  return Quote(text) + " is not one of true, false";
}

std::string ParseChoice(const std::string& text, const std::vector<std::string>& choices, std::string* out) {
  if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
    return Quote(text) + " is not one of " + absl::StrJoin(choices, ", ");
  }
  *out = text;
  return "";
}

std::string FormatBytes(std::uint64_t bytes) { return Format(static_cast<std::int64_t>(bytes), kByteUnits, "0"); }

std::string FormatDuration(std::chrono::nanoseconds duration) { return Format(duration.count(), kDurationUnits, "0s"); }

std::string FormatOrdinals(const std::vector<std::uint32_t>& ordinals) {
  return ordinals.empty() ? "all" : absl::StrJoin(ordinals, ",");
}

std::string ListProblem(std::size_t values) {
  return values <= kMostListed
             ? ""
             : "lists at most " + std::to_string(kMostListed) + ", and is given " + std::to_string(values);
}

std::vector<std::string> SplitAtCommas(const std::string& text) { return absl::StrSplit(text, ','); }

}  // namespace softmax::server

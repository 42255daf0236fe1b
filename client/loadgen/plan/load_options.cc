#include "client/loadgen/plan/load_options.h"

#include <absl/strings/ascii.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_replace.h>
#include <absl/strings/str_split.h>
#include <absl/time/time.h>
#include <re2/re2.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "client/base/program.h"
#include "client/loadgen/plan/option_flags.h"

namespace softmax::client {
namespace {

constexpr std::size_t kMaxSweepValues = 1000;

bool ParsePositive(absl::string_view text, double* value) {
  return absl::SimpleAtod(text, value) && std::isfinite(*value) && *value > 0;
}

}  // namespace

double ClockSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string CommandText(int argc, char** argv) {
  std::string command = "softmax-loadgen";
  for (int i = 1; i < argc; ++i) command += " " + ShellQuoted(argv[i]);
  return command;
}

std::string ShellQuoted(const std::string& word) {
  const auto is_plain = [](unsigned char c) {
    return absl::ascii_isalnum(c) || std::strchr("_-+./:,=@%^", c) != nullptr;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_plain)) return word;
  return "'" + absl::StrReplaceAll(word, {{"'", "'\\''"}}) + "'";
}

std::optional<ServiceLevel> ParseServiceLevel(const std::string& text) {
  ServiceLevel level;
  std::string percentile;
  std::string time;
  absl::Duration limit;
  if (!RE2::FullMatch(text, "p([^<=:]*)(?:<=|[<=:])(.*)", &percentile, &time) ||
      !ParsePositive(percentile, &level.percentile) || level.percentile >= 100 || !absl::ParseDuration(time, &limit) ||
      limit <= absl::ZeroDuration()) {
    return std::nullopt;
  }
  level.limit = absl::ToChronoNanoseconds(limit);
  return level;
}

std::optional<std::vector<double>> ParseSweepValues(const std::string& text) {
  std::vector<double> values;
  std::string from, to, sign, by;
  if (!RE2::FullMatch(text, R"((.*?)\.\.(.*?)([/*])(.*))", &from, &to, &sign, &by)) {
    for (const absl::string_view part : absl::StrSplit(text, ',')) {
      if (!ParsePositive(part, &values.emplace_back())) return std::nullopt;
    }
    return values.size() <= kMaxSweepValues ? std::optional(values) : std::nullopt;
  }
  double low = 0, high = 0, step = 0;
  const bool factor = sign == "*";
  if (!ParsePositive(from, &low) || !ParsePositive(to, &high) || !ParsePositive(by, &step) || high < low ||
      (factor && step < 1.001)) {
    return std::nullopt;
  }
  for (double i = 0;; ++i) {
    const double value = factor ? low * std::pow(step, i) : low + step * i;
    if (value > high * (1 + 1e-9)) return values;
    values.push_back(value);
    if (values.size() > kMaxSweepValues) return std::nullopt;
  }
}

LoadOptions AtRate(LoadOptions load, double per_second) {
  load.loop = Loop::kOpen;
  load.arrivals.trace = nullptr;
  load.arrivals.segments = {{per_second, per_second, static_cast<double>(load.duration.count()) / 1e9}};
  return load;
}

LoadOptions AtConcurrency(LoadOptions load, int requests) {
  load.loop = Loop::kClosed;
  const int to_each = requests / static_cast<int>(load.addresses.size());
  load.connections = std::min(load.connections, to_each);
  while (to_each % load.connections != 0) --load.connections;
  load.processes = std::min(load.processes, load.connections);
  load.in_flight = to_each / load.connections;
  return load;
}

int DefaultProcesses(Loop loop, unsigned cores) {
  return loop == Loop::kOpen ? 1 : std::clamp(static_cast<int>(cores) / 4, 1, 4);
}

std::string AddressesText(const LoadOptions& load) {
  return absl::StrJoin(load.addresses, ",",
                       [](std::string* out, const Address& address) { out->append(address.target); });
}

std::optional<Plan> ParseCommandLine(int argc, char** argv, int* exit_code) {
  RawOptions raw;
  raw.plan.command = CommandText(argc, argv);
  const std::optional<GivenFlags> given = ParseFlags(argc, argv, raw, exit_code);
  if (!given) return std::nullopt;
  const std::string problem = CheckTogether(*given, raw);
  if (!problem.empty()) {
    Say(problem);
    *exit_code = 2;
    return std::nullopt;
  }
  return raw.plan;
}

}  // namespace softmax::client

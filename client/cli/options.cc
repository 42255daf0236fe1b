#include "client/cli/options.h"

#include <absl/status/status.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <map>

#include "client/base/command_line.h"
#include "client/base/say.h"
#include "client/base/security_flags.h"
#include "common/base/duration.h"

namespace softmax::client {
namespace {

constexpr double kLongestNs = 1e4 * 3600e9;  // 10,000 hours: far from where clocks overflow

struct RawOptions {
  CliOptions options;
  DataType dtype = DataType::kFloat32;
  DataType output_dtype = DataType::kFloat32;
  std::int32_t axis = -1;
  double scale = 1;
  Operation operation = Operation::kSoftmax;
  std::string timeout = "10s";
  std::string wait = "0s";
  bool info = false;
  bool health = false;
  SecurityFlags security;
};

const std::map<std::string, DataType> kDataTypes = {{"float32", DataType::kFloat32},
                                                    {"float16", DataType::kFloat16},
                                                    {"bfloat16", DataType::kBFloat16},
                                                    {"float64", DataType::kFloat64}};
const std::map<std::string, Operation> kOperations = {{"softmax", Operation::kSoftmax},
                                                      {"log_softmax", Operation::kLogSoftmax}};
const std::map<std::string, Format> kFormats = {
    {"auto", Format::kAuto}, {"npy", Format::kNpy}, {"csv", Format::kCsv}, {"text", Format::kText}};

std::string CheckDuration(const std::string& text) {
  return ParseDuration(text) ? "" : "'" + text + "' is not a time like 10s or 500ms";
}

// An option that takes one of these names.
template <typename T>
void AddName(CLI::App& app, const std::string& flag, const std::map<std::string, T>& names, const char* unset, T& value,
             const char* what) {
  std::string all;
  for (const auto& [name, unused] : names) all += (all.empty() ? "" : "|") + name;
  const auto read = [&names, &value, flag, all](const std::string& text) {
    const auto found = names.find(text);
    if (found == names.end()) throw CLI::ValidationError(flag, "'" + text + "' is not one of " + all);
    value = found->second;
  };
  app.add_option_function<std::string>(flag, read, what)->option_text(all + unset);
}

void AddOptions(CLI::App& app, RawOptions& raw) {
  CliOptions& o = raw.options;
  app.add_option("input", o.input, "a .npy or .csv file, or a file of numbers; - is standard input")
      ->type_name("FILE")
      ->capture_default_str();
  app.add_option("-o,--output", o.output,
                 "where the answer goes, as .npy, .csv or .txt if so named; - is standard output")
      ->type_name("FILE")
      ->capture_default_str();
  AddName(app, "--format", kFormats, "=auto", o.format, "of the input, and of an answer without a suffix");
  AddName(app, "--dtype", kDataTypes, "", raw.dtype,
          "element type to send; unset: the file's, and float32 for numbers in text");
  app.add_flag("--overflow-to-infinity", o.overflow_to_infinity,
               "send what is too large for the element type as infinity, instead of refusing it");
  AddName(app, "--output-dtype", kDataTypes, "", raw.output_dtype, "element type of the answer; unset: the one sent");
  AddName(app, "--op", kOperations, "=softmax", raw.operation, "what is computed");
  app.add_option("--axis", raw.axis, "negative counts from the end; unset: the last");
  app.add_option("--scale", raw.scale, "factor on the input; unset: 1");
  app.add_option("--lengths", o.lengths, "valid elements of each row, as 3,2,3")->delimiter(',');
  app.add_option("--address", o.address, "host:port, dns:///host:port, ipv4:a:1,b:2, unix:/path, or a list with commas")
      ->type_name("ADDRESS")
      ->capture_default_str();
  app.add_option(
         "--timeout", raw.timeout,
         "for connecting and the call with its retries together, above 0: 10s, 500ms, 200us, 2m, 1h; with --health, "
         "of each address")
      ->check(CheckDuration)
      ->type_name("TIME")
      ->capture_default_str();
  app.add_option("--attempts", o.attempts, "how often to try when the server is away or busy")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  auto* info = app.add_flag("--info", raw.info, "print what the server is and allows, and end");
  auto* health = app.add_flag("--health", raw.health, "ask grpc.health.v1 of every address, and end")->excludes(info);
  app.add_option("--service", o.service, "whose health; empty: the server's as a whole")->needs(health);
  app.add_option("--wait", raw.wait, "how long --health waits for all of them to be serving")
      ->check(CheckDuration)
      ->type_name("TIME")
      ->needs(health);
}

void AddSummaryOptions(CLI::App& app, CliOptions& o) {
  app.add_option("--top", o.top, "print the most probable elements of each row, so many: row, index, value, label")
      ->type_name("COUNT");
  app.add_option("--at", o.at, "print the elements at these indices of each row, as 7,42")->delimiter(',');
  app.add_flag("--log-sum-exp", o.log_sum_exp, "print each row's log(sum(exp)) and maximum");
  app.add_flag("--entropy", o.entropy, "print each row's entropy");
  app.add_option("--labels", o.labels, "names for --top and --at, one a line, the first for index 0")
      ->type_name("FILE");
}

absl::Status TakeTimes(RawOptions& raw) {
  CliOptions& o = raw.options;
  o.timeout = ParseDuration(raw.timeout).value_or(o.timeout);
  o.wait = ParseDuration(raw.wait).value_or(o.wait);
  return o.timeout.count() > 0 ? absl::OkStatus() : absl::InvalidArgumentError("--timeout must be above 0");
}

void TakeOptional(const CLI::App& app, RawOptions& raw) {
  CliOptions& o = raw.options;
  if (app.count("--dtype") != 0) o.dtype = raw.dtype;
  if (app.count("--output-dtype") != 0) o.output_dtype = raw.output_dtype;
  if (app.count("--op") != 0) o.operation = raw.operation;
  if (app.count("--axis") != 0) o.axis = raw.axis;
  if (app.count("--scale") != 0) o.scale = raw.scale;
  if (raw.info) o.action = Action::kInfo;
  if (raw.health) o.action = Action::kHealth;
}

}  // namespace

ClientOptions ForClient(const CliOptions& options) {
  ClientOptions result{
      .target = options.address, .deadline = options.timeout, .retry = {.max_attempts = options.attempts}};
  SetCredentials(options.security, &result);
  return result;
}

std::optional<std::chrono::nanoseconds> ParseDuration(const std::string& text) {
  static constexpr Unit kSeconds[] = {{"", 1'000'000'000}};
  auto written = ReadDuration(text, kDurationUnits, std::chars_format::general);
  if (!written) written = ReadDuration(text, kSeconds, std::chars_format::general);
  if (!written || written->ns > kLongestNs) return std::nullopt;
  return std::chrono::nanoseconds(std::llround(written->ns));
}

std::optional<CliOptions> ParseCliCommandLine(int argc, char** argv, int* exit_code) {
  RawOptions raw;
  CLI::App app("One softmax over the network: reads a tensor, sends it, writes the answer.", "softmax-client");
  app.footer(
      "Exit codes: 0 done (--health: serving); 1 an error (--health: not serving); 2 wrong usage or input; 3 server "
      "unreachable, or threads, memory or room not to be had.\n\n"
      "Examples:\n"
      "  echo 1 2 3 | softmax-client\n"
      "  softmax-client logits.npy -o probabilities.npy --address softmax.example:50051 --ca ca.pem\n"
      "  softmax-client scores.csv --op log_softmax --dtype float16 -o log.csv\n"
      "  softmax-client logits.npy --top 5 --labels words.txt\n"
      "  softmax-client --health --wait 10s");
  AddOptions(app, raw);
  AddSummaryOptions(app, raw.options);
  AddSecurityFlags(app, &raw.security);
  if (!ParseArguments(app, argc, argv, exit_code)) return std::nullopt;
  TakeOptional(app, raw);
  absl::Status status = TakeTimes(raw);
  if (status.ok() && raw.options.wants_summary() && raw.options.output != "-") {
    status = absl::InvalidArgumentError("--output is for whole answers; --top and the like print lines");
  }
  if (status.ok()) {
    auto credentials = ReadCredentials(raw.security);
    status = credentials.status();
    if (status.ok()) raw.options.security = *std::move(credentials);
  }
  if (!status.ok()) {
    Say(std::string(status.message()));
    *exit_code = 2;
    return std::nullopt;
  }
  return raw.options;
}

}  // namespace softmax::client

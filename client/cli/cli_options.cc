#include "client/cli/cli_options.h"

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "client/base/command_line.h"
#include "client/base/program.h"
#include "client/base/security_flags.h"
#include "kernels/operations.h"

namespace softmax::client {
namespace {

constexpr char kDataTypes[] = "bfloat16|float16|float32|float64";
constexpr char kFormats[] = "auto|csv|npy|text";

// An option that takes one of these names.
template <typename T, typename Parse>
void AddName(CLI::App& app, const std::string& flag, T& value, Parse parse, const std::string& names, const char* unset,
             const char* what) {
  AddParsed(app, flag, value, parse, "one of " + names, what)->option_text(names + unset);
}

void AddOptions(CLI::App& app, CliOptions& o) {
  constexpr std::chrono::hours kLongest(10000);
  app.add_option("input", o.input, "a .npy or .csv file, or a file of numbers; - is standard input")
      ->type_name("FILE")
      ->capture_default_str();
  app.add_option("-o,--output", o.output,
                 "where the answer goes, as .npy, .csv or .txt if so named; - is standard output")
      ->type_name("FILE")
      ->capture_default_str();
  const auto format =
      OneOf<Format>({{"auto", Format::kAuto}, {"npy", Format::kNpy}, {"csv", Format::kCsv}, {"text", Format::kText}});
  AddName(app, "--format", o.format, format, kFormats, "=auto", "of the input, and of an answer without a suffix");
  AddName(app, "--dtype", o.dtype, DataTypeFromName, kDataTypes, "",
          "element type to send; unset: the file's, and float32 for numbers in text");
  app.add_flag("--overflow-to-infinity", o.overflow_to_infinity,
               "send what is too large for the element type as infinity, instead of refusing it");
  AddName(app, "--output-dtype", o.output_dtype, DataTypeFromName, kDataTypes, "",
          "element type of the answer; unset: the one sent");
  AddName(app, "--op", o.operation, OperationFromName, kernels::OperationNames("|"), "=softmax", "what is computed");
  app.add_option("--axis", o.axis, "negative counts from the end; unset: the last");
  app.add_option("--scale", o.scale, "factor on the input; unset: 1");
  app.add_option("--lengths", o.lengths, "valid elements of each row, as 3,2,3")->delimiter(',');
  app.add_option("--address", o.address, "host:port, dns:///host:port, ipv4:a:1,b:2, unix:/path, or a list with commas")
      ->type_name("ADDRESS")
      ->capture_default_str();
  AddTime(
      app, "--timeout", o.timeout, {}, kLongest,
      "for connecting and the call with its retries together, above 0: 10s, 500ms, 200us, 2m, 1h; with --health, of "
      "each address");
  app.add_option("--attempts", o.attempts, "how often to try when the server is away or busy")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_flag("--regions", o.regions,
               "through memory that the server of this machine shares (--regions-socket), with its limit for tensors");
  app.add_flag("--trace", o.trace,
               "begin a trace, print its id to standard error, and have the server add its spans to it");
  auto* info = app.add_flag_callback(
      "--info", [&o] { o.action = Action::kInfo; }, "print what the server is and allows, and end");
  auto* health = app.add_flag_callback(
      "--health", [&o] { o.action = Action::kHealth; }, "ask grpc.health.v1 of every address, and end");
  health->excludes(info);
  app.add_option("--service", o.service, "whose health; empty: the server's as a whole")->needs(health);
  AddTime(app, "--wait", o.wait, {}, kLongest, "how long --health waits for all of them to be serving")->needs(health);
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

}  // namespace

ClientOptions ForClient(const CliOptions& options) {
  ClientOptions result{
      .target = options.address, .deadline = options.timeout, .retry = {.max_attempts = options.attempts}};
  SetCredentials(options.security, &result);
  return result;
}

std::optional<CliOptions> ParseCliCommandLine(int argc, char** argv, int* exit_code) {
  CliOptions options;
  SecurityFlags security;
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
  AddOptions(app, options);
  AddSummaryOptions(app, options);
  AddSecurityFlags(app, &security);
  if (!ParseArguments(app, argc, argv, exit_code)) return std::nullopt;
  auto credentials = ReadCredentials(security);
  std::string problem(credentials.status().message());
  if (options.timeout.count() == 0) problem = "--timeout must be above 0";
  if (options.wants_summary() && options.output != "-") {
    problem = "--output is for whole answers; --top and the like print lines";
  }
  if (!problem.empty()) {
    Say(problem);
    *exit_code = 2;
    return std::nullopt;
  }
  options.security = *std::move(credentials);
  return options;
}

}  // namespace softmax::client

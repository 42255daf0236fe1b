#include "client/cli/options.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>

#include "server/base/duration.h"

namespace softmax::client {
namespace {

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
  bool tls = false;
  std::string ca;
  std::string certificate;
  std::string key;
  std::string token_file;
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
      ->capture_default_str();
  app.add_option("--output", o.output, "where the answer goes; - is standard output")->capture_default_str();
  AddName(app, "--format", kFormats, "=auto", o.format, "of the input; the answer has the same");
  AddName(app, "--dtype", kDataTypes, "", raw.dtype,
          "element type to send; unset: the file's, and float32 for numbers in text");
  AddName(app, "--output-dtype", kDataTypes, "", raw.output_dtype, "element type of the answer; unset: the one sent");
  AddName(app, "--op", kOperations, "=softmax", raw.operation, "what is computed");
  app.add_option("--axis", raw.axis, "negative counts from the end; unset: the last");
  app.add_option("--scale", raw.scale, "factor on the input; unset: 1");
  app.add_option("--lengths", o.lengths, "valid elements of each row, as 3,2,3")->delimiter(',');
  app.add_option("--address", o.address, "host:port, dns:///host:port, ipv4:a:1,b:2, unix:/path, or a list with commas")
      ->capture_default_str();
  app.add_option("--timeout", raw.timeout, "for connecting, and for the call with its retries: 10s, 500ms, 2m")
      ->check(CheckDuration)
      ->capture_default_str();
  auto* info = app.add_flag("--info", raw.info, "print what the server is and allows, and end");
  auto* health = app.add_flag("--health", raw.health, "ask grpc.health.v1 of every address, and end")->excludes(info);
  app.add_option("--service", o.service, "whose health; empty: the server's as a whole")->needs(health);
  app.add_option("--wait", raw.wait, "how long --health waits for all of them to be serving")
      ->check(CheckDuration)
      ->needs(health);
}

void AddSecurityOptions(CLI::App& app, RawOptions& raw) {
  app.add_flag("--tls", raw.tls, "speak TLS; implied by the three files below");
  app.add_option("--ca", raw.ca, "PEM file of whom to trust; unset: the machine's own list")->check(CLI::ExistingFile);
  auto* certificate =
      app.add_option("--cert", raw.certificate, "PEM file of this client's certificate")->check(CLI::ExistingFile);
  auto* key = app.add_option("--key", raw.key, "PEM file of its private key")->check(CLI::ExistingFile);
  certificate->needs(key);
  key->needs(certificate);
  app.add_option("--authority", raw.options.authority, "name to ask for, and that the certificate must have");
  app.add_option("--token-file", raw.token_file, "file with a bearer token; needs TLS or a unix socket")
      ->check(CLI::ExistingFile);
  app.add_option("--attempts", raw.options.attempts, "how often to try when the server is away or busy")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
}

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void TakeSecurity(RawOptions& raw) {
  if (raw.tls || !raw.ca.empty() || !raw.certificate.empty()) {
    raw.options.tls.emplace();
    if (!raw.ca.empty()) raw.options.tls->root_certificates = ReadText(raw.ca);
    if (!raw.certificate.empty()) raw.options.tls->certificate_chain = ReadText(raw.certificate);
    if (!raw.key.empty()) raw.options.tls->private_key = ReadText(raw.key);
  }
  if (!raw.token_file.empty()) {
    raw.options.token = ReadText(raw.token_file);
    while (!raw.options.token.empty() && raw.options.token.back() == '\n') raw.options.token.pop_back();
  }
}

void TakeOptional(const CLI::App& app, RawOptions& raw) {
  CliOptions& o = raw.options;
  if (app.count("--dtype") != 0) o.dtype = raw.dtype;
  if (app.count("--output-dtype") != 0) o.output_dtype = raw.output_dtype;
  if (app.count("--op") != 0) o.operation = raw.operation;
  if (app.count("--axis") != 0) o.axis = raw.axis;
  if (app.count("--scale") != 0) o.scale = raw.scale;
  o.timeout = ParseDuration(raw.timeout).value_or(o.timeout);
  o.wait = ParseDuration(raw.wait).value_or(o.wait);
  if (raw.info) o.action = Action::kInfo;
  if (raw.health) o.action = Action::kHealth;
}

}  // namespace

std::optional<std::chrono::nanoseconds> ParseDuration(const std::string& text) {
  static constexpr server::Unit kUnits[] = {
      {"", 1'000'000'000}, {"s", 1'000'000'000}, {"ms", 1'000'000}, {"m", 60'000'000'000}};
  const auto written = server::ReadDuration(text, kUnits, std::chars_format::general);
  if (!written || written->number > 1e6) return std::nullopt;
  return std::chrono::nanoseconds(std::llround(written->ns));
}

std::optional<CliOptions> ParseCliCommandLine(int argc, char** argv, int* exit_code) {
  RawOptions raw;
  CLI::App app("One softmax over the network: reads a tensor, sends it, writes the answer.", "softmax-client");
  app.footer(
      "Example: echo 1 2 3 | softmax-client\n"
      "Exit codes: 0 done (--health: serving); 1 an error (--health: not serving); 2 wrong usage "
      "or input; "
      "3 server unreachable.");
  app.set_version_flag("--version", "softmax-client " SOFTMAX_VERSION, "Print the version and exit");
  AddOptions(app, raw);
  AddSecurityOptions(app, raw);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& told) {
    *exit_code = app.exit(told);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "softmax-client: %s (--help lists all flags)\n", error.what());
    *exit_code = 2;
    return std::nullopt;
  }
  TakeOptional(app, raw);
  TakeSecurity(raw);
  if (raw.options.timeout.count() == 0) {
    std::fprintf(stderr, "softmax-client: --timeout must be above 0\n");
    *exit_code = 2;
    return std::nullopt;
  }
  return raw.options;
}

}  // namespace softmax::client

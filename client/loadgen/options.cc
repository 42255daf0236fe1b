#include "client/loadgen/options.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <map>

namespace softmax::client {
namespace {

// A bare number is in seconds.
CLI::AsNumberWithUnit Seconds() {
  return CLI::AsNumberWithUnit(
      std::map<std::string, double>{{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}});
}

// What stands on the command line, before it is checked as a whole.
struct RawOptions {
  LoadOptions options;
  std::vector<std::string> shapes;
  std::uint64_t payload_bytes = 0;
  double duration = 10;
  double warmup = 1;
  double connect_timeout = 5;
  double timeout = 0;
  std::int32_t axis = -1;
  double scale = 1;
  DataType output_dtype = DataType::kFloat32;
  bool stream = false;
  bool no_verify = false;
  bool raw_echo = false;
};

const std::map<std::string, DataType> kDataTypes = {{"float32", DataType::kFloat32},
                                                    {"float16", DataType::kFloat16},
                                                    {"bfloat16", DataType::kBFloat16},
                                                    {"float64", DataType::kFloat64}};
const std::map<std::string, Operation> kOperations = {{"softmax", Operation::kSoftmax},
                                                      {"log_softmax", Operation::kLogSoftmax}};

std::chrono::nanoseconds FromSeconds(double seconds) { return std::chrono::nanoseconds(std::llround(seconds * 1e9)); }

void AddTargetOptions(CLI::App& app, RawOptions& raw) {
  LoadOptions& o = raw.options;
  const std::string group = "Where and how";
  app.add_option("--address", o.address, "host:port, or unix:/path of a socket")->capture_default_str()->group(group);
  app.add_option("--connections", o.connections, "connections in total, dealt out to the processes")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str()
      ->group(group);
  app.add_option("--in-flight", o.in_flight, "requests kept in flight on each connection")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str()
      ->group(group);
  app.add_option("--processes", o.processes, "processes that send")
      ->check(CLI::Range(1, 64))
      ->capture_default_str()
      ->group(group);
  app.add_option("--threads", o.threads, "sending threads per process")
      ->check(CLI::Range(1, 64))
      ->capture_default_str()
      ->group(group);
  app.add_flag("--stream", raw.stream, "one bidirectional stream per connection, not unary calls")->group(group);
  app.add_option("--requests-per-message", o.requests_per_message, "with --stream")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str()
      ->group(group);
  app.add_option("--connect-timeout", raw.connect_timeout, "seconds to wait for the connections")
      ->transform(Seconds())
      ->check(CLI::Range(0.001, 3600.0))
      ->capture_default_str()
      ->group(group);
  app.add_option("--timeout", raw.timeout, "seconds that a request may take; 0: no limit")
      ->transform(Seconds())
      ->check(CLI::Range(0.0, 4000.0))
      ->capture_default_str()
      ->group(group);
}

void AddRequestOptions(CLI::App& app, RawOptions& raw) {
  const std::string group = "What";
  app.add_option("--shape", raw.shapes, "4096x1024, or 4096x1024:3 with a weight; may be repeated")->group(group);
  app.add_option("--payload-bytes", raw.payload_bytes, "instead of --shape: the tensor's bytes")
      ->check(CLI::PositiveNumber)
      ->excludes("--shape")
      ->group(group);
  app.add_option("--dtype", raw.options.dtype, "element type")
      ->transform(CLI::CheckedTransformer(kDataTypes))
      ->default_str("float32")
      ->group(group);
  app.add_option("--output-dtype", raw.output_dtype, "element type of the answers; the input's if unset")
      ->transform(CLI::CheckedTransformer(kDataTypes))
      ->group(group);
  app.add_option("--op", raw.options.operation, "operation")
      ->transform(CLI::CheckedTransformer(kOperations))
      ->default_str("softmax")
      ->group(group);
  app.add_option("--axis", raw.axis, "the axis; the last if unset")->group(group);
  app.add_option("--scale", raw.scale, "factor on the input; 1 if unset")->group(group);
  app.add_option("--seed", raw.options.seed, "of the values and of their order")->capture_default_str()->group(group);
}

void AddRunOptions(CLI::App& app, RawOptions& raw) {
  LoadOptions& o = raw.options;
  const std::string group = "Run and report";
  app.add_option("--duration", raw.duration, "measured seconds; 500ms, 10s and 2m are read too")
      ->transform(Seconds())
      ->check(CLI::Range(0.01, 1e6))
      ->capture_default_str()
      ->group(group);
  app.add_option("--warmup", raw.warmup, "seconds of load before them")
      ->transform(Seconds())
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str()
      ->group(group);
  app.add_option("--verify", o.verify_fraction,
                 "fraction of answers that is verified; the first of each slot always is")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str()
      ->group(group);
  app.add_flag("--no-verify,--raw-echo", raw.no_verify,
               "look at status and size of the answers only (for servers that merely echo)")
      ->group(group);
  app.add_flag("--allow-errors", o.allow_errors, "exit 0 in spite of failed calls (not of wrong answers)")
      ->group(group);
  app.add_option("--json", o.json_path, "write the figures as JSON; - is standard output")->group(group);
  app.add_option("--csv", o.csv_path, "append the figures to a CSV file; - is standard output")->group(group);
  app.add_option("--server-pid", o.server_pids, "print the CPU use of these processes too")
      ->delimiter(',')
      ->group(group);
}

// What single options cannot know. An empty string: all is well.
std::string CheckTogether(const CLI::App& app, RawOptions& raw) {
  LoadOptions& o = raw.options;
  for (const std::string& text : raw.shapes) {
    auto shape = ParseShape(text);
    if (!shape) return "--shape " + text + ": expected dimensions like 4096x1024, optionally :weight";
    o.shapes.push_back(std::move(*shape));
  }
  if (raw.payload_bytes != 0) {
    auto shape = ShapeForPayload(raw.payload_bytes, o.dtype);
    if (!shape) {
      return "--payload-bytes " + std::to_string(raw.payload_bytes) + " is not a multiple of the element size " +
             std::to_string(SizeOf(o.dtype));
    }
    o.shapes.push_back(std::move(*shape));
  }
  if (o.shapes.empty()) o.shapes.push_back({{64, 1024}, 1});
  if (app.count("--axis") != 0) {
    o.axis = raw.axis;
    for (const ShapeSpec& spec : o.shapes) {
      const auto rank = static_cast<std::int32_t>(spec.shape.size());
      if (raw.axis < -rank || raw.axis >= rank) {
        return "--axis " + std::to_string(raw.axis) + " is out of range for --shape " + ShapeText(spec.shape);
      }
    }
  }
  if (app.count("--scale") != 0) o.scale = raw.scale;
  if (!std::isfinite(raw.scale) || raw.scale <= 0) return "--scale must be finite and above 0";
  if (app.count("--output-dtype") != 0) o.output_dtype = raw.output_dtype;
  if (o.connections < o.processes) {
    return "--connections " + std::to_string(o.connections) + " is less than --processes " +
           std::to_string(o.processes) + ": some would have nothing to do";
  }
  o.method = raw.stream ? Method::kStream : Method::kUnary;
  if (!raw.stream && o.requests_per_message != 1) return "--requests-per-message needs --stream";
  if (o.in_flight % o.requests_per_message != 0) {
    return "--in-flight " + std::to_string(o.in_flight) + " is not a multiple of --requests-per-message " +
           std::to_string(o.requests_per_message);
  }
  o.checking = raw.no_verify ? Checking::kSizesOnly : Checking::kSample;
  o.duration = FromSeconds(raw.duration);
  o.warmup = FromSeconds(raw.warmup);
  o.connect_timeout = FromSeconds(raw.connect_timeout);
  o.timeout = FromSeconds(raw.timeout);
  return "";
}

}  // namespace

std::optional<ShapeSpec> ParseShape(const std::string& text) {
  ShapeSpec spec;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (;;) {
    std::int64_t dimension = 0;
    const auto [next, error] = std::from_chars(at, end, dimension);
    if (error != std::errc() || dimension < 1) return std::nullopt;
    spec.shape.push_back(dimension);
    at = next;
    if (at == end || *at != 'x') break;
    ++at;
  }
  if (at != end) {
    if (*at != ':') return std::nullopt;
    const auto [next, error] = std::from_chars(at + 1, end, spec.weight);
    if (error != std::errc() || next != end || !std::isfinite(spec.weight) || spec.weight <= 0) {
      return std::nullopt;
    }
  }
  if (spec.shape.size() > kMaxRank) return std::nullopt;
  const auto elements = ElementsOf(spec.shape);
  // protobuf's own limit on a message is 2 GiB.
  if (!elements || *elements > (std::uint64_t{1} << 31) / 8) return std::nullopt;
  return spec;
}

std::string ShapeText(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t dimension : shape) {
    if (!text.empty()) text += 'x';
    text += std::to_string(dimension);
  }
  return text;
}

std::optional<ShapeSpec> ShapeForPayload(std::uint64_t bytes, DataType dtype) {
  const std::uint64_t size = SizeOf(dtype);
  if (bytes == 0 || bytes % size != 0 || bytes > (std::uint64_t{1} << 30)) return std::nullopt;
  const std::uint64_t elements = bytes / size;
  std::uint64_t cols = 1024;
  while (cols > 1 && elements % cols != 0) cols /= 2;
  if (elements < 1024 || cols < 16) cols = elements;
  return ShapeSpec{{static_cast<std::int64_t>(elements / cols), static_cast<std::int64_t>(cols)}, 1};
}

std::optional<LoadOptions> ParseCommandLine(int argc, char** argv, int* exit_code) {
  RawOptions raw;
  CLI::App app(
      "Closed-loop load for softmax-server: every slot sends its next request when it has its "
      "answer.",
      "softmax-loadgen");
  app.footer(
      "Exit codes: 0 all well; 1 an answer was wrong or a call failed; 2 wrong usage; 3 server "
      "unreachable.");
  AddTargetOptions(app, raw);
  AddRequestOptions(app, raw);
  AddRunOptions(app, raw);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    *exit_code = app.exit(error) == 0 ? 0 : 2;
    return std::nullopt;
  }
  const std::string problem = CheckTogether(app, raw);
  if (!problem.empty()) {
    std::fprintf(stderr, "softmax-loadgen: %s\n", problem.c_str());
    *exit_code = 2;
    return std::nullopt;
  }
  return raw.options;
}

}  // namespace softmax::client

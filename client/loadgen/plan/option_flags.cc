#include <absl/strings/str_format.h>

#include <CLI/CLI.hpp>
#include <map>
#include <sstream>

#include "client/base/command_line.h"
#include "client/loadgen/plan/raw_options.h"
#include "common/base/text_file.h"

namespace softmax::client {
namespace {

constexpr std::size_t kMostScenarioBytes = 1 << 20;

// A bare number is in seconds.
CLI::AsNumberWithUnit Seconds() {
  return CLI::AsNumberWithUnit(
      std::map<std::string, double>{{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}});
}

// Adds flags of one group of the help text.
class Group {
 public:
  Group(CLI::App& app, std::string name) : app_(app), name_(std::move(name)) {}

  template <typename T>
  CLI::Option* Add(const char* flag, T& value, const char* what) {
    return app_.add_option(flag, value, what)->capture_default_str()->group(name_);
  }
  // Without a default in the help text.
  template <typename T>
  CLI::Option* AddUnset(const char* flag, T& value, const char* what) {
    return app_.add_option(flag, value, what)->group(name_);
  }
  CLI::Option* AddSeconds(const char* flag, double& value, double least, double most, const char* what) {
    const std::string text = absl::StrFormat("TIME=%gs", value);
    return Add(flag, value, what)->transform(Seconds())->check(CLI::Range(least, most))->option_text(text);
  }
  CLI::Option* AddFlag(const char* flag, bool& value, const char* what) {
    return app_.add_flag(flag, value, what)->group(name_);
  }

 private:
  CLI::App& app_;
  const std::string name_;
};

void AddTargetFlags(CLI::App& app, RawOptions& raw) {
  LoadOptions& load = raw.plan.load;
  Group group(app, "Where and how");
  group
      .AddUnset(
          "--address,--target", raw.addresses,
          "localhost:50051 if unset; host:port, dns:///host:port, ipv4:a:1,b:2, unix:/path; may be repeated, or be "
          "a list with commas: every server gets its share")
      ->option_text("ADDRESS ...");
  group
      .AddUnset("--connections", load.connections,
                "connections to each address, dealt out to the processes; 8 if unset, and at least 4 for each process")
      ->check(CLI::Range(1, 4096));
  group
      .AddUnset("--processes", load.processes,
                "processes that send; if unset, in a closed loop one for every 4 cores (1 to 4), in an open loop 1")
      ->check(CLI::Range(1, 64));
  group.Add("--threads", load.threads, "sending threads per process; with an open loop 1 unless set")
      ->check(CLI::Range(1, 64));
  group.Add("--protocol", raw.protocol, "native, or oip: the Open Inference Protocol (KServe v2), unary calls only");
  group.AddFlag("--stream", raw.stream, "one bidirectional stream per connection, not unary calls");
  group.Add("--requests-per-message", load.requests_per_message, "with --stream")->check(CLI::Range(1, 1024));
  group.AddSeconds("--connect-timeout", raw.connect_timeout, 0.001, 3600, "how long to wait for the connections");
  group.AddSeconds("--timeout", raw.timeout, 0, 4000,
                   "how long a request may take, all its attempts together; 0: no limit");
  group
      .Add("--attempts", load.attempts,
           "unary calls: tries of a request that finds its server away, or too busy and told when to come back; on "
           "another address where there is one; 1: no retries")
      ->check(CLI::Range(1, 1000));
}

void AddLoopFlags(CLI::App& app, RawOptions& raw) {
  LoadOptions& load = raw.plan.load;
  Group group(app, "How much (a closed loop unless one of --rate, --schedule, --trace is given)");
  group.Add("--in-flight", load.in_flight, "closed loop: requests kept in flight on each connection")
      ->check(CLI::Range(1, 65536));
  group.AddUnset("--rate", raw.rate, "open loop: requests per second, sent when due whatever the server does")
      ->check(CLI::Range(1e-3, 1e8));
  group
      .AddUnset("--schedule", raw.schedule,
                "open loop: RATE@DURATION steady, A..B@DURATION ramp, A..B/STEP@DURATION steps; several with commas")
      ->excludes("--rate");
  group
      .AddUnset("--trace", raw.trace,
                "open loop: a file with one arrival a line, in seconds, and optionally the index of a --shape")
      ->type_name("FILE")
      ->excludes("--rate")
      ->excludes("--schedule");
  group.Add("--arrivals", raw.arrivals, "how requests of --rate and --schedule are spaced: constant or poisson")
      ->check(CLI::IsMember({"constant", "poisson"}));
  group
      .Add("--max-in-flight", load.max_in_flight,
           "open loop: unanswered requests on all connections; one that is due beyond them is dropped and counted")
      ->check(CLI::Range(1, 1 << 20));
}

void AddRequestFlags(CLI::App& app, RawOptions& raw) {
  Group group(app, "What");
  group.AddUnset("--shape", raw.shapes, "4096x1024, or 4096x1024:3 with a weight; may be repeated");
  group.AddUnset("--payload-bytes", raw.payload_bytes, "instead of --shape: the tensor's bytes")
      ->check(CLI::PositiveNumber)
      ->excludes("--shape");
  group
      .AddUnset("--rows", raw.rows,
                "instead of --shape, matrices drawn at random: N, uniform:LO:HI, loguniform:LO:HI, zipf:EXPONENT:LO:HI")
      ->excludes("--shape")
      ->excludes("--payload-bytes");
  group.AddUnset("--cols", raw.columns, "the same for their columns; 1024 if only --rows is given")
      ->excludes("--shape")
      ->excludes("--payload-bytes");
  group
      .AddUnset("--dtype", raw.dtypes,
                "float32 (the default), float16, bfloat16, float64; float32:3,float16:1 is a mix")
      ->delimiter(',');
  group.AddUnset("--output-dtype", raw.output_dtype, "element type of the answers; the input's if unset");
  group.AddUnset("--op", raw.operations, "softmax (the default), log_softmax; softmax:9,log_softmax:1 is a mix")
      ->delimiter(',');
  group
      .AddUnset(
          "--answer", raw.answers,
          "tensor (the default), or of each row top20, log-sum-exp, entropy, with + between; tensor:1,top20:9 is a "
          "mix")
      ->delimiter(',');
  group.AddUnset("--axis", raw.axis, "the axis; the last if unset");
  group.AddUnset("--scale", raw.scale, "factor on the input; 1 if unset");
  group.Add("--seed", raw.plan.load.seed, "of values, order, shapes and arrivals: the same seed sends the same");
}

void AddRunFlags(CLI::App& app, RawOptions& raw) {
  LoadOptions& load = raw.plan.load;
  Group group(app, "Run");
  group.AddSeconds("--duration", raw.duration, 0.01, 1e6,
                   "how long is measured: 500ms, 10s, 2m; a bare number is in seconds");
  group.AddSeconds("--warmup", raw.warmup, 0, 1e6, "load before that");
  group
      .Add("--stable", raw.stable_percent,
           "warm up until rate and median of the last three windows of 0.5 s differ by at most this many percent; 0: "
           "off")
      ->check(CLI::Range(0.0, 100.0));
  group.AddSeconds("--max-warmup", raw.max_warmup, 0.1, 1e5, "with --stable: measure after this long all the same");
  group.AddUnset("--slo", raw.slo,
                 "what the service should keep, such as \"p99<=2ms\" (or p99=2ms): goodput counts it");
  group.AddUnset("--slo-latency", raw.slo_latency, "only the time: the same as --slo p99=TIME")
      ->transform(Seconds())
      ->check(CLI::Range(1e-6, 1e4))
      ->excludes("--slo");
  group.Add("--repeats", raw.plan.repeats, "do every run this often and report 95 % confidence intervals")
      ->check(CLI::Range(1, 1000));
  group.AddUnset(
      "--sweep", raw.sweep,
      "a run for each value: rate:1000,2000, rate:1000..9000/1000, concurrency:1..64*2 (requests in flight)");
  group.AddFlag("--search", raw.plan.search, "find the highest rate that keeps --slo (all errors and drops break it)");
  group.Add("--search-range", raw.search_range, "LOW..HIGH requests per second")->default_str("100..200000");
  group.Add("--search-precision", raw.search_precision_percent, "percent")->check(CLI::Range(0.1, 50.0));
  group
      .Add("--verify", load.verify_fraction,
           "fraction of answers that is verified; the first of each connection always is")
      ->check(CLI::Range(0.0, 1.0));
  group.AddFlag("--no-verify,--raw-echo", raw.no_verify,
                "look at status and size of the answers only (for servers that merely echo)");
}

void AddReportFlags(CLI::App& app, RawOptions& raw) {
  Group group(app, "Report");
  group.AddFlag("--allow-errors", raw.plan.allow_errors, "exit 0 in spite of failed calls (not of wrong answers)");
  group.AddUnset("--json", raw.plan.json_path, "write the figures as JSON; - is standard output")->type_name("FILE");
  group.AddUnset("--csv", raw.plan.csv_path, "append the figures to a CSV file; - is standard output")
      ->type_name("FILE");
  group.AddUnset("--html", raw.plan.html_path, "write a report for a browser, one file that needs no network")
      ->type_name("FILE");
  group
      .AddUnset(
          "--server-metrics", raw.plan.load.server_metrics,
          "host:port of the server's /metrics: what it says of the same window goes into the report; several with "
          "commas, or repeated: each and their sum")
      ->delimiter(',');
  group.AddUnset("--server-pid", raw.plan.load.server_pids, "print the CPU use of these processes too")->delimiter(',');
}

// CLI11 reads a file by itself, whatever it is; this one is read before that.
class ScenarioFile : public CLI::ConfigBase {
 public:
  // What is wrong; empty: nothing.
  std::string Read(const std::string& path) {
    const std::string problem = ReadTextFile(path, kMostScenarioBytes, &text_);
    return problem.empty() ? "" : path + ": " + problem;
  }

  std::vector<CLI::ConfigItem> from_config(std::istream&) const override {
    std::istringstream text(text_);
    return ConfigBase::from_config(text);
  }

 private:
  std::string text_;
};

void AddAllFlags(CLI::App& app, RawOptions& raw) {
  const auto scenario = std::make_shared<ScenarioFile>();
  app.set_config("--scenario", "", "a file with any of these flags, one a line: rate = 1000, shape = [\"1x16\"]")
      ->type_name("FILE")
      ->check([scenario](const std::string& path) { return scenario->Read(path); });
  app.config_formatter(scenario);
  app.allow_config_extras(CLI::config_extras_mode::error);
  AddTargetFlags(app, raw);
  AddSecurityFlags(app, &raw.security);
  AddLoopFlags(app, raw);
  AddRequestFlags(app, raw);
  AddRunFlags(app, raw);
  AddReportFlags(app, raw);
}

GivenFlags Given(const CLI::App& app) {
  GivenFlags given;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) given.Add("--" + name, option->count());
  }
  return given;
}

}  // namespace

std::optional<GivenFlags> ParseFlags(int argc, char** argv, RawOptions& raw, int* exit_code) {
  CLI::App app(
      "Load for softmax-server. Closed loop: every slot sends its next request when it has its answer. Open loop: "
      "requests are sent when they are due, and their latency counts from then.",
      "softmax-loadgen");
  app.footer(
      "Exit codes: 0 all well; 1 an answer was wrong or a call failed, or no rate kept the SLO; 2 wrong usage; "
      "3 server unreachable, or threads, memory or room not to be had.\n\n"
      "Examples:\n"
      "  softmax-loadgen --shape 64x1024 --duration 10s\n"
      "  softmax-loadgen --rate 1000 --shape 1x1000 --slo 'p99<=2ms' --html report.html\n"
      "  softmax-loadgen --search --slo 'p99<=2ms' --json run.json\n"
      "  softmax-loadgen --sweep 'concurrency:1..64*2' --server-metrics localhost:9400");
  AddAllFlags(app, raw);
  if (!ParseArguments(app, argc, argv, exit_code)) return std::nullopt;
  return Given(app);
}

}  // namespace softmax::client

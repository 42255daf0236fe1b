#include "client/loadgen/plan/option_flags.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/strip.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sstream>

#include "client/base/command_line.h"
#include "common/base/text_file.h"
#include "kernels/operations.h"

namespace softmax::client {
namespace {

constexpr std::size_t kMostScenarioBytes = 1 << 20;

// Those of StatusOr have a reason of their own.
template <typename T>
T ValueOr(const char* flag, absl::StatusOr<T> parsed) {
  if (parsed.ok()) return *std::move(parsed);
  throw CLI::ValidationError(absl::StrCat(flag, " ", parsed.status().message()));
}

void AddSeconds(CLI::App& app, const char* flag, std::chrono::nanoseconds& value, double least, double most,
                const char* what) {
  const auto ns = [](double seconds) { return std::chrono::nanoseconds(std::llround(seconds * 1e9)); };
  AddTime(app, flag, value, ns(least), ns(most), what);
}

// "--address 'x' has no port" from "target: 'x' has no port".
void TakeAddresses(const std::vector<std::string>& texts, std::vector<Address>& addresses) {
  addresses.clear();
  for (const std::string& text : texts) {
    const auto parsed = ParseTarget(text);
    if (!parsed.ok()) {
      throw CLI::ValidationError(absl::StrCat("--address ", absl::StripPrefix(parsed.status().message(), "target: ")));
    }
    for (const Address& address : *parsed) {
      if (std::any_of(addresses.begin(), addresses.end(),
                      [&](const Address& other) { return other.target == address.target; })) {
        throw CLI::ValidationError("--address " + address.target + " is given twice");
      }
      addresses.push_back(address);
    }
  }
}

void TakePart(const std::string& text, LoadOptions& load) {
  char more = 0;
  if (std::sscanf(text.c_str(), "%d/%d%c", &load.part, &load.parts, &more) != 2 || load.part < 0 ||
      load.part >= load.parts || load.parts > 10000) {
    throw CLI::ValidationError("--part " + text + ": expected INDEX/COUNT from 0/1 to 9999/10000");
  }
}

void TakeSweep(const std::string& text, Plan& plan) {
  const std::size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  const auto values = colon == std::string::npos ? std::nullopt : ParseSweepValues(text.substr(colon + 1));
  if ((kind != "rate" && kind != "concurrency") || !values) {
    throw CLI::ValidationError("--sweep " + text +
                               ": expected rate: or concurrency: and 1,2,4 or 100..1000/100 or 1..64*2");
  }
  plan.sweep = kind == "rate" ? SweepKind::kRate : SweepKind::kConcurrency;
  plan.sweep_values = *values;
}

void TakeSearchRange(const std::string& text, Plan& plan) {
  const auto range = ParseSchedule(text + "@1s");
  if (!range.ok() || range->size() != 1 || range->front().from_per_s >= range->front().to_per_s) {
    throw CLI::ValidationError("--search-range " + text + ": expected LOW..HIGH requests per second");
  }
  plan.search_low = range->front().from_per_s;
  plan.search_high = range->front().to_per_s;
}

void AddTargetFlags(CLI::App& app, RawOptions& raw) {
  LoadOptions& load = raw.plan.load;
  app.option_defaults()->group("Where and how");
  app.add_option_function<std::vector<std::string>>(
         "--address,--target", [&load](const auto& texts) { TakeAddresses(texts, load.addresses); },
         "localhost:50051 if unset; host:port, dns:///host:port, ipv4:a:1,b:2, unix:/path; may be repeated, or be "
         "a list with commas: every server gets its share")
      ->option_text("ADDRESS ...");
  app.add_option("--connections", load.connections,
                 "connections to each address, dealt out to the processes; 8 if unset, and at least 4 for each process")
      ->check(CLI::Range(1, 4096));
  app.add_option("--processes", load.processes,
                 "processes that send; if unset, in a closed loop one for every 4 cores (1 to 4), in an open loop 1")
      ->check(CLI::Range(1, 64));
  app.add_option("--threads", load.threads, "sending threads per process; with an open loop 1 unless set")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  AddParsed(app, "--protocol", load.protocol, OneOf<Protocol>({{"native", Protocol::kNative}, {"oip", Protocol::kOip}}),
            "native or oip", "native, or oip: the Open Inference Protocol (KServe v2), unary calls only")
      ->default_str("native");
  app.add_flag_callback(
      "--stream", [&load] { load.method = Method::kStream; },
      "one bidirectional stream per connection, not unary calls");
  app.add_option("--requests-per-message", load.requests_per_message, "with --stream")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  AddParsed(
      app, "--regions", load.regions,
      OneOf<RegionKind>({{"host", RegionKind::kHost}, {"device", RegionKind::kDevice}, {"auto", RegionKind::kAuto}}),
      "host, device or auto",
      "tensors in memory that the server shares (--regions-socket): of the host, or of its GPU; auto: copied into "
      "and out of host memory, or in messages if it shares none");
  AddSeconds(app, "--connect-timeout", load.connect_timeout, 0.001, 3600, "how long to wait for the connections");
  AddSeconds(app, "--timeout", load.timeout, 0, 4000,
             "how long a request may take, all its attempts together; 0: no limit");
  app.add_option(
         "--attempts", load.attempts,
         "unary calls: tries of a request that finds its server away, or too busy and told when to come back; on "
         "another address where there is one; 1: no retries")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
}

void AddLoopFlags(CLI::App& app, RawOptions& raw) {
  LoadOptions& load = raw.plan.load;
  app.option_defaults()->group("How much (a closed loop unless one of --rate, --schedule, --trace is given)");
  app.add_option("--in-flight", load.in_flight, "closed loop: requests kept in flight on each connection")
      ->capture_default_str()
      ->check(CLI::Range(1, 65536));
  app.add_option("--rate", raw.rate, "open loop: requests per second, sent when due whatever the server does")
      ->check(CLI::Range(1e-3, 1e8));
  app.add_option_function<std::string>(
         "--schedule",
         [&load](const std::string& text) { load.arrivals.segments = ValueOr("--schedule", ParseSchedule(text)); },
         "open loop: RATE@DURATION steady, A..B@DURATION ramp, A..B/STEP@DURATION steps; several with commas")
      ->excludes("--rate");
  app.add_option("--trace", raw.trace,
                 "open loop: a file with one arrival a line, in seconds, and optionally the index of a --shape")
      ->type_name("FILE")
      ->excludes("--rate")
      ->excludes("--schedule");
  AddParsed(app, "--arrivals", load.arrivals.kind,
            OneOf<ArrivalKind>({{"constant", ArrivalKind::kConstant}, {"poisson", ArrivalKind::kPoisson}}),
            "constant or poisson", "how requests of --rate and --schedule are spaced: constant or poisson")
      ->default_str("constant");
  app.add_option(
         "--max-in-flight", load.max_in_flight,
         "open loop: unanswered requests on all connections; one that is due beyond them is dropped and counted")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
}

void AddRequestFlags(CLI::App& app, RawOptions& raw) {
  constexpr char kTypes[] = "float32, float16, bfloat16 or float64";
  LoadOptions& load = raw.plan.load;
  Mix& mix = load.mix;
  app.option_defaults()->group("What");
  AddParsedList(app, "--shape", mix.shapes, ParseShape, "dimensions like 4096x1024, optionally :weight",
                "4096x1024, or 4096x1024:3 with a weight; several with commas, or repeated");
  app.add_option("--payload-bytes", raw.payload_bytes, "instead of --shape: the tensor's bytes")
      ->check(CLI::PositiveNumber)
      ->excludes("--shape");
  const auto add_drawn = [&](const char* flag, std::optional<Distribution>& drawn, const char* what) {
    const auto take = [&drawn, flag](const std::string& text) { drawn = ValueOr(flag, Distribution::Parse(text)); };
    app.add_option_function<std::string>(flag, take, what)->excludes("--shape")->excludes("--payload-bytes");
  };
  add_drawn("--rows", mix.rows,
            "instead of --shape, matrices drawn at random: N, uniform:LO:HI, loguniform:LO:HI, zipf:EXPONENT:LO:HI");
  add_drawn("--cols", mix.columns, "the same for their columns; 1024 if only --rows is given");
  AddParsedList(app, "--dtype", mix.dtypes, ParseWeightedType, absl::StrCat(kTypes, ", optionally :weight"),
                "float32 (the default), float16, bfloat16, float64; float32:3,float16:1 is a mix");
  AddParsed(app, "--output-dtype", load.output_dtype, DataTypeFromName, kTypes,
            "element type of the answers; the input's if unset");
  AddParsedList(app, "--op", mix.operations, ParseWeightedOperation,
                kernels::OperationNames(" or ") + ", optionally :weight",
                kernels::OperationNames(", ") + "; the first if unset; softmax:9,log_softmax:1 is a mix");
  AddParsedList(
      app, "--answer", mix.answers, ParseWeightedAnswer,
      "tensor, or topN, log-sum-exp and entropy with + between, optionally :weight",
      "tensor (the default), or of each row top20, log-sum-exp, entropy, with + between; tensor:1,top20:9 is a mix");
  app.add_option("--axis", load.axis, "the axis; the last if unset");
  app.add_option("--scale", load.scale, "factor on the input; 1 if unset");
  app.add_option("--seed", load.seed, "of values, order, shapes and arrivals: the same seed sends the same")
      ->capture_default_str();
}

void AddRunFlags(CLI::App& app, RawOptions& raw) {
  Plan& plan = raw.plan;
  LoadOptions& load = plan.load;
  app.option_defaults()->group("Run");
  AddSeconds(app, "--duration", load.duration, 0.01, 1e6,
             "how long is measured: 500ms, 10s, 2m; a bare number is in seconds");
  AddSeconds(app, "--warmup", load.warmup, 0, 1e6, "load before that");
  app.add_option_function<std::string>(
         "--part", [&load](const std::string& text) { TakePart(text, load); },
         "INDEX/COUNT: one of several generators that have the same flags, 0/4 to 3/4; each sends its part of the "
         "rate, and softmax-loadgen merge adds them up")
      ->default_str("0/1");
  app.add_option("--start-at", load.start_at_s, "when the warm-up begins, in seconds since 1970; at once if unset");
  app.add_option_function<double>(
         "--stable", [&load](double percent) { load.stable_within = percent / 100; },
         "warm up until rate and median of the last three windows of 0.5 s differ by at most this many percent; 0: "
         "off")
      ->check(CLI::Range(0.0, 100.0))
      ->default_str("0");
  AddSeconds(app, "--max-warmup", load.max_warmup, 0.1, 1e5, "with --stable: measure after this long all the same");
  AddParsed(app, "--slo", load.slo, ParseServiceLevel, "a percentile and a time, such as p99=2ms or p99.9<=500us",
            "what the service should keep, such as \"p99<=2ms\" (or p99=2ms): goodput counts it");
  AddTime(app, "--slo-latency", load.slo.limit, std::chrono::microseconds(1), std::chrono::seconds(10000),
          "only the time: the same as --slo p99=TIME")
      ->option_text("TIME")
      ->excludes("--slo");
  app.add_option("--repeats", plan.repeats, "do every run this often and report 95 % confidence intervals")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app.add_option_function<std::string>(
      "--sweep", [&plan](const std::string& text) { TakeSweep(text, plan); },
      "a run for each value: rate:1000,2000, rate:1000..9000/1000, concurrency:1..64*2 (requests in flight)");
  app.add_flag("--search", plan.search, "find the highest rate that keeps --slo (all errors and drops break it)");
  app.add_option_function<std::string>(
         "--search-range", [&plan](const std::string& text) { TakeSearchRange(text, plan); },
         "LOW..HIGH requests per second")
      ->default_str("100..200000");
  app.add_option_function<double>(
         "--search-precision", [&plan](double percent) { plan.search_precision = percent / 100; }, "percent")
      ->check(CLI::Range(0.1, 50.0))
      ->default_str("2");
  app.add_option("--verify", load.verify_fraction,
                 "fraction of answers that is verified; the first of each connection always is")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0));
  app.add_flag_callback(
      "--no-verify,--raw-echo", [&load] { load.checking = Checking::kSizesOnly; },
      "look at status and size of the answers only (for servers that merely echo)");
}

void AddReportFlags(CLI::App& app, RawOptions& raw) {
  app.option_defaults()->group("Report");
  app.add_flag("--allow-errors", raw.plan.allow_errors, "exit 0 in spite of failed calls (not of wrong answers)");
  AddOutputFlags(app, raw.plan);
  app.add_option("--csv", raw.plan.csv_path, "append the figures to a CSV file; - is standard output")
      ->type_name("FILE");
  app.add_option(
         "--server-metrics", raw.plan.load.server_metrics,
         "host:port of the server's /metrics: what it says of the same window goes into the report; several with "
         "commas, or repeated: each and their sum")
      ->delimiter(',');
  app.add_option("--server-pid", raw.plan.load.server_pids, "print the CPU use of these processes too")->delimiter(',');
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
    for (const std::string& name : option->get_lnames()) given["--" + name] = option->count();
  }
  return given;
}

}  // namespace

void AddOutputFlags(CLI::App& app, Plan& plan) {
  app.add_option("--json", plan.json_path, "write the figures as JSON; - is standard output")->type_name("FILE");
  app.add_option("--html", plan.html_path, "write a report for a browser, one file that needs no network")
      ->type_name("FILE");
}

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
      "  softmax-loadgen merge a.json b.json                (softmax-loadgen merge --help)\n"
      "  softmax-loadgen compare before.json after.json     (softmax-loadgen compare --help)\n"
      "  softmax-loadgen --search --slo 'p99<=2ms' --json run.json\n"
      "  softmax-loadgen --sweep 'concurrency:1..64*2' --server-metrics localhost:9400");
  AddAllFlags(app, raw);
  if (!ParseArguments(app, argc, argv, exit_code)) return std::nullopt;
  return Given(app);
}

}  // namespace softmax::client

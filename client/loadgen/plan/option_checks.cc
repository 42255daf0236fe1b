#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "client/base/file.h"
#include "client/loadgen/plan/option_flags.h"
#include "client/loadgen/scrape/http_get.h"

namespace softmax::client {
namespace {

// protobuf's own limit on a message is 2 GiB.
constexpr double kMaxElements = static_cast<double>(std::uint64_t{1} << 31) / 8;
constexpr double kMostSeconds = 1e7;  // as a trace may last

std::string CheckDrawn(Mix& mix) {
  if (!mix.rows) mix.rows = *Distribution::Parse("1");
  if (!mix.columns) mix.columns = *Distribution::Parse("1024");
  if (static_cast<double>(mix.rows->max()) * static_cast<double>(mix.columns->max()) <= kMaxElements) return "";
  return absl::StrCat("--rows ", mix.rows->text(), " and --cols ", mix.columns->text(), " may draw more than ",
                      static_cast<std::int64_t>(kMaxElements), " elements");
}

std::string CheckPayload(std::uint64_t bytes, Mix& mix) {
  const auto shape = ShapeForPayload(bytes, mix.dtypes.front().value);
  if (!shape) {
    return absl::StrCat("--payload-bytes ", bytes, " is not a multiple of the element size ",
                        SizeOf(mix.dtypes.front().value), ", or above 1 GiB");
  }
  mix.shapes.push_back(*shape);
  return mix.dtypes.size() == 1 ? "" : "--payload-bytes needs a single --dtype";
}

std::string CheckAxis(const LoadOptions& load) {
  std::vector<Weighted<Shape>> shapes = load.mix.shapes;
  if (shapes.empty()) shapes.push_back({{1, 1}});
  for (const auto& shape : shapes) {
    const auto rank = static_cast<std::int32_t>(shape.value.size());
    if (load.axis && (*load.axis < -rank || *load.axis >= rank)) {
      return absl::StrCat("--axis ", *load.axis, " is out of range for --shape ", ShapeText(shape.value));
    }
  }
  return "";
}

std::string CheckShapes(const GivenFlags& given, RawOptions& raw) {
  LoadOptions& load = raw.plan.load;
  Mix& mix = load.mix;
  const bool drawn = given.at("--rows") + given.at("--cols") != 0;
  std::string problem;
  if (drawn) {
    problem = CheckDrawn(mix);
  } else if (raw.payload_bytes != 0) {
    problem = CheckPayload(raw.payload_bytes, mix);
  } else if (mix.shapes.empty()) {
    mix.shapes.push_back({{64, 1024}, 1});
  }
  if (load.scale && (!std::isfinite(*load.scale) || *load.scale <= 0)) return "--scale must be finite and above 0";
  return problem.empty() ? CheckAxis(load) : problem;
}

// After the addresses are known.
std::string CheckSecurity(const GivenFlags& /*given*/, RawOptions& raw) {
  LoadOptions& load = raw.plan.load;
  auto credentials = ReadCredentials(raw.security);
  if (!credentials.ok()) return std::string(credentials.status().message());
  load.security = *std::move(credentials);
  const auto in_clear = std::find_if(load.addresses.begin(), load.addresses.end(),
                                     [](const Address& address) { return !address.is_local; });
  if (load.security.tls || load.security.token.empty() || in_clear == load.addresses.end()) return "";
  return absl::StrCat("--token-file ", raw.security.token_file, ": needs --tls (or --ca) for --address ",
                      in_clear->target, "; in plain text anybody could read the token");
}

std::string CheckArrivals(const GivenFlags& given, RawOptions& raw) {
  LoadOptions& load = raw.plan.load;
  load.arrivals.seed = load.seed;
  if (given.at("--rate") != 0) load = AtRate(load, raw.rate);
  if (given.at("--schedule") != 0) {
    if (load.arrivals.Seconds() > kMostSeconds) return "--schedule takes more than 1e7 seconds";
    load.loop = Loop::kOpen;
  }
  if (given.at("--trace") != 0) {
    auto trace = ReadTrace(raw.trace, std::max<std::size_t>(1, load.mix.shapes.size()));
    if (!trace.ok()) return absl::StrCat("--trace ", raw.trace, ": ", trace.status().message());
    if (given.at("--arrivals") != 0) return "--arrivals has no meaning with --trace, which says when to send";
    load.arrivals.trace = std::make_shared<const std::vector<TraceEntry>>(*std::move(trace));
    load.loop = Loop::kOpen;
  }
  if (given.at("--schedule") != 0 && given.at("--duration") != 0) {
    return "--duration cannot be given with --schedule, which has its own";
  }
  if (given.at("--duration") == 0 && given.at("--schedule") + given.at("--trace") != 0) {
    load.duration = std::chrono::nanoseconds(std::llround(load.arrivals.Seconds() * 1e9));
  }
  return "";
}

// A search or a sweep says how much is sent, and nothing else may.
std::string CheckPlan(const GivenFlags& given, RawOptions& raw) {
  const Plan& plan = raw.plan;
  const bool sweep = plan.sweep != SweepKind::kNone;
  if (plan.search && sweep) return "--search and --sweep exclude each other";
  for (const char* flag : {"--rate", "--schedule", "--trace"}) {
    if ((plan.search || sweep) && given.at(flag) != 0) {
      return absl::StrCat(flag, " cannot be given with ", plan.search ? "--search" : "--sweep",
                          ", which sets the rate");
    }
  }
  if (plan.search && plan.load.slo.limit.count() == 0) return "--search needs --slo, such as --slo p99=2ms";
  if (plan.sweep != SweepKind::kConcurrency) return "";
  const auto addresses = static_cast<double>(plan.load.addresses.size());
  for (const double value : plan.sweep_values) {
    if (value != std::floor(value) || value > 1e6) {
      return absl::StrCat("--sweep concurrency: ", value, " is not a number of requests up to 1000000");
    }
    if (std::fmod(value, addresses) != 0) {
      return absl::StrCat("--sweep concurrency: ", value, " requests cannot be shared evenly by ", addresses,
                          " addresses");
    }
  }
  return "";
}

// Generators that share a measurement know nothing of one another but the time at which it begins.
std::string CheckParts(const GivenFlags& given, RawOptions& raw) {
  constexpr int kMostSecondsAhead = 86400;
  const Plan& plan = raw.plan;
  if (plan.load.parts > 1 && plan.search) return "--part cannot be given with --search: each would find its own rate";
  if (given.at("--start-at") == 0) return "";
  for (const char* flag : {"--search", "--sweep", "--repeats", "--stable"}) {
    if (given.at(flag) != 0) return absl::StrCat("--start-at, the time of one window, cannot be given with ", flag);
  }
  const double ahead_s = plan.load.start_at_s - ClockSeconds();
  if (ahead_s > 0 && ahead_s <= kMostSecondsAhead) return "";
  return absl::StrCat("--start-at is ", std::abs(ahead_s), " s ", ahead_s > 0 ? "ahead" : "ago",
                      " by this machine's clock, and must be ahead by up to ", kMostSecondsAhead, " s");
}

void ChooseSenders(const GivenFlags& given, bool open, LoadOptions& load) {
  if (given.at("--processes") == 0) {
    load.processes = DefaultProcesses(open ? Loop::kOpen : Loop::kClosed, std::thread::hardware_concurrency());
    if (given.at("--connections") != 0) load.processes = std::min(load.processes, load.connections);
  }
  // Two for each thread: while one waits for the server, the other one has answers.
  if (given.at("--connections") == 0) load.connections = std::max(load.connections, 4 * load.processes);
}

std::string CheckCounts(const GivenFlags& given, RawOptions& raw) {
  LoadOptions& load = raw.plan.load;
  const bool open = load.loop == Loop::kOpen || raw.plan.search || raw.plan.sweep == SweepKind::kRate;
  ChooseSenders(given, open, load);
  if (load.connections < load.processes) {
    return absl::StrCat("--connections ", load.connections, " is less than --processes ", load.processes,
                        ": some would have nothing to do");
  }
  const bool stream = load.method == Method::kStream;
  if (load.protocol == Protocol::kOip && stream) return "--protocol oip is for unary calls, not for --stream";
  if (load.regions != RegionKind::kNone) {
    if (load.protocol == Protocol::kOip) return "--regions is for --protocol native";
    if (load.addresses.size() != 1) return "--regions needs a single --address: its memory is one server's";
  }
  if (!stream && load.requests_per_message != 1) return "--requests-per-message needs --stream";
  if (stream && load.attempts != 1) {
    return "--attempts is for unary calls: what a stream loses when it breaks is reported and not sent again";
  }
  if (open) {
    if (given.at("--in-flight") != 0) return "--in-flight is for closed loops; an open loop has --max-in-flight";
    if (load.requests_per_message != 1) return "--requests-per-message is for closed loops: each arrival is a message";
    if (load.max_in_flight < load.TotalConnections()) {
      return absl::StrCat("--max-in-flight ", load.max_in_flight, " is less than the ", load.TotalConnections(),
                          " connections of --connections ", load.connections);
    }
    // A sending thread of an open loop watches the clock, so each costs a core.
    if (given.at("--threads") == 0) load.threads = 1;
    return "";
  }
  if (given.at("--max-in-flight") != 0) return "--max-in-flight is for open loops (--rate, --schedule, --trace)";
  if (load.in_flight % load.requests_per_message != 0) {
    return absl::StrCat("--in-flight ", load.in_flight, " is not a multiple of --requests-per-message ",
                        load.requests_per_message);
  }
  return "";
}

std::string CheckFile(const char* flag, const std::string& path) {
  if (path.empty()) return "";
  const absl::Status writable = CheckWritable(path);
  return writable.ok() ? "" : absl::StrCat(flag, " ", writable.message());
}

std::string CheckReports(const GivenFlags& /*given*/, RawOptions& raw) {
  const Plan& plan = raw.plan;
  for (const std::string& address : plan.load.server_metrics) {
    const auto location = ParseHttpLocation(address, "/metrics");
    if (!location.ok()) return absl::StrCat("--server-metrics ", location.status().message());
  }
  return CheckOutputs(plan);
}

}  // namespace

std::string CheckOutputs(const Plan& plan) {
  std::string problem = CheckFile("--json", plan.json_path);
  if (problem.empty()) problem = CheckFile("--csv", plan.csv_path);
  if (problem.empty()) problem = CheckFile("--html", plan.html_path);
  const int to_output = (plan.json_path == "-") + (plan.csv_path == "-") + (plan.html_path == "-");
  if (problem.empty() && to_output > 1) return "only one of --json, --csv and --html can go to standard output";
  return problem;
}

std::string CheckTogether(const GivenFlags& given, RawOptions& raw) {
  LoadOptions& load = raw.plan.load;
  load.max_warmup = std::max(load.max_warmup, load.warmup);
  for (const auto check :
       {CheckShapes, CheckSecurity, CheckArrivals, CheckPlan, CheckParts, CheckCounts, CheckReports}) {
    std::string problem = check(given, raw);
    if (!problem.empty()) return problem;
  }
  return "";
}

}  // namespace softmax::client

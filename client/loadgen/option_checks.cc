#include <absl/strings/str_cat.h>
#include <absl/strings/strip.h>

#include <algorithm>
#include <cmath>

#include "client/loadgen/raw_options.h"

namespace softmax::client {
namespace {

// protobuf's own limit on a message is 2 GiB.
constexpr double kMaxElements = static_cast<double>(std::uint64_t{1} << 31) / 8;

std::chrono::nanoseconds FromSeconds(double seconds) { return std::chrono::nanoseconds(std::llround(seconds * 1e9)); }

// "--address 'x' has no port" from "target: 'x' has no port".
std::string AddressProblem(const absl::Status& status) {
  return absl::StrCat("--address ", absl::StripPrefix(status.message(), "target: "));
}

std::string CheckAddresses(const CLI::App& /*app*/, RawOptions& raw) {
  if (raw.addresses.empty()) return "";
  std::vector<Address>& addresses = raw.plan.load.addresses;
  addresses.clear();
  for (const std::string& text : raw.addresses) {
    const auto parsed = ParseTarget(text);
    if (!parsed.ok()) return AddressProblem(parsed.status());
    for (const Address& address : *parsed) {
      const bool known = std::any_of(addresses.begin(), addresses.end(),
                                     [&](const Address& other) { return other.target == address.target; });
      if (known) return absl::StrCat("--address ", address.target, " is given twice");
      addresses.push_back(address);
    }
  }
  return "";
}

std::string CheckTypes(const CLI::App& app, RawOptions& raw) {
  Mix& mix = raw.plan.load.mix;
  if (!raw.dtypes.empty()) mix.dtypes.clear();
  for (const std::string& text : raw.dtypes) {
    const auto type = ParseWeightedType(text);
    if (!type) return "--dtype " + text + ": expected float32, float16, bfloat16 or float64, optionally :weight";
    mix.dtypes.push_back(*type);
  }
  if (!raw.operations.empty()) mix.operations.clear();
  for (const std::string& text : raw.operations) {
    const auto operation = ParseWeightedOperation(text);
    if (!operation) return "--op " + text + ": expected softmax or log_softmax, optionally :weight";
    mix.operations.push_back(*operation);
  }
  if (app.count("--output-dtype") != 0) {
    raw.plan.load.output_dtype = DataTypeFromName(raw.output_dtype);
    if (!raw.plan.load.output_dtype) {
      return "--output-dtype " + raw.output_dtype + ": expected float32, float16, bfloat16 or float64";
    }
  }
  return "";
}

std::string CheckDistribution(const char* flag, const std::string& text, std::optional<Distribution>* out) {
  auto parsed = Distribution::Parse(text);
  if (!parsed.ok()) return absl::StrCat(flag, " ", parsed.status().message());
  *out = *std::move(parsed);
  return "";
}

std::string CheckDrawn(const CLI::App& app, RawOptions& raw) {
  Mix& mix = raw.plan.load.mix;
  const std::string rows = app.count("--rows") != 0 ? raw.rows : "1";
  const std::string columns = app.count("--cols") != 0 ? raw.columns : "1024";
  std::string problem = CheckDistribution("--rows", rows, &mix.rows);
  if (problem.empty()) problem = CheckDistribution("--cols", columns, &mix.columns);
  if (!problem.empty()) return problem;
  if (static_cast<double>(mix.rows->max()) * static_cast<double>(mix.columns->max()) > kMaxElements) {
    return absl::StrCat("--rows ", rows, " and --cols ", columns, " may draw more than ",
                        static_cast<std::int64_t>(kMaxElements), " elements");
  }
  return "";
}

std::string CheckShapes(const CLI::App& app, RawOptions& raw) {
  Mix& mix = raw.plan.load.mix;
  for (const std::string& text : raw.shapes) {
    auto shape = ParseShape(text);
    if (!shape) return "--shape " + text + ": expected dimensions like 4096x1024, optionally :weight";
    mix.shapes.push_back(std::move(*shape));
  }
  if (raw.payload_bytes != 0) {
    for (const auto& dtype : mix.dtypes) {
      const auto shape = ShapeForPayload(raw.payload_bytes, dtype.value);
      if (!shape) {
        return absl::StrCat("--payload-bytes ", raw.payload_bytes, " is not a multiple of the element size ",
                            SizeOf(dtype.value), ", or above 1 GiB");
      }
      if (mix.dtypes.size() > 1) return "--payload-bytes needs a single --dtype";
      mix.shapes.push_back(*shape);
    }
  }
  if (app.count("--rows") + app.count("--cols") != 0) return CheckDrawn(app, raw);
  if (mix.shapes.empty()) mix.shapes.push_back({{64, 1024}, 1});
  return "";
}

std::string CheckAxisAndScale(const CLI::App& app, RawOptions& raw) {
  LoadOptions& load = raw.plan.load;
  if (app.count("--scale") != 0) load.scale = raw.scale;
  if (!std::isfinite(raw.scale) || raw.scale <= 0) return "--scale must be finite and above 0";
  if (app.count("--axis") == 0) return "";
  load.axis = raw.axis;
  std::vector<std::vector<std::int64_t>> shapes;
  for (const ShapeSpec& spec : load.mix.shapes) shapes.push_back(spec.shape);
  if (shapes.empty()) shapes.push_back({1, 1});
  for (const auto& shape : shapes) {
    const auto rank = static_cast<std::int32_t>(shape.size());
    if (raw.axis < -rank || raw.axis >= rank) {
      return absl::StrCat("--axis ", raw.axis, " is out of range for --shape ", ShapeText(shape));
    }
  }
  return "";
}

std::string CheckArrivals(const CLI::App& app, RawOptions& raw) {
  LoadOptions& load = raw.plan.load;
  load.arrivals.kind = raw.arrivals == "poisson" ? ArrivalKind::kPoisson : ArrivalKind::kConstant;
  load.arrivals.seed = load.seed;
  if (app.count("--rate") != 0) load = AtRate(load, raw.rate);
  if (app.count("--schedule") != 0) {
    auto segments = ParseSchedule(raw.schedule);
    if (!segments.ok()) return absl::StrCat("--schedule ", segments.status().message());
    load.arrivals.segments = *std::move(segments);
    load.loop = Loop::kOpen;
  }
  if (app.count("--trace") != 0) {
    auto trace = ReadTrace(raw.trace, std::max<std::size_t>(1, load.mix.shapes.size()));
    if (!trace.ok()) return absl::StrCat("--trace ", raw.trace, ": ", trace.status().message());
    if (app.count("--arrivals") != 0) return "--arrivals has no meaning with --trace, which says when to send";
    load.arrivals.trace = std::make_shared<const std::vector<TraceEntry>>(*std::move(trace));
    load.loop = Loop::kOpen;
  }
  if (app.count("--schedule") != 0 && app.count("--duration") != 0) {
    return "--duration cannot be given with --schedule, which has its own";
  }
  if (app.count("--duration") == 0 && app.count("--schedule") + app.count("--trace") != 0) {
    load.duration = FromSeconds(load.arrivals.Seconds());
  }
  return "";
}

// A search or a sweep says how much is sent, and nothing else may.
std::string CheckPlan(const CLI::App& app, RawOptions& raw) {
  Plan& plan = raw.plan;
  const bool several = plan.search || !raw.sweep.empty();
  if (plan.search && !raw.sweep.empty()) return "--search and --sweep exclude each other";
  for (const char* flag : {"--rate", "--schedule", "--trace"}) {
    if (several && app.count(flag) != 0) {
      return absl::StrCat(flag, " cannot be given with ", plan.search ? "--search" : "--sweep",
                          ", which sets the rate");
    }
  }
  if (!raw.sweep.empty()) {
    const std::size_t colon = raw.sweep.find(':');
    const std::string kind = raw.sweep.substr(0, colon);
    const auto values = colon == std::string::npos ? std::nullopt : ParseSweepValues(raw.sweep.substr(colon + 1));
    if ((kind != "rate" && kind != "concurrency") || !values) {
      return "--sweep " + raw.sweep + ": expected rate: or concurrency: and 1,2,4 or 100..1000/100 or 1..64*2";
    }
    plan.sweep = kind == "rate" ? SweepKind::kRate : SweepKind::kConcurrency;
    plan.sweep_values = *values;
    for (const double value : *values) {
      if (kind == "concurrency" && (value != std::floor(value) || value > 1e6)) {
        return absl::StrCat("--sweep ", raw.sweep, ": ", value, " is not a number of requests up to 1000000");
      }
      const auto addresses = static_cast<double>(plan.load.addresses.size());
      if (kind == "concurrency" && std::fmod(value, addresses) != 0) {
        return absl::StrCat("--sweep ", raw.sweep, ": ", value, " requests cannot be shared evenly by ", addresses,
                            " addresses");
      }
    }
  }
  if (!plan.search) return "";
  if (plan.load.slo.limit.count() == 0) return "--search needs --slo, such as --slo p99=2ms";
  const std::string text = raw.search_range.empty() ? "100..200000" : raw.search_range;
  const auto range = ParseSchedule(text + "@1s");
  if (!range.ok() || range->size() != 1 || range->front().from_per_s >= range->front().to_per_s) {
    return "--search-range " + text + ": expected LOW..HIGH requests per second";
  }
  plan.search_low = range->front().from_per_s;
  plan.search_high = range->front().to_per_s;
  plan.search_precision = raw.search_precision_percent / 100;
  return "";
}

std::string CheckSlo(const CLI::App& app, RawOptions& raw) {
  ServiceLevel& slo = raw.plan.load.slo;
  if (app.count("--slo-latency") != 0) slo.limit = FromSeconds(raw.slo_latency);
  if (app.count("--slo") == 0) return "";
  const auto level = ParseServiceLevel(raw.slo);
  if (!level) return "--slo " + raw.slo + ": expected a percentile and a time, such as p99=2ms or p99.9<=500us";
  slo = *level;
  return "";
}

std::string CheckCounts(const CLI::App& app, RawOptions& raw) {
  LoadOptions& load = raw.plan.load;
  const bool open = load.loop == Loop::kOpen || raw.plan.search || raw.plan.sweep == SweepKind::kRate;
  if (load.connections < load.processes) {
    return absl::StrCat("--connections ", load.connections, " is less than --processes ", load.processes,
                        ": some would have nothing to do");
  }
  load.method = raw.stream ? Method::kStream : Method::kUnary;
  if (!raw.stream && load.requests_per_message != 1) return "--requests-per-message needs --stream";
  if (raw.stream && load.attempts != 1) {
    return "--attempts is for unary calls: what a stream loses when it breaks is reported and not sent again";
  }
  if (open) {
    if (app.count("--in-flight") != 0) return "--in-flight is for closed loops; an open loop has --max-in-flight";
    if (load.requests_per_message != 1) return "--requests-per-message is for closed loops: each arrival is a message";
    if (load.max_in_flight < load.TotalConnections()) {
      return absl::StrCat("--max-in-flight ", load.max_in_flight, " is less than the ", load.TotalConnections(),
                          " connections of --connections ", load.connections);
    }
    // A sending thread of an open loop watches the clock, so each costs a core.
    if (app.count("--threads") == 0) load.threads = 1;
    return "";
  }
  if (app.count("--max-in-flight") != 0) return "--max-in-flight is for open loops (--rate, --schedule, --trace)";
  if (load.in_flight % load.requests_per_message != 0) {
    return absl::StrCat("--in-flight ", load.in_flight, " is not a multiple of --requests-per-message ",
                        load.requests_per_message);
  }
  return "";
}

}  // namespace

std::string CheckTogether(const CLI::App& app, RawOptions& raw) {
  LoadOptions& load = raw.plan.load;
  load.checking = raw.no_verify ? Checking::kSizesOnly : Checking::kSample;
  load.duration = FromSeconds(raw.duration);
  load.warmup = FromSeconds(raw.warmup);
  load.stable_within = raw.stable_percent / 100;
  load.max_warmup = FromSeconds(std::max(raw.max_warmup, raw.warmup));
  load.connect_timeout = FromSeconds(raw.connect_timeout);
  load.timeout = FromSeconds(raw.timeout);
  for (const auto check :
       {CheckAddresses, CheckTypes, CheckShapes, CheckAxisAndScale, CheckArrivals, CheckSlo, CheckPlan, CheckCounts}) {
    std::string problem = check(app, raw);
    if (!problem.empty()) return problem;
  }
  return "";
}

}  // namespace softmax::client

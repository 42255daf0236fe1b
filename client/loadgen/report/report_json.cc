#include <absl/strings/str_format.h>
#include <absl/time/clock.h>
#include <absl/time/time.h>
#include <grpcpp/grpcpp.h>

#include <nlohmann/json.hpp>

#include "client/base/version.h"
#include "client/loadgen/measure/machine.h"
#include "client/loadgen/measure/run_result.h"
#include "client/loadgen/measure/statistics.h"
#include "client/loadgen/report/report.h"

namespace softmax::client {
namespace {

using Json = nlohmann::ordered_json;

std::string DurationText(std::chrono::nanoseconds duration) { return absl::FormatDuration(absl::FromChrono(duration)); }

std::string MixText(const Mix& mix) {
  std::string text;
  for (const auto& shape : mix.shapes) {
    absl::StrAppendFormat(&text, "%s%s", text.empty() ? "" : ",", ShapeText(shape.value));
    if (mix.shapes.size() > 1) absl::StrAppendFormat(&text, ":%g", shape.weight);
  }
  return mix.shapes.empty() ? mix.rows->text() + " x " + mix.columns->text() : text;
}

// A search and a sweep of rates set the loop of each run themselves.
bool IsOpen(const Plan& plan) { return plan.load.loop == Loop::kOpen || plan.search || plan.sweep == SweepKind::kRate; }

// How many requests are sent is each run's own where there are several.
std::string ArrivalsText(const Plan& plan) {
  if (plan.load.arrivals.trace) return "trace";
  return plan.load.arrivals.kind == ArrivalKind::kPoisson ? "poisson" : "constant";
}

Json Settings(const Plan& plan) {
  const LoadOptions& load = plan.load;
  Json settings;
  settings["address"] = AddressesText(load);
  settings["method"] = MethodName(load);
  settings["tls"] = TlsName(load);
  settings["token"] = load.security.token.empty() ? "none" : "with every call";
  settings["loop"] = IsOpen(plan) ? "open" : "closed";
  settings["attempts"] = std::to_string(load.attempts);
  settings["shapes"] = MixText(load.mix);
  settings["dtype"] = TypesText(load.mix);
  settings["output_dtype"] = load.output_dtype ? std::string(NameOf(*load.output_dtype)) : "as the input";
  settings["op"] = OperationsText(load.mix);
  settings["answer"] = AnswersText(load.mix);
  settings["connections"] = std::to_string(load.connections);
  if (IsOpen(plan)) {
    settings["max_in_flight"] = std::to_string(load.max_in_flight);
  } else {
    settings["in_flight"] = std::to_string(load.in_flight);
  }
  settings["requests_per_message"] = std::to_string(load.requests_per_message);
  settings["processes"] = std::to_string(load.processes);
  settings["threads"] = std::to_string(load.threads);
  if (IsOpen(plan)) settings["arrivals"] = ArrivalsText(plan);
  settings["duration"] = DurationText(load.duration);
  settings["warmup"] = DurationText(load.warmup);
  settings["repeats"] = std::to_string(plan.repeats);
  settings["seed"] = std::to_string(load.seed);
  if (load.slo.limit.count() > 0) settings["slo"] = ServiceLevelText(load.slo);
  return settings;
}

// JSON has no NaN: what is kUnknown is written as null.
Json Figures(const LatencyFigures& figures) {
  Json percentiles = Json::array();
  for (std::size_t i = 0; i < kPercentiles.size(); ++i) {
    percentiles.push_back({{"p", kPercentiles[i]}, {"us", figures.at_us[i]}});
  }
  return {{"count", figures.count},
          {"mean_us", figures.mean_us},
          {"min_us", figures.min_us},
          {"max_us", figures.max_us},
          {"percentiles", std::move(percentiles)}};
}

Json ByCode(const std::array<std::uint64_t, kCodes>& counts) {
  Json named = Json::object();
  for (int code = 0; code < kCodes; ++code) {
    const std::uint64_t count = counts[static_cast<std::size_t>(code)];
    if (count > 0) named[CodeName(code)] = count;
  }
  return named;
}

Json Addresses(const RunResult& run) {
  Json addresses = Json::array();
  for (const AddressFigures& of : run.addresses) {
    addresses.push_back(
        {{"address", of.address}, {"attempts", of.attempts}, {"answered", of.answered}, {"failed", of.failed}});
  }
  return addresses;
}

Json Classes(const RunResult& run) {
  Json classes = Json::array();
  for (const ClassFigures& of : run.classes) {
    classes.push_back({{"name", of.name},
                       {"achieved_per_s", of.per_second},
                       {"gb_per_s", of.gigabytes_per_second},
                       {"latency", Figures(of.latency)}});
  }
  return classes;
}

Json Timeline(const RunResult& run) {
  Json timeline = Json::array();
  for (const TimelinePoint& point : run.timeline) {
    timeline.push_back({{"t_s", point.t_s},
                        {"sent", point.sent},
                        {"answered", point.answered},
                        {"errors", point.errors},
                        {"p50_us", point.answered > 0 ? Json(point.p50_us) : Json(nullptr)},
                        {"p99_us", point.answered > 0 ? Json(point.p99_us) : Json(nullptr)}});
  }
  return timeline;
}

// A figure that may be unknown.
Json OrNull(double value) { return value < 0 ? Json(nullptr) : Json(value); }

Json Run(const RunResult& run) {
  Json json;
  json["name"] = run.name;
  json["loop"] = run.load.loop == Loop::kOpen ? "open" : "closed";
  json["connections"] = run.load.TotalConnections();
  json["in_flight"] = run.load.loop == Loop::kOpen ? run.load.max_in_flight : run.load.in_flight;
  json["offered_per_s"] = run.offered_per_s;
  json["achieved_per_s"] = run.achieved_per_s;
  json["goodput_per_s"] = run.goodput_per_s;
  json["gb_per_s"] = run.gigabytes_per_s;
  json["duration_s"] = run.seconds;
  json["warmup_s"] = run.warmup_seconds;
  json["slo_us"] = run.load.slo.limit.count() > 0 ? Json(run.load.slo.limit.count() / 1e3) : Json(nullptr);
  json["within_slo"] = run.load.slo.limit.count() > 0 ? Json(run.within_slo) : Json(nullptr);
  json["latency"] = Figures(run.latency);
  json["service_time"] = Figures(run.service);
  json["lag"] = Figures(run.lag);
  json["classes"] = Classes(run);
  json["errors"] = ByCode(run.errors);
  json["warmup_errors"] = ByCode(run.warmup_errors);
  json["first_error"] = run.first_error;
  json["sent"] = run.sent;
  json["attempts"] = run.attempts();
  json["retries"] = run.retries();
  json["retried"] = ByCode(run.retried);
  json["throttled"] = run.throttled;
  json["addresses"] = Addresses(run);
  json["dropped"] = run.dropped();
  json["late"] = run.late;
  json["wrong"] = run.wrong;
  json["first_wrong"] = run.first_wrong;
  json["verified"] = run.verified;
  json["judged"] = run.judged;
  json["timeline"] = Timeline(run);
  json["generator"] = {{"cpu_cores", run.generator_cores},
                       {"busiest_thread", run.busiest_sender},
                       {"limited", !run.generator_limit.empty()},
                       {"why", run.generator_limit}};
  json["server_cores"] = OrNull(run.server_cores);
  json["machine_busy"] = OrNull(run.machine_busy);
  json["server"] = run.server_json.empty() ? Json(nullptr) : Json::parse(run.server_json);
  if (!run.servers_json.empty()) json["servers"] = Json::parse(run.servers_json);
  json["interrupted"] = run.interrupted;
  json["complete"] = !run.lost_process;
  json["verdicts"] = run.verdicts;
  return json;
}

Json Search(const Plan& plan, const SearchResult& search) {
  Json steps = Json::array();
  for (const SearchStep& step : search.steps) {
    steps.push_back({{"rate_per_s", step.rate_per_s},
                     {"kept", step.probe.kept},
                     {"generator_limited", step.probe.generator_limited}});
  }
  return {{"slo_us", plan.load.slo.limit.count() / 1e3},
          {"percentile", plan.load.slo.percentile},
          {"rate_per_s", search.rate_per_s ? Json(*search.rate_per_s) : Json(nullptr)},
          {"at_upper_bound", search.at_upper_bound},
          {"generator_limited", search.generator_limited},
          {"stopped", search.stopped},
          {"steps", std::move(steps)}};
}

// Means of repeated runs with their 95 % confidence intervals.
Json SummaryOf(const Outcome& outcome) {
  Json summary = Json::array();
  for (const RunGroup& group : GroupsOf(outcome)) {
    const auto interval = [&](auto figure) {
      std::vector<double> values;
      for (std::size_t i = group.first; i < group.last; ++i) values.push_back(figure(outcome.runs[i]));
      const Interval of = MeanInterval(values);
      return Json{{"mean", of.mean}, {"ci95", of.half_width}};
    };
    Json percentiles = Json::array();
    for (std::size_t i = 0; i < kPercentiles.size(); ++i) {
      Json of = interval([i](const RunResult& run) { return run.latency.at_us[i]; });
      percentiles.push_back({{"p", kPercentiles[i]}, {"mean_us", of["mean"]}, {"ci95_us", of["ci95"]}});
    }
    summary.push_back({{"name", outcome.runs[group.first].name},
                       {"repeats", group.last - group.first},
                       {"achieved_per_s", interval([](const RunResult& run) { return run.achieved_per_s; })},
                       {"goodput_per_s", interval([](const RunResult& run) { return run.goodput_per_s; })},
                       {"percentiles", std::move(percentiles)}});
  }
  return summary;
}

// Where the generator ran.
Json Machine() {
  const MachineName machine = ThisMachine();
  return {
      {"host", machine.host}, {"processor", machine.processor}, {"cores", machine.cores}, {"system", machine.system}};
}

}  // namespace

std::string ReportJson(const Plan& plan, const Outcome& outcome) {
  Json document;
  document["schema"] = 1;
  document["tool"] = {
      {"version", Version()}, {"commit", Commit()}, {"grpc", grpc::Version()}, {"command", plan.command}};
  document["machine"] = Machine();
  document["date"] = absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(), absl::UTCTimeZone());
  document["settings"] = Settings(plan);
  document["runs"] = Json::array();
  for (const RunResult& run : outcome.runs) document["runs"].push_back(Run(run));
  document["summary"] = SummaryOf(outcome);
  document["search"] = outcome.search ? Search(plan, *outcome.search) : Json(nullptr);
  // Texts of the server may hold any bytes.
  return document.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace softmax::client

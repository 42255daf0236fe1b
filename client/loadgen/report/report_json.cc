#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/time/clock.h>
#include <absl/time/time.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "client/base/program.h"
#include "client/loadgen/measure/statistics.h"
#include "client/loadgen/report/report.h"
#include "client/loadgen/report/result_fields.h"

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
  if (load.parts > 1) settings["part"] = absl::StrCat(load.part, "/", load.parts);
  if (load.slo.limit.count() > 0) settings["slo"] = ServiceLevelText(load.slo);
  return settings;
}

// The counts that are not 0, by the names of their codes.
Json Write(const CountsByCode& counts) {
  Json named = Json::object();
  for (std::size_t code = 0; code < counts.size(); ++code) {
    if (counts[code] > 0) named[CodeName(static_cast<int>(code))] = counts[code];
  }
  return named;
}

Json Write(const Percentiles& at_us) {
  Json list = Json::array();
  for (std::size_t i = 0; i < at_us.size(); ++i) list.push_back({{"p", kPercentiles[i]}, {"us", at_us[i]}});
  return list;
}

// JSON has no NaN: what is kUnknown is written as null.
Json Write(Loop loop) { return loop == Loop::kOpen ? "open" : "closed"; }
Json Write(std::chrono::nanoseconds time) { return time.count() > 0 ? Json(time.count() / 1e3) : Json(); }
Json Write(const JsonText& json) { return json.text.empty() ? Json() : Json::parse(json.text); }

template <typename T>
concept HasFields = requires(const T& of) {
  FieldsOf(of);
};

// Of values, structs with fields, and lists of either.
template <typename T>
Json Write(const T& value) {
  if constexpr (HasFields<T>) {
    Json json;
    EachField(value, [&](const char* name, const auto& field) { json[name] = Write(field); });
    return json;
  } else if constexpr (requires { value.has_value(); }) {
    return value ? Write(*value) : Json();
  } else if constexpr (requires { value.begin(); } && !std::is_same_v<T, std::string>) {
    Json list = Json::array();
    for (const auto& one : value) list.push_back(Write(one));
    return list;
  } else {
    return value;
  }
}

// Takes back what Write wrote. What is missing or null stays as it is; of what is wrong, the first is kept.
class Reader {
 public:
  // What stands at `where`, which is told of what is wrong.
  template <typename T>
  void Take(const std::string& where, const Json& json, T* out) {
    const std::size_t length = path_.size();
    path_ += where;
    Read(json, out);
    path_.resize(length);
  }

  // Empty: nothing is wrong.
  const std::string& problem() const { return problem_; }

 private:
  template <typename T>
  void Read(const Json& json, T* out) {
    if (json.is_null() || !problem_.empty()) return;
    if constexpr (HasFields<T>) {
      ReadFields(json, out);
    } else if constexpr (std::is_same_v<T, Percentiles>) {
      ReadPercentiles(json, out);
    } else if constexpr (std::is_same_v<T, CountsByCode>) {
      ReadCounts(json, out);
    } else if constexpr (std::is_same_v<T, JsonText>) {
      out->text = json.dump();
    } else if constexpr (std::is_same_v<T, Loop>) {
      if (Is(json == "open" || json == "closed", "\"open\" or \"closed\"")) {
        *out = json == "open" ? Loop::kOpen : Loop::kClosed;
      }
    } else if constexpr (std::is_same_v<T, std::chrono::nanoseconds>) {
      if (Is(json.is_number(), "a number")) *out = std::chrono::nanoseconds(std::llround(json.get<double>() * 1e3));
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (Is(json.is_string(), "a text")) *out = json.get<std::string>();
    } else if constexpr (std::is_same_v<T, bool>) {
      if (Is(json.is_boolean(), "true or false")) *out = json.get<bool>();
    } else if constexpr (std::is_floating_point_v<T>) {
      if (Is(json.is_number(), "a number")) *out = json.get<T>();
    } else if constexpr (std::is_integral_v<T>) {
      const bool fits = json.is_number_unsigned() && json.get<std::uint64_t>() <= std::numeric_limits<T>::max();
      if (Is(fits, "a whole number that fits")) *out = json.get<T>();
    } else if constexpr (requires { out->has_value(); }) {
      Read(json, &out->emplace());
    } else if (Is(json.is_array(), "a list")) {
      for (const Json& one : json) {
        const std::string where = absl::StrCat("[", out->size(), "]");
        Take(where, one, &out->emplace_back());
      }
    }
  }

  template <typename T>
  void ReadFields(const Json& json, T* out) {
    if (!Is(json.is_object(), "an object")) return;
    EachField(*out, [&](const char* name, auto&& field) {
      constexpr bool kComputed = !std::is_lvalue_reference_v<decltype(field)>;
      const auto found = json.find(name);
      if constexpr (!kComputed) {
        if (found != json.end()) Take(absl::StrCat(".", name), *found, &field);
      }
    });
  }

  void ReadPercentiles(const Json& json, Percentiles* out) {
    for (const Json& one : json) {
      for (std::size_t i = 0; i < out->size(); ++i) {
        const bool is_it = one.is_object() && one.contains("us") && one.value("p", Json()) == kPercentiles[i];
        if (is_it) Take(absl::StrCat("[", i, "].us"), one["us"], &(*out)[i]);
      }
    }
  }

  void ReadCounts(const Json& json, CountsByCode* out) {
    for (std::size_t code = 0; code < out->size(); ++code) {
      const auto found = json.find(CodeName(static_cast<int>(code)));
      if (found != json.end()) Take("." + found.key(), *found, &(*out)[code]);
    }
  }

  bool Is(bool right, const char* wanted) {
    if (!right && problem_.empty()) problem_ = absl::StrCat(path_, ": is not ", wanted);
    return right;
  }

  std::string path_;
  std::string problem_;
};

Json Search(const Plan& plan, const SearchResult& search) {
  Json json = {{"slo_us", Write(plan.load.slo.limit)}, {"percentile", plan.load.slo.percentile}};
  json.update(Write(search));
  return json;
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

std::string DocumentText(const std::string& command, const MachineName& machine, const Json& settings,
                         const Outcome& outcome, const Json& search) {
  Json document;
  document["schema"] = 1;
  document["tool"] = {{"version", Version()}, {"commit", Commit()}, {"grpc", grpc::Version()}, {"command", command}};
  document["machine"] = Write(machine);
  document["date"] = absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(), absl::UTCTimeZone());
  document["settings"] = settings;
  document["runs"] = Write(outcome.runs);
  document["summary"] = SummaryOf(outcome);
  document["search"] = search;
  // Texts of the server may hold any bytes.
  return document.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Texts TextsOf(const Json& object) {
  Texts texts;
  if (!object.is_object()) return texts;
  for (const auto& [name, value] : object.items()) {
    texts.emplace_back(name, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return texts;
}

}  // namespace

std::string ReportJson(const Plan& plan, const Outcome& outcome) {
  return DocumentText(plan.command, ThisMachine(), Settings(plan), outcome,
                      outcome.search ? Search(plan, *outcome.search) : Json(nullptr));
}

std::string ReportJson(const ReportHead& head, const std::string& command, const Outcome& outcome) {
  Json settings = Json::object();
  for (const auto& [name, value] : head.settings) settings[name] = value;
  return DocumentText(command, head.machine, settings, outcome, Json(nullptr));
}

absl::StatusOr<Outcome> ReadReport(std::string_view json, ReportHead* head) {
  const Json document = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object() || document.value("schema", Json()) != 1) {
    return absl::InvalidArgumentError("is no report of softmax-loadgen (JSON with \"schema\": 1)");
  }
  Outcome outcome;
  Reader reader;
  reader.Take("runs", document.value("runs", Json()), &outcome.runs);
  reader.Take("search", document.value("search", Json()), &outcome.search);
  if (head != nullptr) {
    head->tool = TextsOf(document.value("tool", Json()));
    head->settings = TextsOf(document.value("settings", Json()));
    reader.Take("machine", document.value("machine", Json()), &head->machine);
  }
  if (!reader.problem().empty()) return absl::InvalidArgumentError(reader.problem());
  return outcome;
}

}  // namespace softmax::client

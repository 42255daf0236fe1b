#include "client/loadgen/compare/comparison.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/time/clock.h>
#include <absl/time/time.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "client/base/program.h"
#include "client/loadgen/measure/statistics.h"

namespace softmax::client {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Difference, what, before, after)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FigureChange, name, before, after, change, low, high)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LoadChange, name, basis, figures, classes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RuleVerdict, text, failed)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Comparison, differences, loads, notes, verdicts)

namespace {

using Runs = std::vector<const RunResult*>;

// Neighbouring stretches of a timeline are alike; so few parts of it are nearly independent of one another.
constexpr std::size_t kTimelineParts = 6;
constexpr std::size_t kLeastTimelineParts = 5;

struct Figure {
  std::string name;
  std::string rule;  // its name in --fail-if
  std::function<double(const RunResult&)> of;
  std::function<double(const TimelinePoint&)> of_part;  // where the timeline tells it; t_s is the part's length
};

// The timeline in few parts, whose times are the means of their points' by answers.
std::vector<TimelinePoint> TimelineParts(const RunResult& run) {
  const std::size_t points = run.timeline.size();
  std::vector<TimelinePoint> parts(points < kLeastTimelineParts ? 0 : std::min(points, kTimelineParts));
  double before_s = 0;
  for (std::size_t i = 0; i < points && !parts.empty(); ++i) {
    const TimelinePoint& point = run.timeline[i];
    TimelinePoint& part = parts[i * parts.size() / points];
    part.t_s += point.t_s - std::exchange(before_s, point.t_s);
    if (point.answered == 0) continue;
    part.p50_us = MeanTogether(part.p50_us, part.answered, point.p50_us, point.answered);
    part.p99_us = MeanTogether(part.p99_us, part.answered, point.p99_us, point.answered);
    part.answered += point.answered;
  }
  return parts;
}

std::vector<Figure> FiguresOfLoad() {
  std::vector<Figure> figures = {
      {"requests/s", "rate", [](const RunResult& run) { return run.achieved_per_s; },
       [](const TimelinePoint& part) { return static_cast<double>(part.answered) / part.t_s; }},
      {"goodput/s", "goodput", [](const RunResult& run) { return run.goodput_per_s; }, nullptr},
      {"mean us", "mean", [](const RunResult& run) { return run.latency.mean_us; }, nullptr}};
  for (std::size_t i = 0; i < kPercentiles.size(); ++i) {
    const std::string name = absl::StrFormat("p%g", kPercentiles[i]);
    figures.push_back({name + " us", name, [i](const RunResult& run) { return run.latency.at_us[i]; }, nullptr});
    if (name == "p50") figures.back().of_part = [](const TimelinePoint& part) { return part.p50_us; };
    if (name == "p99") figures.back().of_part = [](const TimelinePoint& part) { return part.p99_us; };
  }
  return figures;
}

double LogOf(double value) { return value > 0 ? std::log(value) : kUnknown; }

// Where a side tells it.
void AddChange(const Figure& figure, const Runs& before, const Runs& after, std::vector<FigureChange>* changes) {
  const auto of_runs = [&](const Runs& runs) {
    std::vector<double> logs;
    for (const RunResult* run : runs) logs.push_back(LogOf(figure.of(*run)));
    return logs;
  };
  const std::vector<double> a = of_runs(before);
  const std::vector<double> b = of_runs(after);
  Interval change = DifferenceInterval(a, b);
  if (std::min(a.size(), b.size()) == 1 && figure.of_part) {
    const auto of_parts = [&](const RunResult& run) {
      std::vector<double> logs;
      for (const TimelinePoint& part : TimelineParts(run)) logs.push_back(LogOf(figure.of_part(part)));
      return logs;
    };
    change.half_width = DifferenceInterval(of_parts(*before.front()), of_parts(*after.front())).half_width;
  }
  const double of_before = std::exp(MeanInterval(a).mean);
  const double of_after = std::exp(MeanInterval(b).mean);
  if (std::isnan(of_before) && std::isnan(of_after)) return;
  changes->push_back({figure.name, of_before, of_after, std::expm1(change.mean),
                      std::expm1(change.mean - change.half_width), std::expm1(change.mean + change.half_width)});
}

LoadChange ClassChangeOf(const std::string& name, const Runs& before, const Runs& after) {
  LoadChange change;
  change.name = name;
  const auto add = [&](const std::string& figure, const std::function<double(const ClassFigures&)>& of) {
    const auto of_run = [&](const RunResult& run) {
      const auto at =
          std::find_if(run.classes.begin(), run.classes.end(), [&](const auto& c) { return c.name == name; });
      return at == run.classes.end() ? kUnknown : of(*at);
    };
    AddChange({figure, "", of_run, nullptr}, before, after, &change.figures);
  };
  add("requests/s", [](const ClassFigures& of) { return of.per_second; });
  for (std::size_t i = 0; i < kPercentiles.size(); ++i) {
    add(absl::StrFormat("p%g us", kPercentiles[i]), [i](const ClassFigures& of) { return of.latency.at_us[i]; });
  }
  return change;
}

LoadChange LoadChangeOf(const std::string& name, const Runs& before, const Runs& after) {
  LoadChange load;
  load.name = name;
  load.basis = absl::StrFormat("%d and %d runs; intervals from %s", before.size(), after.size(),
                               before.size() > 1 && after.size() > 1
                                   ? "these repeats"
                                   : "parts of the timeline: what varies from run to run is not in them");
  for (const Figure& figure : FiguresOfLoad()) {
    if (figure.rule == "goodput" && before.front()->load.slo.limit.count() == 0) continue;
    AddChange(figure, before, after, &load.figures);
  }
  for (const ClassFigures& of : before.front()->classes) {
    if (before.front()->classes.size() > 1) load.classes.push_back(ClassChangeOf(of.name, before, after));
  }
  return load;
}

// The runs of each name, in the order of the files.
std::vector<std::pair<std::string, Runs>> LoadsOf(const std::vector<ResultsFile>& files) {
  std::vector<std::pair<std::string, Runs>> loads;
  for (const ResultsFile& file : files) {
    for (const RunResult& run : file.outcome.runs) {
      auto at = std::find_if(loads.begin(), loads.end(), [&](const auto& load) { return load.first == run.name; });
      if (at == loads.end()) at = loads.insert(at, {run.name, {}});
      at->second.push_back(&run);
    }
  }
  return loads;
}

// "+5.20 %"; "-" of what is kUnknown.
std::string ChangeText(double change) { return std::isnan(change) ? "-" : absl::StrFormat("%+.2f %%", change * 100); }

std::string IntervalText(const FigureChange& figure) {
  return std::isnan(figure.low) ? "-" : absl::StrCat(ChangeText(figure.low), " to ", ChangeText(figure.high));
}

void AppendLoad(const LoadChange& load, std::string* text) {
  absl::StrAppendFormat(text, "%s%s%s\n", load.name, load.basis.empty() ? "" : "  ", load.basis);
  for (const FigureChange& figure : load.figures) {
    absl::StrAppendFormat(text, "%-14s %14s %14s %10s   %-24s%s\n", figure.name, FigureText(figure.before),
                          FigureText(figure.after), ChangeText(figure.change), IntervalText(figure),
                          figure.is_certain() ? " *" : "");
  }
  for (const LoadChange& of : load.classes) AppendLoad(of, text);
}

RuleVerdict VerdictOf(const FailRule& rule, const LoadChange& load) {
  const auto at = std::find_if(load.figures.begin(), load.figures.end(),
                               [&](const FigureChange& figure) { return figure.name == rule.figure; });
  const std::string head = absl::StrCat(rule.text, ", ", load.name, ": ");
  // What is not known must not pass for good.
  if (at == load.figures.end() || std::isnan(at->low)) {
    return {head + "cannot be told: it takes --repeats, --slo for goodput, and ten answers beyond a percentile", true};
  }
  const bool beyond = rule.above ? at->change > rule.limit && at->low > 0 : at->change < rule.limit && at->high < 0;
  return {absl::StrCat(head, ChangeText(at->change), " (", IntervalText(*at), ")"), beyond};
}

}  // namespace

std::optional<FailRule> ParseFailRule(const std::string& text) {
  const std::size_t at = text.find_first_of("<>");
  const std::vector<Figure> figures = FiguresOfLoad();
  const auto figure =
      std::find_if(figures.begin(), figures.end(), [&](const Figure& one) { return one.rule == text.substr(0, at); });
  double percent = 0;
  if (at == std::string::npos || figure == figures.end() || text.back() != '%' ||
      !absl::SimpleAtod(text.substr(at + 1, text.size() - at - 2), &percent) ||
      (text[at] == '>' ? !(percent >= 0 && percent < 1e6) : !(percent <= 0 && percent > -100))) {
    return std::nullopt;
  }
  return FailRule{text, figure->name, text[at] == '>', percent / 100};
}

absl::StatusOr<Comparison> Compare(const std::vector<ResultsFile>& before, const std::vector<ResultsFile>& after,
                                   const std::vector<FailRule>& rules) {
  Comparison comparison;
  comparison.differences = DifferencesOf(before, after);
  const auto loads_before = LoadsOf(before);
  auto loads_after = LoadsOf(after);
  for (const auto& [name, runs] : loads_before) {
    // Two loads that stand alone are meant to be compared, whatever their names.
    const bool alone = loads_before.size() == 1 && loads_after.size() == 1;
    const auto at = std::find_if(loads_after.begin(), loads_after.end(),
                                 [&, &name = name](const auto& load) { return alone || load.first == name; });
    if (at == loads_after.end()) {
      comparison.notes.push_back(name + " was run before only");
      continue;
    }
    const std::string both = at->first == name ? name : absl::StrCat(name, " and ", at->first);
    comparison.loads.push_back(LoadChangeOf(both, runs, at->second));
    loads_after.erase(at);
  }
  for (const auto& load : loads_after) comparison.notes.push_back(load.first + " was run after only");
  if (comparison.loads.empty()) return absl::InvalidArgumentError("no load was run both before and after");
  for (const FailRule& rule : rules) {
    for (const LoadChange& load : comparison.loads) comparison.verdicts.push_back(VerdictOf(rule, load));
  }
  return comparison;
}

std::string ComparisonTable(const Comparison& comparison) {
  std::string text;
  for (const Difference& of : comparison.differences) {
    absl::StrAppendFormat(&text, "differs    %s: %s -> %s\n", of.what, of.before, of.after);
  }
  absl::StrAppendFormat(&text, "%-14s %14s %14s %10s   %s\n", "", "before", "after", "change",
                        "95 % interval (* without 0)");
  for (const LoadChange& load : comparison.loads) AppendLoad(load, &text);
  for (const std::string& note : comparison.notes) absl::StrAppendFormat(&text, "note       %s\n", note);
  for (const RuleVerdict& of : comparison.verdicts) {
    absl::StrAppendFormat(&text, "%-10s %s\n", of.failed ? "FAILED" : "kept", of.text);
  }
  return text;
}

std::string ComparisonJson(const std::string& command, const Comparison& comparison) {
  const nlohmann::json document = {{"schema", 1},
                                   {"tool", {{"version", Version()}, {"commit", Commit()}, {"command", command}}},
                                   {"date", absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(), absl::UTCTimeZone())},
                                   {"comparison", comparison}};
  return document.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace softmax::client

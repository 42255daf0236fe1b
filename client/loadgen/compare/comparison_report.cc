#include "client/loadgen/compare/comparison_report.h"

#include <absl/strings/str_format.h>
#include <absl/time/clock.h>
#include <absl/time/time.h>

#include <nlohmann/json.hpp>

#include "client/base/version.h"

namespace softmax::client {
namespace {

using Json = nlohmann::ordered_json;

void AppendLoad(const LoadChange& load, std::string* text) {
  absl::StrAppendFormat(text, "%s%s%s\n", load.name, load.basis.empty() ? "" : "  ", load.basis);
  for (const FigureChange& figure : load.figures) {
    absl::StrAppendFormat(text, "%-14s %14s %14s %10s   %-24s%s\n", figure.name, FigureText(figure.before),
                          FigureText(figure.after), ChangeText(figure.change), IntervalText(figure),
                          figure.is_certain() ? " *" : "");
  }
  for (const LoadChange& of : load.classes) AppendLoad(of, text);
}

// NaN is written as null.
Json LoadJson(const LoadChange& load) {
  Json figures = Json::array();
  for (const FigureChange& of : load.figures) {
    figures.push_back({{"name", of.name},
                       {"before", of.before},
                       {"after", of.after},
                       {"change", of.change},
                       {"low", of.low},
                       {"high", of.high}});
  }
  Json classes = Json::array();
  for (const LoadChange& of : load.classes) classes.push_back(LoadJson(of));
  return {{"name", load.name}, {"basis", load.basis}, {"figures", figures}, {"classes", classes}};
}

}  // namespace

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
  Json document;
  document["schema"] = 1;
  document["tool"] = {{"version", Version()}, {"commit", Commit()}, {"command", command}};
  document["date"] = absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(), absl::UTCTimeZone());
  Json& to = document["comparison"];
  to = {{"differences", Json::array()},
        {"loads", Json::array()},
        {"notes", comparison.notes},
        {"verdicts", Json::array()}};
  for (const Difference& of : comparison.differences) {
    to["differences"].push_back({{"what", of.what}, {"before", of.before}, {"after", of.after}});
  }
  for (const LoadChange& load : comparison.loads) to["loads"].push_back(LoadJson(load));
  for (const RuleVerdict& of : comparison.verdicts) {
    to["verdicts"].push_back({{"text", of.text}, {"failed", of.failed}});
  }
  return document.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace softmax::client

#include "client/loadgen/report/html/html_report.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_replace.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "client/loadgen/report/html/page_parts.h"

namespace softmax::client {
namespace {

// Keeps the members in their order: settings are shown as they stand there.
using json = nlohmann::ordered_json;

constexpr int kMostDepth = 64;

absl::StatusOr<json> ParseResults(std::string_view text) {
  bool too_deep = false;
  const auto choose = [&](int depth, json::parse_event_t event, json& parsed) {
    too_deep |= depth > kMostDepth;
    // Most of the bytes, and nothing is drawn of them.
    return !too_deep && !(event == json::parse_event_t::key && parsed == "histogram");
  };
  json results = json::parse(text, choose, /*allow_exceptions=*/false);
  if (too_deep) return absl::InvalidArgumentError(absl::StrCat("results: nested deeper than ", kMostDepth));
  if (results.is_discarded()) return absl::InvalidArgumentError("results: not valid JSON");
  if (!results.is_object()) return absl::InvalidArgumentError("results: not a JSON object");
  if (!results.contains("schema") || results["schema"] != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("results: schema is ",
                     results.contains("schema") ? results["schema"].dump(-1, ' ', true) : "missing", ", want 1"));
  }
  if (results.contains("comparison") && results["comparison"].is_object()) return results;
  const auto runs = results.find("runs");
  const bool has_runs = runs != results.end() && runs->is_array() && !runs->empty() &&
                        std::all_of(runs->begin(), runs->end(), [](const json& run) { return run.is_object(); });
  if (!has_runs) return absl::InvalidArgumentError("results: runs is not an array of at least one object");
  return results;
}

// Inside a script element only "</script" and "<!--" end or change it; without any '<' there is neither. JSON allows
// each character as \u and the page's script reads it back the same.
std::string ForScript(const json& results) {
  return absl::StrReplaceAll(results.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace),
                             {{"<", "\\u003c"}, {">", "\\u003e"}, {"&", "\\u0026"}});
}

std::string ForText(const std::string& text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

std::string Title(const json& results) {
  const json target = results.value("/settings/address"_json_pointer, json());
  if (results.contains("comparison")) return "Before and after";
  if (!target.is_string()) return "softmax-loadgen";
  return ForText(absl::StrCat("Load on ", target.get<std::string>()));
}

}  // namespace

absl::StatusOr<std::string> HtmlReport(std::string_view results_json) {
  const absl::StatusOr<json> results = ParseResults(results_json);
  if (!results.ok()) return results.status();
  // One pass: what is filled in is not searched again.
  return absl::StrReplaceAll(page::Skeleton(), {{"@TITLE@", Title(*results)},
                                                {"@STYLE@", page::Style()},
                                                {"@RESULTS@", ForScript(*results)},
                                                {"@SCRIPT@", page::Script()}});
}

}  // namespace softmax::client

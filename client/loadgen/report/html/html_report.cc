#include "client/loadgen/report/html/html_report.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_replace.h>

#include <nlohmann/json.hpp>

namespace softmax::client {

// The files of page/, which the build makes a source of.
namespace page {
const char* Skeleton();  // page.html, with @TITLE@, @STYLE@, @RESULTS@ and @SCRIPT@ to fill in
const char* Style();
const char* Script();
}  // namespace page

namespace {

// Keeps the members in their order: settings are shown as they stand there.
using json = nlohmann::ordered_json;

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

std::string HtmlReport(const std::string& results_json) {
  // Most of the bytes are of histograms, and nothing is drawn of them.
  const auto is_drawn = [](int /*depth*/, json::parse_event_t event, const json& parsed) {
    return event != json::parse_event_t::key || parsed != "histogram";
  };
  const json results = json::parse(results_json, is_drawn);
  // One pass: what is filled in is not searched again.
  return absl::StrReplaceAll(page::Skeleton(), {{"@TITLE@", Title(results)},
                                                {"@STYLE@", page::Style()},
                                                {"@RESULTS@", ForScript(results)},
                                                {"@SCRIPT@", page::Script()}});
}

}  // namespace softmax::client

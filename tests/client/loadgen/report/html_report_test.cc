#include "client/loadgen/report/html/html_report.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

namespace softmax::client {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Fixture() {
  std::ifstream file(SOFTMAX_HTML_FIXTURE, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The results as a browser reads them out of the page.
json Embedded(const std::string& page) {
  const std::string open = "<script type=\"application/json\" id=\"results\">";
  const std::size_t begin = page.find(open) + open.size();
  return json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

std::size_t CountOf(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

std::string Page(const json& results) {
  absl::StatusOr<std::string> page = HtmlReport(results.dump(-1, ' ', false, json::error_handler_t::ignore));
  EXPECT_TRUE(page.ok()) << page.status();
  return page.ok() ? *page : "";
}

json Smallest() { return {{"schema", 1}, {"runs", {{{"name", "one"}}}}}; }

TEST(HtmlReport, HoldsAllOfTheResults) {
  const std::string fixture = Fixture();
  const absl::StatusOr<std::string> page = HtmlReport(fixture);
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(Embedded(*page), json::parse(fixture));
  EXPECT_THAT(*page, HasSubstr("<title>Load on 127.0.0.1:50051</title>"));
}

TEST(HtmlReport, IsFilledInCompletely) {
  const std::string page = Page(Smallest());
  for (const char* placeholder : {"@TITLE@", "@STYLE@", "@RESULTS@", "@SCRIPT@"}) {
    EXPECT_THAT(page, Not(HasSubstr(placeholder)));
  }
  EXPECT_THAT(page, HasSubstr("color-scheme: light dark;"));
  EXPECT_THAT(page, HasSubstr("function showRun"));
}

TEST(HtmlReport, AsksForNothingOutsideItself) {
  const std::string page = *HtmlReport(Fixture());
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  for (const char* outside : {"src=", "@import", "url(", "fetch(", "<link rel=\"stylesheet\"", "https://"}) {
    EXPECT_THAT(page, Not(HasSubstr(outside)));
  }
}

TEST(HtmlReport, HostileNamesStayInsideTheirString) {
  const std::string hostile = "</script><b>&amp;<!--<script> \" ' \\ \xe2\x80\xa8 @SCRIPT@";
  json results = Smallest();
  results["runs"][0]["name"] = hostile;
  results["settings"][hostile] = hostile;
  results["settings"]["address"] = hostile;
  const std::string page = Page(results);
  const std::string plain = Page(Smallest());
  EXPECT_EQ(CountOf(page, "</script>"), CountOf(plain, "</script>"));
  EXPECT_EQ(CountOf(page, "<script"), CountOf(plain, "<script"));
  EXPECT_EQ(CountOf(page, "<b>"), CountOf(plain, "<b>"));
  EXPECT_EQ(CountOf(page, "<!--"), CountOf(plain, "<!--"));
  EXPECT_EQ(CountOf(page, "function showRun"), 1u) << "a name was taken for a placeholder";
  EXPECT_EQ(Embedded(page), results);
}

struct Refused {
  std::string text;
  std::string why;
};

TEST(HtmlReport, SaysWhatIsWrongWithTheResults) {
  const Refused cases[] = {
      {"", "not valid JSON"},
      {"{\"schema\":1,", "not valid JSON"},
      {"{\"schema\":1,\"runs\":[{\"x\":1e999}]}", "not valid JSON"},
      {"{\"schema\":1,\"runs\":[{\"name\":\"\xff\xfe\"}]}", "not valid JSON"},  // not UTF-8
      {R"({"schema":1,"runs":[{"name":"\ud800"}]})", "not valid JSON"},         // half a surrogate pair
      {"[]", "not a JSON object"},
      {"{}", "schema is missing, want 1"},
      {R"({"schema":2,"runs":[{}]})", "schema is 2, want 1"},
      {R"({"schema":"1","runs":[{}]})", "schema is \"1\", want 1"},
      {R"({"schema":1})", "runs is not an array"},
      {R"({"schema":1,"runs":[]})", "runs is not an array of at least one"},
      {R"({"schema":1,"runs":[1]})", "runs is not an array of at least one object"},
      {absl::StrCat(R"({"schema":1,"runs":)", std::string(100'000, '[')), "nested deeper than 64"},
  };
  for (const Refused& refused : cases) {
    const absl::StatusOr<std::string> page = HtmlReport(refused.text);
    ASSERT_FALSE(page.ok()) << refused.text.substr(0, 80);
    EXPECT_EQ(page.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(page.status().message()), HasSubstr(refused.why));
  }
}

TEST(HtmlReport, UnknownMembersAreKept) {
  json results = Smallest();
  results["runs"][0]["tomorrow"] = {{"depth", {1, 2, 3}}};
  results["settings"] = 7;  // not even of the right type
  EXPECT_EQ(Embedded(Page(results)), results);
}

}  // namespace
}  // namespace softmax::client

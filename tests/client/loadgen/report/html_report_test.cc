#include "client/loadgen/report/html/html_report.h"

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
  return HtmlReport(results.dump(-1, ' ', false, json::error_handler_t::ignore));
}

json Smallest() { return {{"schema", 1}, {"runs", {{{"name", "one"}}}}}; }

TEST(HtmlReport, HoldsAllOfTheResults) {
  const std::string fixture = Fixture();
  const std::string page = HtmlReport(fixture);
  EXPECT_EQ(Embedded(page), json::parse(fixture));
  EXPECT_THAT(page, HasSubstr("<title>Load on 127.0.0.1:50051</title>"));
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
  const std::string page = HtmlReport(Fixture());
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

TEST(HtmlReport, UnknownMembersAreKept) {
  json results = Smallest();
  results["runs"][0]["tomorrow"] = {{"depth", {1, 2, 3}}};
  results["settings"] = 7;  // not even of the right type
  EXPECT_EQ(Embedded(Page(results)), results);
}

}  // namespace
}  // namespace softmax::client

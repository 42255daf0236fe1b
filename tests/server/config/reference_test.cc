#include <absl/strings/ascii.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_replace.h>
#include <absl/strings/str_split.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "server/config/flags.h"

// What users are told in docs/reference.md, in the tables of "Flags of softmax-server", holds.
namespace softmax::server {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

struct Row {
  std::string name;  // of the flag, without dashes
  std::string values;
  std::string unset;  // the default
};

std::vector<Row> Documented() {
  std::ifstream file(SOFTMAX_REFERENCE);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t begin = text.find("\n## Flags of softmax-server\n");
  std::vector<Row> rows;
  std::istringstream section(text.substr(begin, text.find("\n## ", begin + 1) - begin));
  for (std::string line; std::getline(section, line);) {
    if (!line.starts_with("| `--")) continue;
    std::vector<std::string> cells = absl::StrSplit(line, '|');
    for (std::string& cell : cells) absl::StripAsciiWhitespace(&cell);
    rows.push_back({cells[1].substr(3, cells[1].size() - 4), cells[2], cells[3]});
  }
  return rows;
}

// "COUNT in [1 - 8]" for "1 to 8"; a switch of the command line takes no value.
std::string HelpFor(const Row& row) {
  if (row.values.empty()) return "";
  const std::vector<std::string> ends = absl::StrSplit(row.values, " to ");
  const std::string kind = ends.size() == 2                             ? "COUNT in [" + ends[0] + " - " + ends[1] + "]"
                           : row.values.find(", ") != std::string::npos ? absl::StrReplaceAll(row.values, {{", ", "|"}})
                                                                        : absl::AsciiStrToUpper(row.values);
  return " " + kind + "=" + row.unset;
}

TEST(Reference, TellsEachFlagWithTheValuesAndTheDefaultThatHelpHas) {
  const char* const argv[] = {"softmax-server", "--help"};
  Config config;
  Actions actions;
  ASSERT_EQ(ApplyCommandLine(2, argv, &config, &actions), "");
  const std::string help = absl::StrReplaceAll(actions.told.value(), {{"\n", " \n"}});
  std::vector<std::string> names;
  for (const Row& row : Documented()) {
    names.push_back(row.name);
    EXPECT_THAT(help, HasSubstr("\n  --" + row.name + HelpFor(row) + " "));
  }
  EXPECT_THAT(names, ::testing::UnorderedElementsAreArray(FlagNames()));
}

TEST(Reference, CountsAreTakenFromTheirLeastToTheirMostAndNoFurther) {
  int counts = 0;
  const auto apply = [](const Row& row, std::uint64_t value) {
    Config config;
    return ApplyValues(row.name, {std::to_string(value)}, ConfigSource::kFile, &config);
  };
  for (const Row& row : Documented()) {
    const std::vector<std::string> ends = absl::StrSplit(row.values, " to ");
    std::uint64_t least = 0;
    std::uint64_t most = 0;
    if (ends.size() != 2 || !absl::SimpleAtoi(ends[0], &least) || !absl::SimpleAtoi(ends[1], &most)) continue;
    ++counts;
    EXPECT_EQ(apply(row, least), "") << row.name;
    EXPECT_EQ(apply(row, most), "") << row.name;
    EXPECT_THAT(apply(row, most + 1), EndsWith(row.values)) << row.name;
    if (least == 0) continue;
    EXPECT_THAT(apply(row, least - 1), EndsWith(row.values)) << row.name;
  }
  EXPECT_GT(counts, 15);
}

}  // namespace
}  // namespace softmax::server

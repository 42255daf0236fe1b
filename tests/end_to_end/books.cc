#include "tests/end_to_end/books.h"

#include <gtest/gtest.h>

#include <sstream>

#include "client/loadgen/scrape/http_get.h"
#include "tests/support/eventually.h"

namespace softmax::testing {
namespace {

// Not the blocks that messages arrive in: clients in the same process have theirs there, and threads keep some.
constexpr const char* kBooks[] = {"softmax_requests_in_flight",     "softmax_requests_queued",
                                  "softmax_queued_bytes",           "softmax_unread_bytes",
                                  R"(softmax_slabs{state="used"})", R"(softmax_slabs{state="held_by_answers"})",
                                  "softmax_device_in_flight_bytes", "softmax_regions{",
                                  "softmax_region_bytes",           "softmax_region_connections"};

absl::StatusOr<std::string> MetricsOf(const std::string& address) {
  const auto location = client::ParseHttpLocation(address, "/metrics");
  if (!location.ok()) return location.status();
  return client::HttpGet(*location, {});
}

}  // namespace

Books BooksOf(const std::string& metrics_address) {
  Books books;
  const absl::StatusOr<std::string> text = MetricsOf(metrics_address);
  if (!text.ok()) return books;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    for (const std::string series : kBooks) {
      if (line.starts_with(series)) books[line.substr(0, line.rfind(' '))] = line.substr(line.rfind(' ') + 1);
    }
  }
  return books;
}

void ExpectBooksAsBefore(const Books& before, const std::string& metrics_address) {
  Books left;
  const bool none = Eventually([&] {
    left = BooksOf(metrics_address);
    std::erase_if(left, [&](const auto& entry) {
      return before.contains(entry.first) && before.at(entry.first) == entry.second;
    });
    return left.empty();
  });
  if (!none) ADD_FAILURE() << "left behind: " << ::testing::PrintToString(left);
}

std::string MetricOf(const std::string& address, const std::string& series) {
  const absl::StatusOr<std::string> text = MetricsOf(address);
  EXPECT_TRUE(text.ok()) << text.status();
  if (!text.ok()) return "";
  const std::size_t at = text->find("\n" + series);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + 1 + series.size();
  return text->substr(begin, text->find('\n', begin) - begin);
}

}  // namespace softmax::testing

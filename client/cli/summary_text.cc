#include "client/cli/summary_text.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_split.h>

#include "client/base/file.h"
#include "client/base/program.h"
#include "kernels/reference.h"

namespace softmax::client {
namespace {

constexpr std::size_t kMostLabelBytes = std::size_t{1} << 30;

double Element(DataType dtype, std::span<const std::byte> bytes, std::size_t index) {
  return kernels::LoadElement(static_cast<kernels::DataType>(dtype), bytes.data(), static_cast<std::int64_t>(index));
}

// So many digits that floats and 16-bit values are told apart, and doubles.
std::string Number(double value, bool is_double) {
  return is_double ? absl::StrFormat("%.17g", value) : absl::StrFormat("%.9g", value);
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ReadLabels(const std::string& path) {
  if (path.empty()) return std::vector<std::string>();
  absl::StatusOr<std::string> text = ReadFile(path, kMostLabelBytes);
  if (!text.ok()) return text.status();
  std::vector<std::string> lines = absl::StrSplit(*text, '\n');
  if (lines.back().empty()) lines.pop_back();
  for (std::string& line : lines) {
    if (line.ends_with('\r')) line.pop_back();
    line = Visible(line);
  }
  return lines;
}

std::vector<std::int32_t> IndicesOf(const CliOptions& options, std::size_t rows) {
  std::vector<std::int32_t> indices;
  for (std::size_t row = 0; row < rows; ++row) indices.insert(indices.end(), options.at.begin(), options.at.end());
  return indices;
}

std::string SummaryText(const CliOptions& options, const Summary& summary, std::size_t rows, bool is_double,
                        const std::vector<std::string>& labels) {
  std::string text;
  const bool values_double = summary.dtype() == DataType::kFloat64;
  const auto element = [&](std::size_t row, std::int32_t index, Summary::Part part, std::size_t place) {
    absl::StrAppend(&text, row, "\t", index, "\t",
                    Number(Element(summary.dtype(), summary.bytes(part), place), values_double));
    const auto label = static_cast<std::size_t>(index);
    if (index >= 0 && label < labels.size()) absl::StrAppend(&text, "\t", labels[label]);
    text += '\n';
  };
  const auto number = [&](std::size_t row, const char* name, Summary::Part part) {
    const DataType dtype = is_double ? DataType::kFloat64 : DataType::kFloat32;
    absl::StrAppend(&text, row, "\t", name, "\t", Number(Element(dtype, summary.bytes(part), row), is_double), "\n");
  };
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < options.top; ++i) {
      const std::size_t place = row * options.top + i;
      element(row, summary.top_indices()[place], Summary::kTopValues, place);
    }
    for (std::size_t i = 0; i < options.at.size(); ++i) {
      element(row, options.at[i], Summary::kValuesAt, row * options.at.size() + i);
    }
    if (options.log_sum_exp) {
      number(row, "log_sum_exp", Summary::kLogSumExp);
      number(row, "maximum", Summary::kMaximum);
    }
    if (options.entropy) number(row, "entropy", Summary::kEntropy);
  }
  return text;
}

}  // namespace softmax::client

#include "client/cli/text.h"

#include <charconv>
#include <optional>

namespace softmax::client {
namespace {

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\r'; }

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && IsSpace(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
  return text;
}

std::optional<double> Number(std::string_view text) {
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Takes the next field off a line that is not empty.
std::string_view TakeField(std::string_view* line, Separator separator) {
  std::size_t end = 0;
  while (end < line->size() && !(separator == Separator::kComma ? (*line)[end] == ',' : IsSpace((*line)[end]))) {
    ++end;
  }
  const std::string_view field = Trimmed(line->substr(0, end));
  line->remove_prefix(end);
  if (separator == Separator::kSpace) *line = Trimmed(*line);
  return field;
}

absl::Status AtLine(std::size_t line, const std::string& what) {
  return absl::InvalidArgumentError("line " + std::to_string(line) + ": " + what);
}

// Appends a line's numbers.
absl::Status ReadLine(std::string_view line, std::size_t number, Separator separator, std::vector<double>* values) {
  for (;;) {
    const std::string_view field = TakeField(&line, separator);
    const auto value = Number(field);
    if (!value) {
      return AtLine(number, "'" + std::string(field.substr(0, 40)) + "' is not a number");
    }
    values->push_back(*value);
    if (line.empty()) return absl::OkStatus();
    if (separator == Separator::kComma) line.remove_prefix(1);
  }
}

template <typename T>
void AppendNumber(T value, std::string* out) {
  char text[64];
  const auto [end, error] = std::to_chars(text, text + sizeof(text), value);
  out->append(text, error == std::errc() ? end : text);
}

}  // namespace

absl::StatusOr<Array> ReadRows(std::string_view text, Separator separator) {
  std::vector<double> values;
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t line_number = 0;
  while (!text.empty()) {
    ++line_number;
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = Trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    const std::size_t before = values.size();
    const absl::Status read = ReadLine(line, line_number, separator, &values);
    if (!read.ok()) return read;
    const std::size_t found = values.size() - before;
    if (rows == 0) columns = found;
    if (found != columns) {
      return AtLine(line_number,
                    std::to_string(found) + " numbers, but the rows above have " + std::to_string(columns));
    }
    ++rows;
  }
  if (rows == 0) return absl::InvalidArgumentError("there are no numbers in it");
  return FromValues(values, {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns)}, DataType::kFloat64);
}

std::string WriteRows(const Array& array, Separator separator) {
  std::string out;
  const std::int64_t columns = array.shape.empty() ? 1 : array.shape.back();
  const std::int64_t count = CountOf(array);
  for (std::int64_t i = 0; i < count; ++i) {
    const double value = ElementAt(array, i);
    if (array.dtype == DataType::kFloat64) {
      AppendNumber(value, &out);
    } else {
      AppendNumber(static_cast<float>(value), &out);
    }
    const bool row_ends = (i + 1) % columns == 0;
    out += row_ends ? '\n' : separator == Separator::kComma ? ',' : ' ';
  }
  return out;
}

}  // namespace softmax::client

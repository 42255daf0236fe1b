#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "client/base/program.h"
#include "client/cli/formats.h"
#include "common/base/text_file.h"
#include "common/base/trimmed.h"

namespace softmax::client {
namespace {

constexpr std::string_view kSpaces = " \t";

// Takes the next line, which ends with LF, CRLF or CR, without its comment: numpy.savetxt begins its header with '#'.
std::string_view TakeLine(std::string_view* text) {
  const std::size_t end = std::min(text->find_first_of("\r\n"), text->size());
  const std::string_view line = text->substr(0, end);
  text->remove_prefix(end);
  text->remove_prefix(text->starts_with("\r\n") ? 2 : text->empty() ? 0 : 1);
  return Trimmed(line.substr(0, line.find('#')), kSpaces);
}

absl::Status AtLine(std::size_t line, const std::string& what) {
  return absl::InvalidArgumentError("line " + std::to_string(line) + ": " + what);
}

// Too small for a double is 0. Too large below zero is what masks are written with: minus infinity. Too large above it
// would make the whole row NaN.
absl::StatusOr<double> BeyondDouble(std::string_view text, std::size_t line) {
  const double value = std::strtod(std::string(text).c_str(), nullptr);
  if (std::isfinite(value) || value < 0) return value;
  return AtLine(line, "'" + Visible(text.substr(0, 40)) + "' is too large for a number; inf is infinity");
}

absl::StatusOr<double> Number(std::string_view field, std::size_t line) {
  std::string_view text = field;
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc::invalid_argument || stop != end) {
    return AtLine(line, "'" + Visible(field.substr(0, 40)) + "' is not a number");
  }
  return error == std::errc() ? absl::StatusOr<double>(value) : BeyondDouble(text, line);
}

// Takes the next field off a line that is not empty.
std::string_view TakeField(std::string_view* line, Separator separator) {
  const std::size_t end = std::min(line->find_first_of(separator == Separator::kComma ? "," : kSpaces), line->size());
  const std::string_view field = Trimmed(line->substr(0, end), kSpaces);
  line->remove_prefix(end);
  if (separator == Separator::kSpace) *line = Trimmed(*line, kSpaces);
  return field;
}

// Appends a line's numbers.
absl::Status ReadLine(std::string_view line, std::size_t number, Separator separator, std::vector<double>* values) {
  for (;;) {
    const auto value = Number(TakeField(&line, separator), number);
    if (!value.ok()) return value.status();
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

Separator GuessSeparator(std::string_view text) {
  while (!text.empty()) {
    if (TakeLine(&text).find(',') != std::string_view::npos) return Separator::kComma;
  }
  return Separator::kSpace;
}

absl::StatusOr<Array> ReadRows(std::string_view bytes, Separator separator) {
  std::string_view text = bytes;
  if (const std::string why = TakeMark(&text); !why.empty()) return absl::InvalidArgumentError(why);
  std::vector<double> values;
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t line_number = 0;
  while (!text.empty()) {
    ++line_number;
    const std::string_view line = TakeLine(&text);
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

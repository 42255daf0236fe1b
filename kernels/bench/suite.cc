#include "kernels/bench/suite.h"

#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>

#include "kernels/bench/built_in.h"
#include "kernels/operations.h"

namespace softmax::kernels::bench {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 40;

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

std::optional<std::int64_t> ParseNumber(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > kMostElements) {
    return std::nullopt;
  }
  return value;
}

struct Range {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

std::optional<Range> ParseRange(const std::string& text) {
  const std::size_t dots = text.find("..");
  if (dots == std::string::npos) return std::nullopt;
  const auto first = ParseNumber(text.substr(0, dots));
  const auto last = ParseNumber(text.substr(dots + 2));
  if (!first || !last || *last < *first) return std::nullopt;
  return Range{*first, *last};
}

// One item of the N column.
struct Widths {
  std::vector<std::int64_t> cols;
  std::int64_t least_cols = 0;  // a ragged point
};

std::optional<Widths> ParseDrawn(const std::string& text, std::size_t tilde, const SuiteSettings& settings) {
  const auto range = ParseRange(text.substr(tilde + 1));
  if (!range) return std::nullopt;
  if (tilde == 0) return Widths{{range->last}, range->first};
  const auto count = ParseNumber(text.substr(0, tilde));
  if (!count || *count > 10000) return std::nullopt;
  Random random(settings.seed);
  Widths widths;
  for (std::int64_t i = 0; i < *count; ++i) widths.cols.push_back(random.LogUniform(range->first, range->last));
  return widths;
}

std::optional<Widths> ParseStepped(const std::string& text) {
  const std::size_t sign = text.find_first_of(":*");
  const auto range = ParseRange(text.substr(0, sign));
  if (!range) return std::nullopt;
  const bool times = sign != std::string::npos && text[sign] == '*';
  const auto step = sign == std::string::npos ? std::optional<std::int64_t>(1) : ParseNumber(text.substr(sign + 1));
  if (!step || (times && *step < 2)) return std::nullopt;
  Widths widths;
  for (std::int64_t n = range->first; n <= range->last; n = times ? n * *step : n + *step) widths.cols.push_back(n);
  return widths;
}

std::optional<Widths> ParseWidths(const std::string& text, const SuiteSettings& settings) {
  const std::size_t tilde = text.find('~');
  if (tilde != std::string::npos) return ParseDrawn(text, tilde, settings);
  if (text.find("..") != std::string::npos) return ParseStepped(text);
  const auto number = ParseNumber(text);
  if (!number) return std::nullopt;
  return Widths{{*number}, 0};
}

// Reads one line into its points.
class Line {
 public:
  Line(std::vector<std::string> words, const SuiteSettings& settings) : words_(std::move(words)), settings_(settings) {}

  std::string AppendTo(std::vector<Point>* points) {
    if (words_.size() < 5 || words_.size() > 6) return "expected: section dtype op M N [layout]";
    for (const std::string& dtype : Split(words_[1], ',')) {
      for (const std::string& operation : Split(words_[2], ',')) {
        if (std::string problem = AppendTypes(dtype, operation, points); !problem.empty()) return problem;
      }
    }
    return "";
  }

 private:
  std::string AppendTypes(const std::string& dtype, const std::string& operation, std::vector<Point>* points) {
    Point point;
    point.section = words_[0];
    const auto types = ParseTypes(dtype);
    if (!types) return "dtype " + dtype + " is none of fp32, fp16, bf16, fp64, nor two with >";
    if (words_[0].starts_with("host_") && types->first != types->second) {
      return "dtype " + dtype + ": " + words_[0] + " has input and output of one type";
    }
    if (!ParseOperation(operation, &point)) {
      return "op " + operation + " is not " + OperationNames(" or ") + ", alone or with +top1 to +top1024";
    }
    point.dtype = types->first;
    point.output_dtype = types->second;
    for (const std::string& item : Split(words_[4], ',')) {
      const auto widths = ParseWidths(item, settings_);
      if (!widths) return "N " + item + " is not a width, A..B, A..B:STEP, A..B*FACTOR, COUNT~A..B or ~A..B";
      point.least_cols = widths->least_cols;
      for (const std::int64_t cols : widths->cols) {
        point.cols = cols;
        if (std::string problem = AppendRows(point, points); !problem.empty()) return problem;
      }
    }
    return "";
  }

  std::string AppendRows(Point point, std::vector<Point>* points) {
    for (const std::string& item : Split(words_[3], ',')) {
      const std::int64_t row_bytes = point.cols * static_cast<std::int64_t>(SizeOf(point.dtype));
      const auto rows = item == "fill" ? std::max<std::int64_t>(1, settings_.tensor_bytes / row_bytes)
                                       : ParseNumber(item).value_or(0);
      if (rows == 0) return "M " + item + " is neither a number of rows nor fill";
      if (rows > kMostElements / point.cols) return "M " + item + " with so wide rows is too large";
      point.rows = rows;
      if (std::string problem = SetLayout(&point); !problem.empty()) return problem;
      points->push_back(point);
    }
    return "";
  }

  std::string SetLayout(Point* point) {
    if (point->top_k > 0 && (point->ragged() || words_.size() > 5)) return "op with +top: of dense rows alone";
    if (words_.size() == 5) return "";
    const std::string& layout = words_[5];
    if (point->ragged()) return "layout " + layout + ": rows with widths of their own are dense";
    if (layout[0] == '<') {
      const auto lengths = ParseLengths(layout.substr(1));
      if (!lengths) return "layout " + layout + ": lengths are <full, <half, <eighth or <drawn";
      point->lengths = *lengths;
    } else if (layout[0] == '+') {
      const auto gap = ParseNumber(layout.substr(1));
      if (!gap) return "layout " + layout + " is not a gap between rows";
      point->stride = point->cols + *gap;
    } else if (layout[0] == '/') {
      const auto segments = ParseNumber(layout.substr(1));
      if (!segments || point->rows % *segments != 0) return "layout " + layout + " does not divide M";
      point->segments = *segments;
    } else if (const std::size_t comma = layout.find(','); comma != std::string::npos) {
      const auto outer = ParseNumber(layout.substr(0, comma));
      const auto inner = ParseNumber(layout.substr(comma + 1));
      if (!outer || !inner || *outer * *inner != point->rows) return "layout " + layout + ": outer * inner is not M";
      point->inner = *inner;
    } else {
      const auto stride = ParseNumber(layout);
      if (!stride || *stride < point->cols) return "layout " + layout + " is not a row stride of N or more";
      point->stride = *stride;
    }
    return "";
  }

  std::vector<std::string> words_;
  const SuiteSettings& settings_;
};

}  // namespace

std::string ParseSuite(const std::string& text, const SuiteSettings& settings, std::vector<Point>* points) {
  int number = 0;
  for (const std::string& line : Split(text, '\n')) {
    ++number;
    std::istringstream stream(line.substr(0, line.find('#')));
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word);
    if (words.empty()) continue;
    const std::string problem = Line(std::move(words), settings).AppendTo(points);
    if (!problem.empty()) return "line " + std::to_string(number) + ": " + problem;
  }
  return "";
}

std::string LoadSuite(const std::string& name_or_file, std::string* text) {
  if (const auto built_in = BuiltInSuite(name_or_file)) {
    *text = *built_in;
    return "";
  }
  std::ifstream file(name_or_file);
  if (!file) return "neither a suite (" + BuiltInNames() + ") nor a file that can be read";
  *text = std::string(std::istreambuf_iterator<char>(file), {});
  return "";
}

std::string Describe(const Point& point) {
  std::string layout;
  if (point.masked()) {
    layout = std::string(" <") + NameOf(point.lengths);
  } else if (point.ragged()) {
    layout = " ~" + std::to_string(point.least_cols);
  } else if (point.segments > 1) {
    layout = " /" + std::to_string(point.segments);
  } else if (point.inner > 1) {
    layout = " " + std::to_string(point.outer()) + "," + std::to_string(point.inner);
  } else if (point.stride != 0) {
    layout = " " + std::to_string(point.stride);
  }
  return point.section + " " + TypesOf(point) + " " + OperationOf(point) + " " + std::to_string(point.rows) + " " +
         std::to_string(point.cols) + layout;
}

}  // namespace softmax::kernels::bench

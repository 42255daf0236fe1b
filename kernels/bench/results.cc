#include "kernels/bench/results.h"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <sstream>

namespace softmax::kernels::bench {
namespace {

constexpr int kKeyColumns = 6;
constexpr int kRatioColumn = 9;

std::string Number(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

std::vector<std::string> Columns(const std::string& line) {
  std::vector<std::string> columns;
  std::istringstream stream(line);
  for (std::string column; std::getline(stream, column, ',');) columns.push_back(column);
  return columns;
}

bool HasRatio(const std::vector<std::string>& columns) {
  return columns.size() > kRatioColumn && !columns[kRatioColumn].empty();
}

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c == '\n' ? ' ' : c;
  }
  return quoted + "\"";
}

}  // namespace

std::string CsvRow(const Result& result) {
  const std::string key = Key(result.point, result.provider);
  if (!result.error.empty()) return key + ",,,,,,";
  return key + "," + Number("%.3f", result.us) + "," + Number("%.2f", result.gbps) + "," +
         Number("%.2f", result.ceiling_gbps) + "," + Number("%.4f", result.gbps / result.ceiling_gbps) + "," +
         std::to_string(result.samples) + "," + result.mode;
}

std::set<std::string> KeysOf(const std::string& csv) {
  std::set<std::string> keys;
  std::istringstream stream(csv);
  for (std::string line; std::getline(stream, line);) {
    const std::vector<std::string> columns = Columns(line);
    if (line == kCsvHeader || !HasRatio(columns)) continue;
    std::string key = columns[0];
    for (int i = 1; i < kKeyColumns; ++i) key += "," + columns[i];
    keys.insert(key);
  }
  return keys;
}

std::string WithoutFailures(const std::string& csv) {
  std::string kept;
  std::istringstream stream(csv);
  for (std::string line; std::getline(stream, line);) {
    if (line == kCsvHeader || HasRatio(Columns(line))) kept += line + "\n";
  }
  return kept;
}

std::string ResultFile::Open(const std::string& path, bool resume) {
  std::string before;
  if (path.empty()) {
    std::cout << kCsvHeader << std::endl;
    return "";
  }
  if (resume) {
    std::ifstream old(path);
    before = std::string(std::istreambuf_iterator<char>(old), {});
    if (!before.empty() && before.rfind(kCsvHeader, 0) != 0) return path + " has other columns than these results";
    keys_ = KeysOf(before);
  }
  file_.open(path, std::ios::trunc);
  file_ << (before.empty() ? std::string(kCsvHeader) + "\n" : WithoutFailures(before)) << std::flush;
  return file_ ? "" : path + " cannot be written";
}

void ResultFile::Add(const Result& result) {
  (file_.is_open() ? static_cast<std::ostream&>(file_) : std::cout) << CsvRow(result) << std::endl;
}

std::string WriteJson(const std::string& path, const std::string& device, const std::vector<Result>& results) {
  std::ofstream file(path);
  file << "[";
  const char* separator = "\n";
  for (const Result& r : results) {
    file << separator << "{\"device\": " << Quoted(device) << ", \"section\": " << Quoted(r.point.section)
         << ", \"dtype\": " << Quoted(TypesOf(r.point)) << ", \"op\": " << Quoted(OperationOf(r.point))
         << ", \"M\": " << r.point.rows << ", \"N\": " << r.point.cols << ", \"provider\": " << Quoted(r.provider);
    if (r.error.empty()) {
      file << ", \"us\": " << Number("%.3f", r.us) << ", \"GBps\": " << Number("%.2f", r.gbps)
           << ", \"ceiling_GBps\": " << Number("%.2f", r.ceiling_gbps)
           << ", \"ratio\": " << Number("%.4f", r.gbps / r.ceiling_gbps) << ", \"samples\": " << r.samples
           << ", \"mode\": " << Quoted(r.mode);
    } else {
      file << ", \"error\": " << Quoted(r.error);
    }
    file << "}";
    separator = ",\n";
  }
  file << "\n]\n" << std::flush;
  return file ? "" : path + " cannot be written";
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace softmax::kernels::bench

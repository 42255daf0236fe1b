#include "client/loadgen/report.h"

#include <algorithm>
#include <memory>

namespace softmax::client {
namespace {

LatencyFigures Figures(const Histogram& latency, std::uint64_t bytes, double seconds) {
  LatencyFigures figures;
  figures.calls = latency.Count();
  figures.calls_per_second = seconds > 0 ? static_cast<double>(figures.calls) / seconds : 0;
  figures.gigabytes_per_second = seconds > 0 ? static_cast<double>(bytes) / seconds / 1e9 : 0;
  const auto us = [&](double quantile) { return static_cast<double>(latency.Quantile(quantile)) / 1e3; };
  figures.p50_us = us(0.5);
  figures.p90_us = us(0.9);
  figures.p99_us = us(0.99);
  figures.p999_us = us(0.999);
  figures.max_us = static_cast<double>(latency.Max()) / 1e3;
  return figures;
}

void AddThread(const ThreadTally& thread, Report* report) {
  for (std::size_t code = 0; code < kCodes; ++code) {
    const std::uint64_t count = thread.errors[code].load();
    report->errors[code] += count;
    report->error_count += count;
  }
  if (report->first_error.empty()) report->first_error = thread.first_error.Get();
}

void AddProcess(const ProcessTally& process, double seconds, Report* report) {
  report->verified += process.verified.load();
  report->judged += process.judged.load();
  report->wrong += process.wrong.load();
  if (report->first_wrong.empty()) report->first_wrong = process.first_wrong.Get();
  if (seconds > 0) {
    report->generator_cores += static_cast<double>(process.cpu_ns.load()) / 1e9 / seconds;
  }
}

}  // namespace

Report MakeReport(const LoadOptions& options, const Board& board) {
  Report report;
  const Control& control = board.control();
  report.seconds = std::max(0.0, static_cast<double>(control.end_ns.load() - control.start_ns.load()) / 1e9);
  const auto all = std::make_unique<Histogram>();
  std::uint64_t all_bytes = 0;
  for (std::size_t s = 0; s < options.shapes.size(); ++s) {
    const auto latency = std::make_unique<Histogram>();
    std::uint64_t bytes = 0;
    for (int p = 0; p < options.processes; ++p) {
      for (int t = 0; t < options.threads; ++t) {
        latency->Merge(board.shape(p, t, s).latency);
        bytes += board.shape(p, t, s).payload_bytes.load();
      }
    }
    report.shapes.push_back(Figures(*latency, bytes, report.seconds));
    all->Merge(*latency);
    all_bytes += bytes;
  }
  report.total = Figures(*all, all_bytes, report.seconds);
  for (int p = 0; p < options.processes; ++p) {
    AddProcess(board.process(p), report.seconds, &report);
    for (int t = 0; t < options.threads; ++t) AddThread(board.thread(p, t), &report);
  }
  return report;
}

int ExitCodeFor(const LoadOptions& options, const Report& report) {
  if (report.wrong > 0 || report.lost_process) return 1;
  if (report.error_count > 0 && !options.allow_errors) return 1;
  // Without one answer nothing was shown, unless the user stopped it.
  return report.total.calls == 0 && !report.interrupted ? 1 : 0;
}

const char* CodeName(int code) {
  static constexpr const char* kNames[kCodes] = {
      "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
      "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
      "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
      "DATA_LOSS", "UNAUTHENTICATED"};
  return code >= 0 && code < kCodes ? kNames[code] : "UNKNOWN";
}

}  // namespace softmax::client

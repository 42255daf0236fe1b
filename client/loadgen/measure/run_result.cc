#include "client/loadgen/measure/run_result.h"

#include <absl/status/status.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <cmath>
#include <memory>

namespace softmax::client {
namespace {

// Rounding of 100 - 99.9 must not take the tenth of 10,000 away.
constexpr double kLeastBeyond = 10 - 1e-6;

struct ClassTotals {
  std::uint64_t answered = 0;
  std::uint64_t bytes = 0;
  std::uint64_t within_slo = 0;
};

ClassTotals Total(const Board& board, std::size_t class_index, Histogram* latency) {
  ClassTotals totals;
  board.EachOfClass(class_index, [&](const ClassTally& tally) {
    latency->Merge(tally.latency);
    totals.answered += tally.answered.load();
    totals.bytes += tally.payload_bytes.load();
    totals.within_slo += tally.within_slo.load();
  });
  return totals;
}

void AddThread(const ThreadTally& thread, RunResult* result) {
  for (std::size_t code = 0; code < kCodes; ++code) {
    result->errors[code] += thread.errors[code].load();
    result->warmup_errors[code] += thread.warmup_errors[code].load();
    result->retried[code] += thread.retried[code].load();
  }
  result->throttled += thread.throttled.load();
  if (result->first_error.empty()) result->first_error = thread.first_error.Get();
  result->sent += thread.sent.load();
  result->dropped_full += thread.dropped_full.load();
  result->dropped_behind += thread.dropped_behind.load();
  result->late += thread.late.load();
  if (result->seconds > 0) {
    const double share = static_cast<double>(thread.cpu_ns.load()) / 1e9 / result->seconds;
    result->generator.busiest_thread = std::max(result->generator.busiest_thread, share);
  }
}

void AddProcess(const ProcessTally& process, RunResult* result) {
  result->verified += process.verified.load();
  result->judged += process.judged.load();
  result->wrong += process.wrong.load();
  if (result->first_wrong.empty()) result->first_wrong = process.first_wrong.Get();
  if (result->seconds > 0) {
    result->generator.cpu_cores += static_cast<double>(process.cpu_ns.load()) / 1e9 / result->seconds;
  }
}

void AddAddresses(const Board& board, RunResult* result) {
  for (std::size_t a = 0; a < board.addresses(); ++a) {
    AddressFigures& figures = result->addresses.emplace_back();
    figures.address = result->load.addresses[a].target;
    board.EachOfAddress(a, [&](const AddressTally& tally) {
      figures.attempts += tally.attempts.load();
      figures.answered += tally.answered.load();
      figures.failed += tally.failed.load();
    });
  }
}

// Rates and shares, from the counts of all classes.
void AddRates(const ClassTotals& all, RunResult* result) {
  const bool open = result->load.loop == Loop::kOpen;
  const std::uint64_t due = result->due();
  const bool has_slo = result->load.slo.limit.count() > 0;
  if (has_slo) result->within_slo = due == 0 ? 1 : static_cast<double>(all.within_slo) / static_cast<double>(due);
  if (result->seconds <= 0) return;
  result->achieved_per_s = static_cast<double>(all.answered) / result->seconds;
  result->offered_per_s = open ? static_cast<double>(due) / result->seconds : result->achieved_per_s;
  result->gigabytes_per_s = static_cast<double>(all.bytes) / result->seconds / 1e9;
  result->goodput_per_s = has_slo ? static_cast<double>(all.within_slo) / result->seconds : result->achieved_per_s;
}

}  // namespace

LatencyFigures FiguresOf(const Histogram& histogram) {
  LatencyFigures figures;
  figures.histogram = histogram.Buckets();
  figures.count = histogram.Count();
  if (figures.count == 0) return figures;
  figures.mean_us = histogram.Mean() / 1e3;
  figures.min_us = static_cast<double>(histogram.Min()) / 1e3;
  figures.max_us = static_cast<double>(histogram.Max()) / 1e3;
  for (std::size_t i = 0; i < kPercentiles.size(); ++i) {
    const double beyond = static_cast<double>(figures.count) * (100 - kPercentiles[i]) / 100;
    if (beyond < kLeastBeyond) continue;
    figures.at_us[i] = static_cast<double>(histogram.Quantile(kPercentiles[i] / 100)) / 1e3;
  }
  return figures;
}

void AddFigures(const LatencyFigures& figures, Histogram* to) {
  if (figures.count == 0) return;
  const auto ns = [](double us) { return static_cast<std::uint64_t>(std::llround(us * 1e3)); };
  to->Merge(figures.histogram, ns(figures.min_us), ns(figures.max_us), figures.mean_us * 1e3);
}

std::string FigureText(double value, int digits) {
  return std::isnan(value) ? "-" : absl::StrFormat("%.*f", digits, value);
}

std::string RateText(double per_second) {
  if (std::isnan(per_second)) return "-";
  return per_second == 0 || per_second >= 1 ? absl::StrFormat("%.1f", per_second) : absl::StrFormat("%.3g", per_second);
}

std::string CodeName(int code) { return absl::StatusCodeToString(static_cast<absl::StatusCode>(code)); }

std::uint64_t RunResult::attempts() const {
  return std::accumulate(addresses.begin(), addresses.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const AddressFigures& of) { return sum + of.attempts; });
}

void ReadBoard(const LoadOptions& options, const Workload& workload, const Board& board, RunResult* out) {
  RunResult& result = *out;
  result.load = options;
  result.part = options.part;
  result.parts = options.parts;
  result.connections = options.TotalConnections();
  result.in_flight = options.loop == Loop::kOpen ? options.max_in_flight : options.in_flight;
  const Control& control = board.control();
  const std::int64_t start = control.start_ns.load();
  result.seconds = std::max(0.0, static_cast<double>(control.end_ns.load() - start) / 1e9);
  result.warmup_seconds = start == kNever ? 0 : static_cast<double>(start - control.go_ns.load()) / 1e9;
  board.EachThread([&](const ThreadTally& thread) { AddThread(thread, out); });
  AddAddresses(board, out);
  for (int p = 0; p < board.processes(); ++p) AddProcess(board.process(p), out);

  const auto all = std::make_unique<Histogram>();
  ClassTotals all_totals;
  for (std::size_t c = 0; c < board.classes(); ++c) {
    const auto latency = std::make_unique<Histogram>();
    const ClassTotals totals = Total(board, c, latency.get());
    ClassFigures& figures = result.classes.emplace_back();
    figures.name = workload.classes()[c].name;
    figures.latency = FiguresOf(*latency);
    if (result.seconds > 0) {
      figures.per_second = static_cast<double>(totals.answered) / result.seconds;
      figures.gigabytes_per_second = static_cast<double>(totals.bytes) / result.seconds / 1e9;
    }
    all->Merge(*latency);
    all_totals.answered += totals.answered;
    all_totals.bytes += totals.bytes;
    all_totals.within_slo += totals.within_slo;
  }
  result.latency = result.service = FiguresOf(*all);
  result.service.histogram.clear();  // in a closed loop once is enough
  if (options.loop == Loop::kOpen) {
    const auto service = std::make_unique<Histogram>();
    const auto lag = std::make_unique<Histogram>();
    board.EachThread([&](const ThreadTally& thread) {
      service->Merge(thread.service);
      lag->Merge(thread.lag);
    });
    result.service = FiguresOf(*service);
    result.lag = FiguresOf(*lag);
  }
  AddRates(all_totals, out);
}

}  // namespace softmax::client

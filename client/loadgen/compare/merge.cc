#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

#include "client/loadgen/compare/results_file.h"
#include "client/loadgen/measure/statistics.h"

namespace softmax::client {
namespace {

// Windows that began farther apart were not of one moment.
constexpr double kMostApartS = 0.05;

template <typename FiguresOfRun>
LatencyFigures Together(const RunResult& merged, const FiguresOfRun& figures_of) {
  const auto all = std::make_unique<Histogram>();
  for (const GeneratorPart& of : merged.generators) {
    if (const LatencyFigures* figures = figures_of(of.run)) AddFigures(*figures, all.get());
  }
  return FiguresOf(*all);
}

// The one of that name, made where there is none.
template <typename Figures>
Figures& Named(std::vector<Figures>& all, std::string Figures::*name, const std::string& wanted) {
  const auto at = std::find_if(all.begin(), all.end(), [&](const Figures& of) { return of.*name == wanted; });
  if (at != all.end()) return *at;
  all.emplace_back().*name = wanted;
  return all.back();
}

// `share`: the length of its window, of the merged one.
void AddRates(const RunResult& from, double share, RunResult* to) {
  to->offered_per_s += from.offered_per_s * share;
  to->achieved_per_s += from.achieved_per_s * share;
  to->goodput_per_s += from.goodput_per_s * share;
  to->gigabytes_per_s += from.gigabytes_per_s * share;
  for (const ClassFigures& of : from.classes) {
    ClassFigures& sum = Named(to->classes, &ClassFigures::name, of.name);
    sum.per_second += of.per_second * share;
    sum.gigabytes_per_second += of.gigabytes_per_second * share;
  }
}

void AddCounts(const RunResult& from, RunResult* to) {
  for (const auto codes : {&RunResult::errors, &RunResult::warmup_errors, &RunResult::retried}) {
    for (std::size_t code = 0; code < kCodes; ++code) (to->*codes)[code] += (from.*codes)[code];
  }
  for (const auto count :
       {&RunResult::sent, &RunResult::throttled, &RunResult::dropped_full, &RunResult::dropped_behind, &RunResult::late,
        &RunResult::verified, &RunResult::judged, &RunResult::wrong}) {
    to->*count += from.*count;
  }
  for (const auto text : {&RunResult::first_error, &RunResult::first_wrong}) {
    if ((to->*text).empty()) to->*text = from.*text;
  }
  for (const AddressFigures& of : from.addresses) {
    AddressFigures& sum = Named(to->addresses, &AddressFigures::address, of.address);
    sum.attempts += of.attempts;
    sum.answered += of.answered;
    sum.failed += of.failed;
  }
  to->connections += from.connections;
  to->interrupted = to->interrupted || from.interrupted;
  to->complete = to->complete && from.complete;
  to->generator.cpu_cores += from.generator.cpu_cores;
  to->generator.busiest_thread = std::max(to->generator.busiest_thread, from.generator.busiest_thread);
  // All of them asked the same server of the same window.
  if (to->server.text.empty()) to->server = from.server;
  if (to->servers.text.empty()) to->servers = from.servers;
  if (std::isnan(to->server_cores)) to->server_cores = from.server_cores;
}

// Each stretch goes to the first generator's whose end is nearest.
void AddTimeline(const RunResult& from, std::vector<TimelinePoint>* to) {
  if (to->empty()) return;
  for (const TimelinePoint& point : from.timeline) {
    const auto at = std::find_if(to->begin(), to->end() - 1,
                                 [&](const TimelinePoint& of) { return of.t_s >= point.t_s - to->front().t_s / 2; });
    at->sent += point.sent;
    at->errors += point.errors;
    if (point.answered == 0) continue;
    at->p50_us = MeanTogether(at->p50_us, at->answered, point.p50_us, point.answered);
    at->p99_us = std::fmax(at->p99_us, point.p99_us);
    at->answered += point.answered;
  }
}

// What makes it less than one generator's measurement.
void JudgeTogether(RunResult* merged) {
  std::vector<std::string>& verdicts = merged->verdicts;
  std::vector<std::string> limits;
  std::set<int> missing;
  for (int part = 0; part < merged->parts; ++part) missing.insert(part);
  for (const GeneratorPart& of : merged->generators) {
    if (!of.lacks.empty()) {
      verdicts.push_back(absl::StrCat("No result of ", of.file, ": ", of.lacks, "."));
      merged->complete = false;
      continue;
    }
    missing.erase(of.run.part);
    if (of.run.generator.limited()) limits.push_back(absl::StrCat(of.file, ": ", of.run.generator.why));
    if (MachineWasFull(of.run)) limits.push_back(of.file + ": its machine was full");
    if (!of.run.complete) verdicts.push_back(absl::StrCat("A sending process of ", of.file, " ended badly."));
    if (of.run.interrupted) {
      verdicts.push_back(absl::StrFormat("%s was interrupted after %.2f s.", of.file, of.run.seconds));
    }
    if (of.run.began_s - merged->began_s > kMostApartS) {
      verdicts.push_back(absl::StrFormat("The window of %s began %.3f s after the first one's, by their clocks.",
                                         of.file, of.run.began_s - merged->began_s));
    }
  }
  if (merged->parts > 1 && !missing.empty()) {
    merged->complete = false;
    verdicts.push_back(absl::StrFormat("Part %s of %d is missing: %.1f %% of the load was not sent, or not reported.",
                                       absl::StrJoin(missing, ", "), merged->parts,
                                       100.0 * static_cast<double>(missing.size()) / merged->parts));
  }
  merged->generator.why = absl::StrJoin(limits, "; ");
  Judge(merged);
}

// Its generators are known, and at least one of their runs.
void MergeRun(const Texts& settings, const RunResult& first, RunResult* out) {
  RunResult& merged = *out;
  merged.name = first.name;
  merged.load = first.load;
  if (const auto level = ParseServiceLevel(TextOf(settings, "slo"))) merged.load.slo = *level;
  merged.parts = first.parts;
  merged.timeline = first.timeline;
  for (TimelinePoint& point : merged.timeline) point = {.t_s = point.t_s};
  for (const GeneratorPart& of : merged.generators) {
    merged.seconds = std::max(merged.seconds, of.run.seconds);
    merged.warmup_seconds = std::max(merged.warmup_seconds, of.run.warmup_seconds);
    merged.began_s = std::fmin(merged.began_s, of.run.began_s);
  }
  double in_time = 0;
  for (const GeneratorPart& of : merged.generators) {
    if (!of.lacks.empty()) continue;
    AddCounts(of.run, &merged);
    AddRates(of.run, merged.seconds > 0 ? of.run.seconds / merged.seconds : 0, &merged);
    AddTimeline(of.run, &merged.timeline);
    merged.in_flight = first.load.loop == Loop::kOpen ? merged.in_flight + of.run.in_flight : first.in_flight;
    in_time += of.run.within_slo * static_cast<double>(of.run.due());
  }
  merged.load.max_in_flight = merged.in_flight;
  merged.latency = merged.service = Together(merged, [](const RunResult& run) { return &run.latency; });
  if (first.load.loop == Loop::kOpen) {
    merged.service = Together(merged, [](const RunResult& run) { return &run.service; });
    merged.lag = Together(merged, [](const RunResult& run) { return &run.lag; });
  } else {
    merged.service.histogram.clear();
    merged.name = absl::StrCat("concurrency ", merged.connections * merged.in_flight);
  }
  for (ClassFigures& sum : merged.classes) {
    sum.latency = Together(merged, [&](const RunResult& run) {
      const auto at =
          std::find_if(run.classes.begin(), run.classes.end(), [&](const auto& of) { return of.name == sum.name; });
      return at == run.classes.end() ? nullptr : &at->latency;
    });
  }
  if (merged.due() > 0) merged.within_slo = in_time / static_cast<double>(merged.due());
  JudgeTogether(&merged);
}

// Whether all of what a report counts stands in its histogram.
bool HasHistogram(const LatencyFigures& figures) {
  std::uint64_t missing = figures.count;
  for (const HistogramBucket& bucket : figures.histogram) missing -= bucket.n;
  return missing == 0;
}

// Why `file` is no generator of the measurement that `first` is of; empty: it may be.
std::string WhyNotOne(const ResultsFile& file, const ResultsFile& first, std::set<std::string>* seen) {
  const std::vector<RunResult>& runs = file.outcome.runs;
  if (runs.size() != first.outcome.runs.size()) {
    return absl::StrCat("has ", runs.size(), " runs, ", first.path, " has ", first.outcome.runs.size());
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunResult& other = first.outcome.runs[i];
    if (runs[i].name != other.name || runs[i].parts != other.parts) {
      return absl::StrFormat("runs[%d] is %s, one of %d parts; of %s it is %s, one of %d", i, runs[i].name,
                             runs[i].parts, first.path, other.name, other.parts);
    }
    if (!HasHistogram(runs[i].latency) || !HasHistogram(runs[i].lag)) {
      return absl::StrFormat("runs[%d].latency.histogram has not all requests; of an older softmax-loadgen?", i);
    }
  }
  const std::string what = runs[0].parts == 1 ? file.path : absl::StrFormat("part %d/%d", runs[0].part, runs[0].parts);
  return seen->insert(what).second ? "" : what + " is there twice";
}

}  // namespace

absl::StatusOr<ResultsFile> MergeResults(const std::vector<ResultsFile>& files) {
  const auto first = std::find_if(files.begin(), files.end(), [](const auto& file) { return file.problem.empty(); });
  if (first == files.end()) {
    return absl::InvalidArgumentError(absl::StrCat("no result; of ", files[0].path, ": ", files[0].problem));
  }
  ResultsFile merged;
  merged.head = first->head;
  std::erase_if(merged.head.settings, [](const auto& setting) { return setting.first == "part"; });
  std::set<std::string> hosts;
  std::set<std::string> seen;
  merged.outcome.runs.resize(first->outcome.runs.size());
  for (const ResultsFile& file : files) {
    const std::string why = file.problem.empty() ? WhyNotOne(file, *first, &seen) : "";
    if (!why.empty()) return absl::InvalidArgumentError(absl::StrCat(file.path, ": ", why));
    hosts.insert(file.head.machine.host);
    for (std::size_t i = 0; i < merged.outcome.runs.size(); ++i) {
      GeneratorPart& of = merged.outcome.runs[i].generators.emplace_back();
      of.file = file.path;
      of.lacks = file.problem;
      of.machine = file.head.machine;
      if (file.problem.empty()) of.run = file.outcome.runs[i];
    }
  }
  hosts.erase("");
  merged.head.machine = {.host = absl::StrJoin(hosts, ", ")};  // each one's processor stands beside its figures
  for (std::size_t i = 0; i < merged.outcome.runs.size(); ++i) {
    MergeRun(first->head.settings, first->outcome.runs[i], &merged.outcome.runs[i]);
  }
  return merged;
}

}  // namespace softmax::client

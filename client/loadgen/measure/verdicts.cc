#include <absl/strings/str_format.h>
#include <absl/time/time.h>

#include <algorithm>

#include "client/loadgen/measure/run_result.h"

namespace softmax::client {
namespace {

// Beyond these the schedule was not kept well enough to call the latencies the server's.
constexpr double kMaxLateShare = 0.01;
constexpr std::uint64_t kFewLate = 5;  // this many happen on any machine
constexpr double kMaxBehindShare = 0.001;
// A sending thread with less idle time than this would have sent more had it been faster.
constexpr double kBusySender = 0.95;
constexpr double kFullMachine = 0.97;
// What an open loop must achieve of what it offers.
constexpr double kSaturated = 0.98;
constexpr double kStable = 0.1;
constexpr std::uint64_t kAnswersToJudge = 100;  // in a stretch of the timeline

double Share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::string GeneratorLimit(const RunResult& r) {
  if (r.load.loop == Loop::kClosed) {
    if (r.generator.busiest_thread <= kBusySender) return "";
    return absl::StrFormat("a sending thread was busy %.0f %% of the time: give it more --threads or --processes",
                           r.generator.busiest_thread * 100);
  }
  const double late = Share(r.late, r.sent);
  const double behind = Share(r.dropped_behind, r.sent + r.dropped());
  const bool lags = late > kMaxLateShare && r.late >= kFewLate;
  if (!lags && behind <= kMaxBehindShare) return "";
  return absl::StrFormat(
      "schedule lag p99 %s us, %.2f %% of the sends over 1 ms late, %.2f %% not sent in time: give it more --threads "
      "or --processes, or a machine of its own",
      FigureText(r.lag.at_us[2], 0), late * 100, behind * 100);
}

bool Varies(const RunResult& r) {
  return r.load.loop == Loop::kOpen &&
         (r.load.arrivals.trace || r.load.arrivals.segments.size() != 1 ||
          r.load.arrivals.segments.front().from_per_s != r.load.arrivals.segments.front().to_per_s);
}

bool Unstable(const RunResult& r) {
  if (Varies(r) || r.timeline.size() < 6) return false;
  const bool enough = std::all_of(r.timeline.end() - 3, r.timeline.end(),
                                  [](const TimelinePoint& p) { return p.answered >= kAnswersToJudge; });
  return enough && !LastAgree(r.timeline, kStable);
}

void JudgeLoad(const RunResult& r, std::vector<std::string>* verdicts) {
  if (r.generator.limited()) verdicts->push_back("The generator was the limit: " + r.generator.why + ".");
  if (r.dropped_full > 0) {
    verdicts->push_back(absl::StrFormat(
        "%d requests were dropped because %d were unanswered (--max-in-flight); the percentiles leave them out.",
        r.dropped_full, r.load.max_in_flight));
  }
  if (r.load.loop == Loop::kOpen && r.dropped_behind == 0 && r.achieved_per_s < kSaturated * r.offered_per_s &&
      r.sent >= kAnswersToJudge) {
    verdicts->push_back(absl::StrFormat("Of %.1f requests/s that were due, %.1f/s were answered in the window.",
                                        r.offered_per_s, r.achieved_per_s));
  }
  if (MachineWasFull(r)) {
    verdicts->push_back(absl::StrFormat(
        "This machine was %.0f %% busy: what else runs on it, the server perhaps, competed with the generator.",
        r.machine_busy * 100));
  }
}

}  // namespace

bool MachineWasFull(const RunResult& result) { return result.machine_busy > kFullMachine; }

void Judge(RunResult* result) {
  RunResult& r = *result;
  // Of several generators each has been judged.
  if (r.generators.empty()) r.generator.why = r.seconds > 0 ? GeneratorLimit(r) : "";
  JudgeLoad(r, &r.verdicts);
  if (r.latency.count == 0 && !r.interrupted) {
    r.verdicts.push_back(absl::StrFormat(
        "Nothing was answered within the window of %g s, so that there are no figures: is --duration too short?",
        r.seconds));
  }
  if (Sum(r.errors) > 0) {
    r.verdicts.push_back(absl::StrFormat("%d requests failed; the percentiles leave them out.", Sum(r.errors)));
  }
  if (Sum(r.warmup_errors) > 0) {
    r.verdicts.push_back(absl::StrFormat("%d requests of the warm-up failed.", Sum(r.warmup_errors)));
  }
  if (r.retries() > 0) {
    r.verdicts.push_back(absl::StrFormat(
        "%d attempts failed and were made again; a request's latency is that of all its attempts.", r.retries()));
  }
  if (r.load.slo.limit.count() > 0 && r.latency.count > 0) {
    r.verdicts.push_back(absl::StrFormat("%s was %s: %.3f %% of the requests were answered in time.",
                                         ServiceLevelText(r.load.slo), KeepsSlo(r) ? "kept" : "not kept",
                                         r.within_slo * 100));
  }
  if (!r.warmup_stable) {
    r.verdicts.push_back(absl::StrFormat("The warm-up was not stable after %.1f s.", r.warmup_seconds));
  }
  if (Unstable(r)) {
    r.verdicts.push_back(
        absl::StrFormat("Not stable: the last three stretches of %.2f s differ by more than %.0f %% in rate or median.",
                        r.timeline.back().t_s - r.timeline[r.timeline.size() - 2].t_s, kStable * 100));
  }
  if (!r.server_unknown.empty()) r.verdicts.push_back("Without the server's own figures: " + r.server_unknown + ".");
  if (r.wrong > 0) r.verdicts.push_back(absl::StrFormat("%d answers were WRONG.", r.wrong));
  if (r.interrupted) r.verdicts.push_back("Interrupted: the window is shorter than it was to be.");
  if (!r.complete && r.generators.empty())
    r.verdicts.push_back("A sending process ended badly: the figures are incomplete.");
}

bool KeepsSlo(const RunResult& result) {
  // Without rounding up: 98.9999 % is not 99 %.
  return result.latency.count > 0 && result.within_slo * 100 >= result.load.slo.percentile;
}

std::string ServiceLevelText(const ServiceLevel& level) {
  return absl::StrFormat("p%g<=%s", level.percentile, absl::FormatDuration(absl::FromChrono(level.limit)));
}

}  // namespace softmax::client

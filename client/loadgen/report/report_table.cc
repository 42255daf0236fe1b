#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/time/time.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "client/loadgen/measure/run_result.h"
#include "client/loadgen/measure/statistics.h"
#include "client/loadgen/report/report.h"
#include "common/base/safe_text.h"

namespace softmax::client {
namespace {

std::string Columns(const LatencyFigures& f) {
  std::string text;
  for (std::size_t i = 0; i < 4; ++i) absl::StrAppendFormat(&text, " %10s", FigureText(f.at_us[i]));
  return text + absl::StrFormat(" %10s\n", FigureText(f.max_us));
}

// One width for the first column of all rows.
int NameWidth(const RunResult& run) {
  std::size_t width = 16;
  for (const ClassFigures& of : run.classes) width = std::max(width, of.name.size());
  return static_cast<int>(width);
}

std::string WholeRateText(double per_second) {
  return per_second >= 100 ? absl::StrFormat("%.0f", per_second) : RateText(per_second);
}

std::string Row(int width, const ClassFigures& of) {
  return absl::StrFormat("%-*s %12d %12s %9.3f", width, of.name, of.latency.count, WholeRateText(of.per_second),
                         of.gigabytes_per_second) +
         Columns(of.latency);
}

std::string LatencyRow(int width, const char* name, const LatencyFigures& f) {
  return absl::StrFormat("%-*s %12d %12s %9s", width, name, f.count, "", "") + Columns(f);
}

std::string LoopText(const LoadOptions& load) {
  if (load.loop == Loop::kClosed) {
    return absl::StrFormat("%d connections x %d in flight", load.TotalConnections(), load.in_flight);
  }
  return absl::StrFormat("open loop, %s  %d connections, at most %d in flight",
                         load.arrivals.trace                           ? "trace"
                         : load.arrivals.kind == ArrivalKind::kPoisson ? "poisson"
                                                                       : "constant",
                         load.TotalConnections(), load.max_in_flight);
}

// Follows the addresses.
std::string TlsText(const LoadOptions& load) { return load.security.tls ? absl::StrCat(" over ", TlsName(load)) : ""; }

std::string HeadText(const RunResult& run) {
  const LoadOptions& load = run.load;
  return absl::StrFormat("%s%s  %s %s  %s  %s  %d processes x %d threads  %.2f s%s\n", AddressesText(load),
                         TlsText(load), TypesText(load.mix), AskedText(load.mix), MethodName(load), LoopText(load),
                         load.processes, load.threads, run.seconds, run.interrupted ? "  (interrupted)" : "");
}

std::string OfferedText(const RunResult& run) {
  if (run.load.loop == Loop::kClosed) return "";
  return absl::StrFormat("offered    %s/s; answered %s/s; sent %d, dropped %d, late %d (over 1 ms)\n",
                         RateText(run.offered_per_s), RateText(run.achieved_per_s), run.sent, run.dropped(), run.late);
}

std::string GoodputText(const RunResult& run) {
  if (run.load.slo.limit.count() == 0) return "";
  return absl::StrFormat("goodput    %s/s within %s: %.3f %% of the requests\n", RateText(run.goodput_per_s),
                         ServiceLevelText(run.load.slo).substr(ServiceLevelText(run.load.slo).find('=') + 1),
                         run.within_slo * 100);
}

// " UNAVAILABLE 3 INTERNAL 1".
std::string CodesText(const CountsByCode& counts) {
  std::string text;
  for (int code = 0; code < kCodes; ++code) {
    const std::uint64_t count = counts[static_cast<std::size_t>(code)];
    if (count > 0) text += absl::StrFormat(" %s %d", CodeName(code), count);
  }
  return text;
}

std::string ErrorText(const RunResult& run) {
  std::string text = "errors    " + (Sum(run.errors) == 0 ? " none" : CodesText(run.errors));
  if (Sum(run.warmup_errors) > 0) text += "; in the warm-up" + CodesText(run.warmup_errors);
  if (Sum(run.errors) + Sum(run.warmup_errors) == 0) return text + "\n";
  return text + "; the first: " + SafeText(run.first_error, TextFor::kPeople, 1000) + "\n";
}

std::string AttemptsText(const RunResult& run) {
  std::string text;
  if (run.load.attempts > 1) {
    text = absl::StrFormat("retries    %d, of %d attempts for %d requests;%s failed and were made again", run.retries(),
                           run.attempts(), run.sent, run.retries() > 0 ? CodesText(run.retried) : " none");
    if (run.throttled > 0) text += absl::StrFormat("; %d more were not allowed by the budget", run.throttled);
    text += "\n";
  }
  if (run.addresses.size() == 1) return text;
  for (const AddressFigures& of : run.addresses) {
    text += absl::StrFormat("address    %s: %d attempts, %d answered, %d failed\n", of.address, of.attempts,
                            of.answered, of.failed);
  }
  return text;
}

std::string VerifiedText(const RunResult& run) {
  if (run.load.checking == Checking::kSizesOnly) return "verified   sizes only\n";
  std::string text = absl::StrFormat(
      "verified   %d answers (%d judged against double, the others equal to a judged one): %d "
      "wrong\n",
      run.verified, run.judged, run.wrong);
  if (run.wrong > 0) text += "           the first: " + run.first_wrong + "\n";
  return text;
}

std::string CpuText(const RunResult& run) {
  const auto per_call = [&](double cores) { return run.achieved_per_s > 0 ? cores / run.achieved_per_s * 1e6 : 0; };
  std::string text = absl::StrFormat("cpu        generator %.2f cores, %.1f us per request", run.generator.cpu_cores,
                                     per_call(run.generator.cpu_cores));
  if (run.server_cores >= 0) {
    text += absl::StrFormat("; server %.2f cores, %.1f us per request", run.server_cores, per_call(run.server_cores));
  }
  return text + "\n";
}

// What the server said of the same window.
std::string ServerText(const RunResult& run) {
  if (run.server.text.empty()) return "";
  const auto server = nlohmann::json::parse(run.server.text);
  const auto number = [&](const char* path) {
    const nlohmann::json::json_pointer pointer(path);
    const bool known = server.contains(pointer) && server[pointer].is_number();
    return known ? absl::StrFormat("%.1f", server[pointer].get<double>()) : std::string("unknown");
  };
  return absl::StrFormat(
      "server     p99 of a request %s us: waiting %s, gathering a batch %s, execution of a batch %s; %s requests a "
      "batch\n",
      number("/stages/request/p99_us"), number("/stages/queue/p99_us"), number("/stages/batch/p99_us"),
      number("/stages/execution/p99_us"), number("/batches/requests/mean"));
}

// Each machine that sent a merged run.
std::string GeneratorsText(const RunResult& run) {
  std::string text =
      absl::StrFormat("%s  %d generators  %.2f s%s\n%-28s %6s %13s %6s %12s %10s %8s %8s %10s %10s\n", run.name,
                      run.generators.size(), run.seconds, run.interrupted ? "  (interrupted)" : "", "generator", "part",
                      "cores", "busy %", "requests/s", "p99 us", "dropped", "late", "began ms", "clock +- ms");
  for (const GeneratorPart& of : run.generators) {
    const std::string name = absl::StrCat(of.file, " ", of.machine.host);
    if (!of.lacks.empty()) {
      absl::StrAppendFormat(&text, "%-28s %s\n", name, of.lacks);
      continue;
    }
    const std::string cores = absl::StrFormat("%.2f of %d", of.run.generator.cpu_cores, of.machine.cores);
    absl::StrAppendFormat(&text, "%-28s %6s %13s %6s %12s %10s %8d %8d %10s %10s%s\n", name,
                          absl::StrCat(of.run.part, "/", of.run.parts), cores, FigureText(of.run.machine_busy * 100, 0),
                          RateText(of.run.achieved_per_s), FigureText(of.run.latency.at_us[2]), of.run.dropped(),
                          of.run.late, FigureText((of.run.began_s - run.began_s) * 1e3), FigureText(of.run.clock_ms),
                          of.run.generator.limited() ? "  generator limited" : "");
  }
  return text;
}

std::string OneRun(const RunResult& run) {
  const int width = NameWidth(run);
  std::string text = (run.generators.empty() ? HeadText(run) : GeneratorsText(run)) +
                     absl::StrFormat("%-*s %12s %12s %9s %10s %10s %10s %10s %10s\n", width, "shape", "requests",
                                     "requests/s", "GB/s", "p50 us", "p90 us", "p99 us", "p99.9 us", "max us");
  for (const ClassFigures& of : run.classes) text += Row(width, of);
  if (run.classes.size() > 1) text += Row(width, {"total", run.achieved_per_s, run.gigabytes_per_s, run.latency});
  if (run.load.loop == Loop::kOpen) {
    text += LatencyRow(width, "from actual send", run.service) + LatencyRow(width, "schedule lag", run.lag);
  }
  text += OfferedText(run) + GoodputText(run) + ErrorText(run) + AttemptsText(run) + VerifiedText(run) + CpuText(run) +
          ServerText(run);
  for (const std::string& verdict : run.verdicts) text += "note       " + verdict + "\n";
  return text;
}

// What a figure of the runs of one group came to, with its interval where there are several.
template <typename Figure>
std::string Cell(const Outcome& outcome, const RunGroup& group, const Figure& figure) {
  std::vector<double> values;
  for (std::size_t i = group.first; i < group.last; ++i) values.push_back(figure(outcome.runs[i]));
  const Interval interval = MeanInterval(values);
  const std::string mean = RateText(interval.mean);
  const bool alone = values.size() == 1 || std::isnan(interval.mean);
  return absl::StrFormat(" %20s", alone ? mean : absl::StrFormat("%s +- %.1f", mean, interval.half_width));
}

std::string GroupRow(const Outcome& outcome, const RunGroup& group) {
  std::uint64_t errors = 0;
  std::uint64_t dropped = 0;
  std::uint64_t retries = 0;
  bool limited = false;
  for (std::size_t i = group.first; i < group.last; ++i) {
    errors += Sum(outcome.runs[i].errors);
    dropped += outcome.runs[i].dropped();
    retries += outcome.runs[i].retries();
    limited = limited || outcome.runs[i].generator.limited();
  }
  std::string text = absl::StrFormat("%-20s %4d", outcome.runs[group.first].name, group.last - group.first);
  text += Cell(outcome, group, [](const RunResult& run) { return run.achieved_per_s; });
  text += Cell(outcome, group, [](const RunResult& run) { return run.goodput_per_s; });
  for (const std::size_t i : {0, 2, 3}) {
    text += Cell(outcome, group, [i](const RunResult& run) { return run.latency.at_us[i]; });
  }
  text += absl::StrFormat(" %8d %8d", errors, dropped);
  if (outcome.runs[group.first].load.attempts > 1) text += absl::StrFormat(" %8d", retries);
  return text + (limited ? "  generator limited\n" : "\n");
}

std::string SearchText(const Plan& plan, const SearchResult& search) {
  const std::string level = ServiceLevelText(plan.load.slo);
  if (!search.rate_per_s) {
    return search.stopped ? "search     stopped before a rate kept " + level + "\n"
                          : absl::StrFormat("search     no rate kept %s, not even %.1f/s%s\n", level, plan.search_low,
                                            search.generator_limited ? ": the generator was the limit" : "");
  }
  std::string text = absl::StrFormat("search     %.1f requests/s is the highest rate seen to keep %s (to %g %%)",
                                     *search.rate_per_s, level, plan.search_precision * 100);
  if (search.stopped) text += "; the search was stopped";
  if (search.at_upper_bound) text += "; the range ends there, the server may do more";
  if (search.generator_limited) text += "; above it the generator was the limit, the server may do more";
  return text + "\n";
}

}  // namespace

std::string ReportTable(const Plan& plan, const Outcome& outcome) {
  if (outcome.runs.empty()) return "";
  std::string text;
  if (outcome.runs.size() == 1 || !outcome.runs[0].generators.empty()) {
    for (const RunResult& run : outcome.runs) text += OneRun(run);
  } else {
    const LoadOptions& load = plan.load;
    text = absl::StrFormat("%s%s  %s %s  %s  %d runs of %s\n", AddressesText(load), TlsText(load), TypesText(load.mix),
                           AskedText(load.mix), MethodName(load), outcome.runs.size(),
                           absl::FormatDuration(absl::FromChrono(load.duration)));
    text += absl::StrFormat("%-20s %4s %20s %20s %20s %20s %20s %8s %8s%s\n", "run", "runs", "requests/s", "goodput/s",
                            "p50 us", "p99 us", "p99.9 us", "errors", "dropped", load.attempts > 1 ? "  retries" : "");
    for (const RunGroup& group : GroupsOf(outcome)) text += GroupRow(outcome, group);
    for (const RunResult& run : outcome.runs) {
      if (run.latency.count == 0 && !run.interrupted) {
        text +=
            absl::StrFormat("note       %s: nothing was answered within the window of %g s\n", run.name, run.seconds);
      }
      if (run.wrong == 0) continue;
      text += absl::StrFormat("verified   %s: %d wrong; the first: %s\n", run.name, run.wrong, run.first_wrong);
    }
    if (plan.repeats > 1) text += "           +- is the 95 % confidence interval of the mean (Student's t)\n";
  }
  if (outcome.search) text += SearchText(plan, *outcome.search);
  return text;
}

}  // namespace softmax::client

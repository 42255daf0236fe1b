#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_replace.h>

#include <cmath>

#include "client/loadgen/report/report.h"

namespace softmax::client {
namespace {

// The first columns are what older files have; new ones come at the end.
constexpr char kHeader[] =
    "address,method,requests_per_message,dtype,output_dtype,op,connections,in_flight,processes,"
    "threads,seconds,shape,requests,requests_per_second,gb_per_second,p50_us,p90_us,p99_us,"
    "p999_us,max_us,errors,verified,wrong,generator_cores,server_cores,"
    "run,loop,offered_per_second,goodput_per_second,mean_us,p9999_us,service_p50_us,service_p99_us,lag_p99_us,"
    "sent,dropped,late,generator_limited,"
    "attempts,retries,address_attempts,address_answered,address_failed,tls\n";

std::string CsvField(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  return "\"" + absl::StrReplaceAll(text, {{"\"", "\"\""}}) + "\"";
}

// One figure of each address, in the order of the first column: "600;620".
std::string ByAddress(const RunResult& run, std::uint64_t AddressFigures::*figure) {
  return absl::StrJoin(run.addresses, ";",
                       [&](std::string* out, const AddressFigures& of) { out->append(std::to_string(of.*figure)); });
}

std::string Setup(const RunResult& run) {
  const LoadOptions& load = run.load;
  const std::string output = load.output_dtype ? std::string(NameOf(*load.output_dtype)) : TypesText(load.mix);
  return absl::StrFormat("%s,%s,%d,%s,%s,%s,%d,%d,%d,%d,%.6f,", CsvField(AddressesText(load)), MethodName(load),
                         load.requests_per_message, TypesText(load.mix), output, AskedText(load.mix), load.connections,
                         load.loop == Loop::kOpen ? load.max_in_flight : load.in_flight, load.processes, load.threads,
                         run.seconds);
}

// What was not measured.
std::string OrEmpty(double value) { return std::isnan(value) ? "" : FigureText(value, 3); }

std::string Line(const RunResult& run, const ClassFigures& of) {
  const LatencyFigures& f = of.latency;
  const std::string server = OrEmpty(run.server_cores);
  std::string text = Setup(run);
  absl::StrAppendFormat(&text, "%s,%d,%s,%.6f,%s,%s,%s,%s,%s,%d,%d,%d,%.3f,%s,", CsvField(of.name), f.count,
                        RateText(of.per_second), of.gigabytes_per_second, OrEmpty(f.at_us[0]), OrEmpty(f.at_us[1]),
                        OrEmpty(f.at_us[2]), OrEmpty(f.at_us[3]), OrEmpty(f.max_us), Sum(run.errors), run.verified,
                        run.wrong, run.generator.cpu_cores, server);
  absl::StrAppendFormat(&text, "%s,%s,%s,%s,%s,%s,%s,%s,%s,%d,%d,%d,%d,", CsvField(run.name),
                        run.load.loop == Loop::kOpen ? "open" : "closed", RateText(run.offered_per_s),
                        RateText(run.goodput_per_s), OrEmpty(f.mean_us), OrEmpty(f.at_us[4]),
                        OrEmpty(run.service.at_us[0]), OrEmpty(run.service.at_us[2]), OrEmpty(run.lag.at_us[2]),
                        run.sent, run.dropped(), run.late, run.generator.limited() ? 1 : 0);
  absl::StrAppendFormat(&text, "%d,%d,%s,%s,%s,%s\n", run.attempts(), run.retries(),
                        ByAddress(run, &AddressFigures::attempts), ByAddress(run, &AddressFigures::answered),
                        ByAddress(run, &AddressFigures::failed), TlsName(run.load));
  return text;
}

}  // namespace

std::string ReportCsv(const Outcome& outcome, bool with_header) {
  std::string text = with_header ? kHeader : "";
  for (const RunResult& run : outcome.runs) {
    for (const ClassFigures& of : run.classes) text += Line(run, of);
    if (run.classes.size() > 1) text += Line(run, {"total", run.achieved_per_s, run.gigabytes_per_s, run.latency});
  }
  return text;
}

}  // namespace softmax::client

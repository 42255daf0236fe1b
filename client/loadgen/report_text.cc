#include <absl/strings/str_format.h>

#include "client/loadgen/report.h"

namespace softmax::client {
namespace {

std::string TableRow(const std::string& shape, const LatencyFigures& f) {
  return absl::StrFormat("%-16s %12d %12.0f %9.3f %10.1f %10.1f %10.1f %10.1f %10.1f\n", shape, f.calls,
                         f.calls_per_second, f.gigabytes_per_second, f.p50_us, f.p90_us, f.p99_us, f.p999_us, f.max_us);
}

std::string ErrorText(const Report& report) {
  if (report.error_count == 0) return "errors     none\n";
  std::string text = "errors    ";
  for (int code = 0; code < kCodes; ++code) {
    const std::uint64_t count = report.errors[static_cast<std::size_t>(code)];
    if (count > 0) text += absl::StrFormat(" %s %d", CodeName(code), count);
  }
  return text + "; the first: " + report.first_error + "\n";
}

std::string VerifiedText(const LoadOptions& options, const Report& report) {
  if (options.checking == Checking::kSizesOnly) return "verified   sizes only\n";
  std::string text = absl::StrFormat(
      "verified   %d answers (%d judged against double, the others equal to a judged one): %d "
      "wrong\n",
      report.verified, report.judged, report.wrong);
  if (report.wrong > 0) text += "           the first: " + report.first_wrong + "\n";
  return text;
}

std::string CpuText(const Report& report) {
  const auto per_call = [&](double cores) {
    return report.total.calls_per_second > 0 ? cores / report.total.calls_per_second * 1e6 : 0;
  };
  std::string text = absl::StrFormat("cpu        generator %.2f cores, %.1f us per request", report.generator_cores,
                                     per_call(report.generator_cores));
  if (report.server_cores >= 0) {
    text +=
        absl::StrFormat("; server %.2f cores, %.1f us per request", report.server_cores, per_call(report.server_cores));
  }
  return text + "\n";
}

std::string JsonString(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += absl::StrFormat("\\u%04x", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string JsonFigures(const std::string& shape, const LatencyFigures& f) {
  return absl::StrFormat(
      "{\"shape\": %s, \"calls\": %d, \"calls_per_second\": %.1f, \"gb_per_second\": %.6f, "
      "\"p50_us\": %.3f, \"p90_us\": %.3f, \"p99_us\": %.3f, \"p999_us\": %.3f, \"max_us\": %.3f}",
      JsonString(shape), f.calls, f.calls_per_second, f.gigabytes_per_second, f.p50_us, f.p90_us, f.p99_us, f.p999_us,
      f.max_us);
}

const char* MethodName(const LoadOptions& options) { return options.method == Method::kStream ? "stream" : "unary"; }

std::string ServerCores(const Report& report, const char* absent) {
  return report.server_cores < 0 ? absent : absl::StrFormat("%.3f", report.server_cores);
}

}  // namespace

std::string ReportTable(const LoadOptions& options, const Report& report) {
  std::string text = absl::StrFormat(
      "%s  %s %s  %s  %d connections x %d in flight  %d processes x %d threads  %.2f s%s\n", options.address,
      NameOf(options.dtype), NameOf(options.operation), MethodName(options), options.connections, options.in_flight,
      options.processes, options.threads, report.seconds, report.interrupted ? "  (interrupted)" : "");
  text += absl::StrFormat("%-16s %12s %12s %9s %10s %10s %10s %10s %10s\n", "shape", "requests", "requests/s", "GB/s",
                          "p50 us", "p90 us", "p99 us", "p99.9 us", "max us");
  for (std::size_t s = 0; s < report.shapes.size(); ++s) {
    text += TableRow(ShapeText(options.shapes[s].shape), report.shapes[s]);
  }
  if (report.shapes.size() > 1) text += TableRow("total", report.total);
  text += ErrorText(report) + VerifiedText(options, report) + CpuText(report);
  if (report.lost_process) text += "A sending process ended badly: the figures are incomplete.\n";
  return text;
}

std::string ReportJson(const LoadOptions& options, const Report& report) {
  std::string errors;
  for (int code = 0; code < kCodes; ++code) {
    const std::uint64_t count = report.errors[static_cast<std::size_t>(code)];
    if (count == 0) continue;
    errors += absl::StrFormat("%s\"%s\": %d", errors.empty() ? "" : ", ", CodeName(code), count);
  }
  std::string shapes;
  for (std::size_t s = 0; s < report.shapes.size(); ++s) {
    if (s > 0) shapes += ",\n    ";
    shapes += JsonFigures(ShapeText(options.shapes[s].shape), report.shapes[s]);
  }
  return absl::StrFormat(
      "{\n  \"address\": %s,\n  \"method\": \"%s\", \"requests_per_message\": %d,\n"
      "  \"dtype\": \"%s\", \"output_dtype\": \"%s\", \"op\": \"%s\", \"seed\": %d,\n"
      "  \"connections\": %d, \"in_flight\": %d, \"processes\": %d, \"threads\": %d,\n"
      "  \"seconds\": %.6f, \"interrupted\": %s, \"complete\": %s,\n"
      "  \"total\": %s,\n  \"shapes\": [\n    %s\n  ],\n"
      "  \"errors\": {%s}, \"first_error\": %s,\n"
      "  \"verified\": %d, \"judged\": %d, \"wrong\": %d, \"first_wrong\": %s,\n"
      "  \"generator_cores\": %.3f, \"server_cores\": %s\n}\n",
      JsonString(options.address), MethodName(options), options.requests_per_message, NameOf(options.dtype),
      NameOf(options.answer_dtype()), NameOf(options.operation), options.seed, options.connections, options.in_flight,
      options.processes, options.threads, report.seconds, report.interrupted ? "true" : "false",
      report.lost_process ? "false" : "true", JsonFigures("total", report.total), shapes, errors,
      JsonString(report.first_error), report.verified, report.judged, report.wrong, JsonString(report.first_wrong),
      report.generator_cores, ServerCores(report, "null"));
}

std::string ReportCsv(const LoadOptions& options, const Report& report, bool with_header) {
  std::string text;
  if (with_header) {
    text =
        "address,method,requests_per_message,dtype,output_dtype,op,connections,in_flight,processes,"
        "threads,seconds,shape,requests,requests_per_second,gb_per_second,p50_us,p90_us,p99_us,"
        "p999_us,max_us,errors,verified,wrong,generator_cores,server_cores\n";
  }
  const auto add = [&](const std::string& shape, const LatencyFigures& f) {
    text += absl::StrFormat("%s,%s,%d,%s,%s,%s,%d,%d,%d,%d,%.6f,", options.address, MethodName(options),
                            options.requests_per_message, NameOf(options.dtype), NameOf(options.answer_dtype()),
                            NameOf(options.operation), options.connections, options.in_flight, options.processes,
                            options.threads, report.seconds);
    text += absl::StrFormat("%s,%d,%.1f,%.6f,%.3f,%.3f,%.3f,%.3f,%.3f,%d,%d,%d,%.3f,%s\n", shape, f.calls,
                            f.calls_per_second, f.gigabytes_per_second, f.p50_us, f.p90_us, f.p99_us, f.p999_us,
                            f.max_us, report.error_count, report.verified, report.wrong, report.generator_cores,
                            ServerCores(report, ""));
  };
  for (std::size_t s = 0; s < report.shapes.size(); ++s) {
    add(ShapeText(options.shapes[s].shape), report.shapes[s]);
  }
  if (report.shapes.size() > 1) add("total", report.total);
  return text;
}

}  // namespace softmax::client

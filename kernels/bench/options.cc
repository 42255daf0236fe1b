#include "kernels/bench/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <set>
#include <sstream>
#include <thread>

#include "kernels/bench/built_in.h"
#include "kernels/bench/suite.h"
#include "kernels/operations.h"

namespace softmax::kernels::bench {
namespace {

const std::vector<std::string> kProviders = {kOurs,  kCopy,        "naive",          "row_persistent", "rows_per_block",
                                             "warp", "block_smem", "block_uncached", "cudnn",          "onednn"};

// What stands on the command line, before it is checked as a whole.
struct RawOptions {
  Options options;
  std::vector<std::string> suites;
  std::vector<std::string> shapes;
  std::vector<std::string> dtypes;
  std::vector<std::string> operations;
  std::int64_t tensor_bytes = 256 << 20;
};

void AddOptions(CLI::App& app, RawOptions& raw) {
  Options& o = raw.options;
  o.providers = {kOurs, kCopy};
  o.run.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  app.add_option("--suite", raw.suites, "a file of shapes, or one of " + BuiltInNames() + "; may be repeated");
  app.add_option("--shape", raw.shapes, "4096x1024, rows by columns; may be repeated");
  app.add_option(
         "--dtype", raw.dtypes,
         "of --shape, and a filter of --suite: fp32, fp16, bf16, fp64, or bf16>fp32 where the output has another type; "
         "default fp32, and all of a suite")
      ->delimiter(',')
      ->check(CLI::Validator(
          [](const std::string& types) { return ParseTypes(types) ? "" : types + " is no type, and no two with >"; },
          "TYPE"));
  app.add_option("--op", raw.operations, "of --shape, and a filter of --suite; default softmax, and all of a suite")
      ->delimiter(',')
      ->check(CLI::Validator(
          [](const std::string& name) {
            Point point;
            return ParseOperation(name, &point) ? ""
                                                : name + " is not " + OperationNames(" or ") + ", nor such with +top20";
          },
          "OP"));
  app.add_option("--providers", o.providers, "what is measured")
      ->delimiter(',')
      ->check(CLI::IsMember(kProviders))
      ->default_str("softmax,copy");
  app.add_option("--samples", o.run.samples, "of each provider at each point")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--tensor-bytes", raw.tensor_bytes, "size of the input where a suite has M = fill")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::PositiveNumber)
      ->default_str("256MiB");
  app.add_option("--seed", o.run.seed, "of the widths that a suite draws, and of the values")->capture_default_str();
  app.add_option("--threads", o.run.threads, "of the sections cpu_all")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--csv", o.csv, "file of results; standard output if unset");
  app.add_flag("--resume", o.resume, "go on with the file: measure what it has no ratio of")->needs("--csv");
  app.add_option("--json", o.json, "also write the results of this run as JSON");
  app.add_option("--max-seconds", o.max_seconds, "start no point after so long; 0: no limit")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--cudnn", o.run.cudnn, "path of libcudnn.so, where the loader does not find it");
  app.add_flag("--list", o.list, "print the points and end");
}

std::string JoinedOr(const std::vector<std::string>& names, const char* default_name) {
  std::string joined = names.empty() ? default_name : names.front();
  for (std::size_t i = 1; i < names.size(); ++i) joined.append(",").append(names[i]);
  return joined;
}

// 4096x1024 in every type that was asked for. False: not a shape.
bool AddShape(const std::string& text, const RawOptions& raw, const SuiteSettings& settings,
              std::vector<Point>* points) {
  const std::size_t cross = text.find('x');
  if (text.find_first_not_of("0123456789x") != std::string::npos || cross == std::string::npos) return false;
  std::ostringstream line;
  line << "throughput " << JoinedOr(raw.dtypes, "fp32") << " " << JoinedOr(raw.operations, "softmax") << " "
       << text.substr(0, cross) << " " << text.substr(cross + 1);
  return ParseSuite(line.str(), settings, points).empty();
}

bool IsAmong(const std::vector<std::string>& names, const std::string& name) {
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

// Returns what is wrong, or an empty string.
std::string AddPoints(RawOptions& raw) {
  const SuiteSettings settings{raw.tensor_bytes, raw.options.run.seed};
  std::vector<Point> points;
  for (const std::string& suite : raw.suites) {
    std::string text;
    std::string problem = LoadSuite(suite, &text);
    std::vector<Point> of_suite;
    if (problem.empty()) problem = ParseSuite(text, settings, &of_suite);
    if (!problem.empty()) return std::string("--suite ").append(suite).append(": ").append(problem);
    for (const Point& point : of_suite) {
      if (IsAmong(raw.dtypes, TypesOf(point)) && IsAmong(raw.operations, OperationOf(point))) {
        points.push_back(point);
      }
    }
  }
  for (const std::string& shape : raw.shapes) {
    if (!AddShape(shape, raw, settings, &points)) {
      return std::string("--shape ").append(shape).append(": expected rows by columns, as 4096x1024");
    }
  }
  if (points.empty()) return raw.suites.empty() ? "--suite or --shape is needed" : "--dtype and --op leave no point";
  // A width that was drawn may be one that is there already.
  std::set<std::string> seen;
  for (const Point& point : points) {
    if (seen.insert(Key(point, "")).second) raw.options.points.push_back(point);
  }
  return "";
}

}  // namespace

std::optional<Options> ParseCommandLine(int argc, const char* const* argv, int* exit_code) {
  RawOptions raw;
  CLI::App app("Times softmax kernels beside a copy of the same bytes.", "softmax-kernel-bench");
  app.footer(
      "Example: softmax-kernel-bench --suite tutorial --csv out.csv\n"
      "Exit codes: 0 done; 1 a point failed; 2 wrong usage; 3 --max-seconds were over, points are left (--resume).");
  AddOptions(app, raw);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    *exit_code = app.exit(error) == 0 ? 0 : 2;
    return std::nullopt;
  }
  const std::string problem = AddPoints(raw);
  if (!problem.empty()) {
    std::fprintf(stderr, "softmax-kernel-bench: %s\n", problem.c_str());
    *exit_code = 2;
    return std::nullopt;
  }
  return raw.options;
}

}  // namespace softmax::kernels::bench

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>

#include "client/loadgen/compare/results_file.h"

namespace softmax::client {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kGenerators = 4;
constexpr int kAllRequests = 200000;

// What a run of these latencies would report.
RunResult RunOf(const Histogram& latency, int part) {
  RunResult run;
  run.name = "rate 20000/s";
  run.load.loop = Loop::kOpen;
  run.part = part;
  run.parts = kGenerators;
  run.seconds = 10;
  run.began_s = 1e9 + part * 0.001;
  run.latency = run.service = run.lag = FiguresOf(latency);
  run.sent = run.latency.count;
  run.late = 3;
  run.achieved_per_s = run.offered_per_s = static_cast<double>(run.sent) / run.seconds;
  run.classes = {{"1x8", run.achieved_per_s, 0.5, run.latency}};
  run.addresses = {{"a:1", run.sent, run.sent, 0}};
  run.generator.cpu_cores = 0.5;
  run.timeline = {{.t_s = 5, .sent = 100, .answered = 100, .p50_us = 10.0 + part, .p99_us = 20.0 + part},
                  {.t_s = 10 + part * 0.01, .sent = 50, .answered = 0}};
  return run;
}

// As they are read back from a file.
ResultsFile FileOf(const RunResult& run, const std::string& path) {
  Outcome outcome;
  outcome.runs = {run};
  Plan plan;
  plan.load.mix.shapes = {{{1, 8}}};
  plan.load.part = run.part;
  plan.load.parts = run.parts;
  ResultsFile file;
  file.path = path;
  file.outcome = *ReadReport(ReportJson(plan, outcome), &file.head);
  return file;
}

struct Measurement {
  Measurement() {
    std::mt19937_64 random(7);
    std::lognormal_distribution<double> latency(std::log(250000.0), 1.2);
    std::vector<std::unique_ptr<Histogram>> parts;
    for (int part = 0; part < kGenerators; ++part) parts.push_back(std::make_unique<Histogram>());
    for (int i = 0; i < kAllRequests; ++i) {
      const auto ns = static_cast<std::uint64_t>(latency(random));
      all->Record(ns);
      parts[static_cast<std::size_t>(i % kGenerators)]->Record(ns);
    }
    for (int part = 0; part < kGenerators; ++part) {
      files.push_back(FileOf(RunOf(*parts[static_cast<std::size_t>(part)], part), std::to_string(part) + ".json"));
    }
  }

  std::unique_ptr<Histogram> all = std::make_unique<Histogram>();
  std::vector<ResultsFile> files;
};

void ExpectSame(const LatencyFigures& figures, const LatencyFigures& wanted) {
  EXPECT_EQ(figures.count, wanted.count);
  EXPECT_EQ(figures.min_us, wanted.min_us);
  EXPECT_EQ(figures.max_us, wanted.max_us);
  EXPECT_NEAR(figures.mean_us, wanted.mean_us, wanted.mean_us * 1e-9);
  EXPECT_EQ(figures.at_us, wanted.at_us);
  ASSERT_EQ(figures.histogram.size(), wanted.histogram.size());
  for (std::size_t i = 0; i < wanted.histogram.size(); ++i) {
    EXPECT_EQ(figures.histogram[i].ns, wanted.histogram[i].ns);
    EXPECT_EQ(figures.histogram[i].n, wanted.histogram[i].n);
  }
}

TEST(MergeTest, FourGeneratorsHaveTheHistogramOfOne) {
  const Measurement measured;
  const auto merged = MergeResults(measured.files);
  ASSERT_TRUE(merged.ok()) << merged.status();
  const RunResult& run = merged->outcome.runs[0];
  const LatencyFigures wanted = FiguresOf(*measured.all);
  for (const LatencyFigures* figures : {&run.latency, &run.service, &run.lag, &run.classes[0].latency}) {
    ExpectSame(*figures, wanted);
  }
  EXPECT_EQ(run.sent, kAllRequests);
  EXPECT_EQ(run.late, 3u * kGenerators);
  EXPECT_DOUBLE_EQ(run.achieved_per_s, kAllRequests / 10.0);
  EXPECT_DOUBLE_EQ(run.classes[0].per_second, kAllRequests / 10.0);
  EXPECT_EQ(run.addresses[0].attempts, kAllRequests);
  EXPECT_DOUBLE_EQ(run.generator.cpu_cores, 2);
  EXPECT_EQ(run.generators.size(), kGenerators);
  EXPECT_TRUE(run.complete);
  EXPECT_THAT(run.verdicts, ElementsAre());
  EXPECT_EQ(TextOf(merged->head.settings, "part"), "");
}

TEST(MergeTest, StretchesOfTheTimelineAddUp) {
  const auto merged = MergeResults(Measurement().files);
  ASSERT_TRUE(merged.ok());
  const std::vector<TimelinePoint>& timeline = merged->outcome.runs[0].timeline;
  ASSERT_EQ(timeline.size(), 2u);
  EXPECT_EQ(timeline[0].sent, 400u);
  EXPECT_EQ(timeline[0].answered, 400u);
  EXPECT_DOUBLE_EQ(timeline[0].p50_us, 11.5);
  EXPECT_EQ(timeline[0].p99_us, 23);
  EXPECT_EQ(timeline[1].sent, 200u);
  EXPECT_TRUE(std::isnan(timeline[1].p50_us));
}

TEST(MergeTest, AGeneratorThatDiedIsNamedWithItsPart) {
  Measurement measured;
  measured.files[2] = {};
  measured.files[2].path = "2.json";
  measured.files[2].problem = "cannot be read: No such file or directory";
  const auto merged = MergeResults(measured.files);
  ASSERT_TRUE(merged.ok()) << merged.status();
  const RunResult& run = merged->outcome.runs[0];
  EXPECT_FALSE(run.complete);
  EXPECT_EQ(ExitCodeFor(Plan(), merged->outcome), 1);
  EXPECT_THAT(run.verdicts, Contains("No result of 2.json: cannot be read: No such file or directory."));
  EXPECT_THAT(run.verdicts, Contains("Part 2 of 4 is missing: 25.0 % of the load was not sent, or not reported."));
  EXPECT_EQ(run.sent, kAllRequests * 3 / 4);

  measured.files.pop_back();  // and one that was forgotten
  EXPECT_THAT(MergeResults(measured.files)->outcome.runs[0].verdicts,
              Contains("Part 2, 3 of 4 is missing: 50.0 % of the load was not sent, or not reported."));
}

TEST(MergeTest, SaysWhatOneGeneratorSaw) {
  Measurement measured;
  RunResult& run = measured.files[1].outcome.runs[0];
  run.generator.why = "it was slow";
  run.machine_busy = 0.99;
  run.interrupted = true;
  run.seconds = 4;
  run.began_s += 2;
  const RunResult merged = MergeResults(measured.files)->outcome.runs[0];
  EXPECT_TRUE(merged.generator.limited());
  EXPECT_EQ(merged.generator.why, "1.json: it was slow; 1.json: its machine was full");
  EXPECT_THAT(merged.verdicts, Contains("1.json was interrupted after 4.00 s."));
  EXPECT_THAT(merged.verdicts, Contains(HasSubstr("The window of 1.json began 2.001 s after the first one's")));
  // What it did in its four seconds, of the ten.
  EXPECT_DOUBLE_EQ(merged.achieved_per_s, 5000 * 3 + 5000 * 0.4);
}

TEST(MergeTest, TheLevelIsThatOfAllRequests) {
  Measurement measured;
  for (ResultsFile& file : measured.files) {
    file.head.settings.emplace_back("slo", "p99.9<=2ms");
    RunResult& run = file.outcome.runs[0];
    run.load.slo.limit = std::chrono::milliseconds(2);
    run.within_slo = run.part == 0 ? 0.994 : 1;
  }
  const RunResult merged = MergeResults(measured.files)->outcome.runs[0];
  EXPECT_NEAR(merged.within_slo, 0.9985, 1e-9);
  EXPECT_FALSE(KeepsSlo(merged)) << "p99.9 is asked for";
}

TEST(MergeTest, RefusesWhatIsNotOneMeasurement) {
  const Measurement measured;
  const auto problem_of = [&](auto change) {
    std::vector<ResultsFile> files = measured.files;
    change(files[1]);
    return std::string(MergeResults(files).status().message());
  };
  EXPECT_EQ(problem_of([](ResultsFile& file) { file.outcome.runs[0].name = "rate 5/s"; }),
            "1.json: runs[0] is rate 5/s, one of 4 parts; of 0.json it is rate 20000/s, one of 4");
  EXPECT_EQ(problem_of([](ResultsFile& file) { file.outcome.runs[0].part = 3; }), "3.json: part 3/4 is there twice");
  EXPECT_EQ(problem_of([](ResultsFile& file) { file.outcome.runs[0].parts = 2; }),
            "1.json: runs[0] is rate 20000/s, one of 2 parts; of 0.json it is rate 20000/s, one of 4");
  EXPECT_EQ(problem_of([](ResultsFile& file) { file.outcome.runs.emplace_back(); }),
            "1.json: has 2 runs, 0.json has 1");
  EXPECT_THAT(problem_of([](ResultsFile& file) { file.outcome.runs[0].latency.histogram.clear(); }),
              HasSubstr("1.json: runs[0].latency.histogram has not all requests"));
  EXPECT_EQ(problem_of([](ResultsFile& /*file*/) {}), "");
  ResultsFile alone = measured.files[0];
  alone.outcome.runs[0].parts = 1;
  EXPECT_EQ(MergeResults({alone, alone}).status().message(), "0.json: 0.json is there twice");
}

TEST(MergeTest, NothingToMergeIsAnError) {
  const auto merged = MergeResults(ReadResults({"/nonexistent/a.json"}));
  EXPECT_THAT(merged.status().message(), HasSubstr("no result; of /nonexistent/a.json: "));
}

TEST(MergeTest, ClosedLoopsHaveTheirRequestsInFlightTogether) {
  Measurement measured;
  for (ResultsFile& file : measured.files) {
    RunResult& run = file.outcome.runs[0];
    run.load.loop = Loop::kClosed;
    run.connections = 2;
    run.in_flight = 8;
  }
  EXPECT_EQ(MergeResults(measured.files)->outcome.runs[0].name, "concurrency 64");
}

}  // namespace
}  // namespace softmax::client

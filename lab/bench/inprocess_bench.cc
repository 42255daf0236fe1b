// softmax-inprocess-bench: batching and execution without gRPC. Caller threads do what the server's queue threads do,
// with requests of their own instead of received ones: what the machine could do if the transport were free.
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <numeric>
#include <thread>

#include "common/base/process_settings.h"
#include "common/base/usable_cores.h"
#include "lab/bench/inprocess_caller.h"
#include "server/execution/device_group.h"
#include "server/execution/executor.h"
#include "tests/support/eventually.h"

namespace softmax::bench {
namespace {

using server::Arena;
using server::Backlog;
using server::Executor;

constexpr char kColumns[] =
    "backend,devices,threads,payload_bytes,in_flight,seconds,requests_per_s,GBps,p50_us,p99_us,mean_batch_requests,"
    "launches_per_s,execution_us,cpu_cores,judged,wrong,failed";

struct Options {
  std::string backend = "auto";
  std::vector<int> devices;
  std::uint64_t pose_as = 0;
  std::uint32_t threads = QueuesFor(CoresOfThisProcess().count);
  std::uint32_t cpu_threads = CoresOfThisProcess().count;
  std::uint32_t filler_threads = std::max(1u, CoresOfThisProcess().count / 4);
  std::uint64_t payload_bytes = 4096;
  std::uint64_t columns = 0;
  std::uint32_t in_flight = 0;
  double seconds = 3;
  double warmup = 0.5;
  std::uint64_t arena_bytes = 512ull << 20;
  std::uint64_t slab_bytes = 64 << 10;
  server::Batcher::Options batcher;
  std::string csv;
};

void AddFlags(CLI::App& app, Options& options) {
  app.option_defaults()->always_capture_default();
  app.add_option("--backend", options.backend, "auto, cuda, cpu or null (nothing is computed)")
      ->check(CLI::IsMember({"auto", "cuda", "cpu", "null"}));
  app.add_option("--devices", options.devices, "CUDA devices, such as 0,1; all if unset")->delimiter(',');
  app.add_option("--pose-as", options.pose_as,
                 "one device poses as so many (for tests of the choice); 0: those there are")
      ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{server::FaultPlan::kMaxDevices}));
  app.add_option("--threads", options.threads, "caller threads, each with a lane of its own on every device")
      ->check(CLI::Range(1, 256));
  app.add_option("--cpu-threads", options.cpu_threads, "workers of the CPU backend")->check(CLI::Range(1, 1024));
  app.add_option("--filler-threads", options.filler_threads, "threads that copy large requests")
      ->check(CLI::Range(1, 256));
  app.add_option("--payload", options.payload_bytes, "bytes of one request (4096, 1MiB), float32")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::uint64_t{4}, std::uint64_t{1} << 30));
  app.add_option("--columns", options.columns, "length of its rows; 0: one row")
      ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1} << 28));
  app.add_option("--in-flight", options.in_flight, "requests a thread keeps unanswered; 0: 8 MiB of them, 4 to 512")
      ->check(CLI::Range(0, 65536));
  app.add_option("--seconds", options.seconds, "measured")->check(CLI::Range(0.05, 3600.0));
  app.add_option("--warmup", options.warmup, "seconds before")->check(CLI::Range(0.0, 600.0));
  app.add_option("--arena-bytes", options.arena_bytes, "as the server's")->transform(CLI::AsSizeValue(false));
  app.add_option("--max-batch-bytes", options.batcher.batch.bytes, "as the server's")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::uint64_t{1} << 10, std::uint64_t{1} << 30));
  app.add_option("--max-batch-requests", options.batcher.batch.requests, "as the server's")
      ->check(CLI::Range(1, 65536));
  app.add_option("--max-in-flight-batches", options.batcher.max_in_flight, "as the server's")->check(CLI::Range(1, 64));
  app.add_option("--csv", options.csv, "append a line to this file too");
}

// Empty: well. Fills in what 0 stands for.
std::string Check(Options& options) {
  const std::uint64_t elements = options.payload_bytes / 4;
  if (options.payload_bytes % 4 != 0) return "--payload: not a multiple of 4 (float32)";
  if (options.columns == 0) options.columns = elements;
  if (elements % options.columns != 0) {
    return "--columns " + std::to_string(options.columns) + ": does not divide the " + std::to_string(elements) +
           " elements of --payload";
  }
  if (options.arena_bytes % options.slab_bytes != 0 || options.arena_bytes == 0) {
    return "--arena-bytes: must be a multiple of " + std::to_string(options.slab_bytes) + ", and not 0";
  }
  if (options.payload_bytes > options.arena_bytes / 2) return "--payload: more than half of --arena-bytes";
  if (options.in_flight == 0) {
    options.in_flight =
        static_cast<std::uint32_t>(std::clamp<std::uint64_t>((8u << 20) / options.payload_bytes, 4, 512));
  }
  // As server/app/component_options.cc has it.
  options.batcher.inline_copy_bytes = std::min<std::uint64_t>(1u << 20, options.batcher.batch.bytes);
  return "";
}

server::ExecutorOptions ExecutorOptionsOf(const Options& options) {
  server::ExecutorOptions executor;
  executor.backend = options.backend == "cuda"   ? server::Backend::kCuda
                     : options.backend == "cpu"  ? server::Backend::kCpu
                     : options.backend == "null" ? server::Backend::kNull
                                                 : server::Backend::kAuto;
  executor.devices = options.devices;
  executor.cpu_threads = options.cpu_threads;
  executor.arena_bytes = options.arena_bytes;
  executor.max_in_flight = options.batcher.max_in_flight;
  executor.max_batch_requests = options.batcher.batch.requests;
  return executor;
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Window {
  double seconds = 0;
  double cpu_cores = 0;
};

Window Measure(const Options& options, std::vector<std::unique_ptr<Caller>>& callers) {
  const auto set = [&callers](Caller::Phase phase) {
    for (const auto& caller : callers) caller->Set(phase);
  };
  testing::LetPass(std::chrono::duration<double>(options.warmup));
  const auto begin = SteadyClock::now();
  const double cpu = CpuSeconds();
  set(Caller::Phase::kMeasure);
  testing::LetPass(std::chrono::duration<double>(options.seconds));
  set(Caller::Phase::kStop);
  Window window;
  window.seconds = std::chrono::duration<double>(SteadyClock::now() - begin).count();
  window.cpu_cores = (CpuSeconds() - cpu) / window.seconds;
  for (const auto& caller : callers) caller->Join();
  return window;
}

CallerFigures Sum(const std::vector<std::unique_ptr<Caller>>& callers, client::Histogram* latency) {
  CallerFigures all;
  for (const auto& caller : callers) {
    const CallerFigures& one = caller->figures();
    all.answered += one.answered;
    all.failed += one.failed;
    all.batches += one.batches;
    all.batch_requests += one.batch_requests;
    all.batch_rows += one.batch_rows;
    all.execution += one.execution;
    all.judged += one.judged;
    all.wrong += one.wrong;
    if (all.first_failure.empty()) all.first_failure = one.first_failure;
    latency->Merge(caller->latency());
  }
  return all;
}

std::string Line(const Options& options, const Executor& executor, const Window& window, const CallerFigures& all,
                 const client::Histogram& latency) {
  const double rate = static_cast<double>(all.answered) / window.seconds;
  const double batches = std::max(1.0, static_cast<double>(all.batches));
  std::ostringstream line;
  line << executor.name() << "," << executor.devices().size() << "," << options.threads << "," << options.payload_bytes
       << "," << options.in_flight << "," << window.seconds << "," << rate << ","
       << rate * static_cast<double>(options.payload_bytes) / 1e9 << ","
       << static_cast<double>(latency.Quantile(0.5)) / 1e3 << "," << static_cast<double>(latency.Quantile(0.99)) / 1e3
       << "," << static_cast<double>(all.batch_requests) / batches << ","
       << static_cast<double>(all.batches) / window.seconds << ","
       << static_cast<double>(all.execution.count()) / 1e3 / batches << "," << window.cpu_cores << "," << all.judged
       << "," << all.wrong << "," << all.failed;
  return line.str();
}

void Append(const std::string& path, const std::string& line) {
  std::ofstream file(path, std::ios::app);
  file.seekp(0, std::ios::end);
  if (file.tellp() == 0) file << kColumns << "\n";
  file << line << "\n";
}

int Run(const Options& options) {
  server::Faults posed;
  posed.devices = options.pose_as;
  server::FaultPlan plan(posed);
  server::ExecutorOptions executor_options = ExecutorOptionsOf(options);
  if (options.pose_as > 0) executor_options.faults = &plan;
  auto executor = server::CreateExecutor(executor_options);
  if (!executor.ok()) {
    std::cerr << executor.status().message() << "\n";
    return 3;
  }
  Arena arena((*executor)->memory(), options.arena_bytes, options.slab_bytes);
  Backlog::Options backlog_options;
  backlog_options.threads = options.filler_threads;
  backlog_options.max_requests = std::uint64_t{options.in_flight} * options.threads;
  backlog_options.max_bytes = backlog_options.max_requests * options.payload_bytes;
  Backlog backlog(backlog_options, arena);
  CallerLoad load;
  load.columns = static_cast<std::int64_t>(options.columns);
  load.rows = static_cast<std::int64_t>(options.payload_bytes / 4 / options.columns);
  load.in_flight = options.in_flight;
  load.verify = (*executor)->name() != "null";

  server::DeviceGroup devices(**executor, {.arena_bytes = options.arena_bytes}, nullptr);
  std::vector<std::unique_ptr<Caller>> callers;
  std::vector<std::unique_ptr<server::Lane>> lanes;
  for (std::uint32_t i = 0; i < options.threads; ++i) {
    server::Batcher::Options batcher = options.batcher;
    batcher.home = i;
    callers.push_back(std::make_unique<Caller>(load, batcher, arena, backlog, std::uint64_t{i} * options.in_flight));
    auto lane = devices.CreateLane(callers.back()->wake());
    if (!lane.ok()) {
      std::cerr << lane.status().message() << "\n";
      return 70;
    }
    lanes.push_back(*std::move(lane));
  }
  for (std::uint32_t i = 0; i < options.threads; ++i) callers[i]->Start(std::move(lanes[i]));
  const Window window = Measure(options, callers);
  client::Histogram latency;
  const CallerFigures all = Sum(callers, &latency);
  const std::string line = Line(options, **executor, window, all, latency);
  std::cout << kColumns << "\n" << line << "\n";
  if (!options.csv.empty()) Append(options.csv, line);
  if (all.wrong + all.failed > 0) std::cerr << all.first_failure << "\n";
  backlog.Stop(/*fail=*/false);
  return all.wrong + all.failed == 0 && all.answered > 0 ? 0 : 1;
}

}  // namespace
}  // namespace softmax::bench

int main(int argc, char** argv) {
  softmax::ApplyProcessSettings();
  CLI::App app("Batching and execution without gRPC: requests/s and GB/s of one process's own callers");
  softmax::bench::Options options;
  softmax::bench::AddFlags(app, options);
  CLI11_PARSE(app, argc, argv);
  if (const std::string problem = softmax::bench::Check(options); !problem.empty()) {
    std::cerr << problem << "\n";
    return 2;
  }
  return softmax::bench::Run(options);
}

// Calls/s of the C++ client, for python_client_bench.py to set the Python package beside:
//     client_rate ADDRESS BYTES THREADS SECONDS
// Settings of malloc and gRPC are as they come, as they are in Python.
#include <absl/synchronization/mutex.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "client/softmax_client/softmax_client.h"

int main(int argc, char** argv) {
  using Clock = std::chrono::steady_clock;
  if (argc != 5) return 2;
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  const std::size_t elements = std::strtoull(argv[2], nullptr, 10) / sizeof(float);
  const auto client = softmax::client::Client::Create({.target = argv[1], .deadline = std::chrono::seconds(60)});
  const std::vector<std::int64_t> shape = {static_cast<std::int64_t>(elements / 256), 256};
  std::atomic<std::uint64_t> calls = 0;
  std::atomic<bool> failed = false;
  const auto start = Clock::now();
  const auto end = start + std::chrono::duration<double>(std::atof(argv[4]));
  std::vector<std::jthread> threads;
  for (int i = 0; i < std::atoi(argv[3]); ++i) {
    threads.emplace_back([&] {
      const std::vector<float> values(elements, 0.5F);
      while (Clock::now() < end && !failed) {
        // A new tensor each time, as in Python.
        if (!(*client)->Softmax(softmax::client::ViewOf(values, shape)).ok()) failed = true;
        ++calls;
      }
    });
  }
  threads.clear();
  std::printf("%.1f\n", static_cast<double>(calls) / std::chrono::duration<double>(Clock::now() - start).count());
  return failed ? 1 : 0;
}

#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "tests/end_to_end/books.h"
#include "tests/end_to_end/server_process.h"
#include "tests/end_to_end/service.h"

namespace softmax::testing {

// How calls ended, answers judged.
struct Counts {
  std::atomic<int> right{0}, internal{0}, unavailable{0}, other{0}, wrong{0};
};

// Four callers, each with a connection of its own and without retries, from construction to Stop.
class Callers {
 public:
  explicit Callers(std::string target);
  ~Callers() { Stop(); }
  void Stop();
  // So many more right answers within 30 s?
  bool GetRightAnswers(int more) const;
  const Counts& counts() const { return counts_; }

 private:
  void Call(int number);

  const std::string target_;
  std::atomic<bool> stop_{false};
  Counts counts_;
  std::vector<std::jthread> threads_;
};

// Flags of a server with these faults, which drains quickly.
std::vector<std::string> WithFault(const std::string& fault, const std::vector<std::string>& more = {});

// What the server says of itself.
client::ServerInfo InfoOf(const std::string& target);
// MetricOf as a whole number; -1: no line begins so.
std::int64_t NumberOf(const ServerProcess& server, const std::string& series);
// The health of a service name: "SERVING", "NOT_SERVING", or the error.
std::string HealthOf(const std::string& target, const std::string& service);

bool OnGpu();

}  // namespace softmax::testing

#pragma once

#include <memory>
#include <string>

#include "tests/support/run_program.h"

namespace softmax::client {

// A fake server in a process of its own, which can be killed and started again at the same address.
class ServerProgram {
 public:
  // Waits until it can be reached.
  explicit ServerProgram(const std::string& address, int delay_ms = 0);
  ~ServerProgram();

  const std::string& address() const { return address_; }
  void Kill();  // SIGKILL
  void Stop();  // SIGSTOP: its connections stay, and nobody answers
  void Start();
  // From which requests have come since it was started last.
  int connections() const;

 private:
  const std::string address_;
  const int delay_ms_;
  std::unique_ptr<Program> program_;
};

// 127.0.0.1 with a port that was free a moment ago.
std::string FreeAddress();

}  // namespace softmax::client

#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/end_to_end/books.h"

namespace softmax::testing {

// The real softmax-server program on free loopback ports, its log in a temporary file. Killed at the end if it still
// runs, and was never told to end: a test that leaves something in its books (books.h) fails then.
class ServerProcess {
 public:
  // Waits until it listens; throws its log when it ends instead.
  explicit ServerProcess(const std::vector<std::string>& flags, std::uint64_t descriptor_limit = 0);
  // Waits until it listens or has ended (target() is then empty).
  struct MayFail {};
  ServerProcess(const std::vector<std::string>& flags, MayFail, std::uint64_t descriptor_limit = 0);
  ~ServerProcess();

  const std::string& target() const { return target_; }
  const std::string& metrics() const { return metrics_; }
  pid_t pid() const { return pid_; }
  void Signal(int number);
  // Is stopped for so long, as when a virtual machine is moved.
  void StandStill(std::chrono::milliseconds time);
  // The exit code; -1 when it did not end in time or was killed by a signal.
  int Wait(int timeout_ms);
  std::string Log() const;
  // The rest of the first line that has this; empty: none has.
  std::string FindInLog(const std::string& before) const;
  // The server writes its log from a thread of its own: whether a line comes to have this.
  bool LogComesToHave(const std::string& text) const;
  // From /proc: resident memory in bytes, now and the most so far.
  std::int64_t ResidentBytes() const { return BytesOf("VmRSS:"); }
  std::int64_t PeakResidentBytes() const { return BytesOf("VmHWM:"); }
  bool Running();

 private:
  std::int64_t BytesOf(const std::string& what) const;

  std::string log_path_;
  std::string target_;
  std::string metrics_;
  pid_t pid_ = -1;
  Books books_;  // at the start
  bool told_to_end_ = false;
  int exit_code_ = -1;
  bool ended_ = false;
};

}  // namespace softmax::testing

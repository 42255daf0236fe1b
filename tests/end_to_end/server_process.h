#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace softmax::testing {

// The real softmax-server program on free loopback ports, its log in a temporary file. Killed at the end if it still
// runs.
class ServerProcess {
 public:
  // Waits until it listens, or has ended (target() is then empty).
  explicit ServerProcess(const std::vector<std::string>& flags, std::uint64_t descriptor_limit = 0);
  ~ServerProcess();

  const std::string& target() const { return target_; }
  const std::string& metrics() const { return metrics_; }
  pid_t pid() const { return pid_; }
  void Signal(int number) const;
  // Is stopped for so long, as when a virtual machine is moved.
  void StandStill(std::chrono::milliseconds time) const;
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
  int exit_code_ = -1;
  bool ended_ = false;
};

}  // namespace softmax::testing

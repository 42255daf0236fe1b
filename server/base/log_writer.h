#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace softmax::server {

// Writes lines to a file descriptor from a thread of its own, so that whoever logs never waits for whoever reads. When
// more than `most_bytes` wait to be written, the oldest lines give way; how many did is said before the next one.
class LogWriter {
 public:
  // `lost_line` makes the line that says so. Throws std::system_error when no thread can be had.
  LogWriter(int fd, std::size_t most_bytes, std::function<std::string(std::uint64_t lost)> lost_line);
  // Waits as Flush does, and leaves what is not written then.
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // Any thread.
  void Add(std::string line);

  // Waits until all that was added is written, a second at most. Any thread.
  void Flush();

  // Makes a process that dies of a signal such as SIGABRT wait for this writer as Flush does. One writer at a time.
  void FlushBeforeDeath();

 private:
  struct Queue;

  static void Run(const std::shared_ptr<Queue>& queue);

  const std::shared_ptr<Queue> queue_;  // outlives this where the thread hangs in a write
};

}  // namespace softmax::server

#pragma once

#include <optional>
#include <string>

namespace softmax::server {

// This process as /proc sees it, in Prometheus' base units. A value that cannot be read is absent,
// never 0.
struct ProcessStats {
  std::optional<double> cpu_seconds, resident_bytes, virtual_bytes, start_time_seconds, threads;
  std::optional<double> open_fds, max_fds;
};

// Any thread.
ProcessStats ReadProcessStats();

// The part that comes from the text of /proc/self/stat; times count from boot (`boot_seconds` since
// the epoch).
ProcessStats ParseProcStat(const std::string& stat, std::optional<double> boot_seconds);

}  // namespace softmax::server

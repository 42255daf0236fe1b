#include "server/metrics/process_stats.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <vector>

namespace softmax::server {
namespace {

std::string ReadFile(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::optional<double> BootSeconds() {
  std::istringstream stat(ReadFile("/proc/stat"));
  for (std::string line; std::getline(stat, line);) {
    double seconds = 0;
    if (std::istringstream words(line); line.starts_with("btime ") && words.ignore(6) >> seconds) return seconds;
  }
  return std::nullopt;
}

std::optional<double> OpenFds() {
  DIR* dir = opendir("/proc/self/fd");
  if (dir == nullptr) return std::nullopt;
  double count = 0;
  while (const dirent* entry = readdir(dir)) count += entry->d_name[0] != '.' ? 1 : 0;
  closedir(dir);
  return count - 1;  // the directory itself was open too
}

std::optional<double> MaxFds() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::nullopt;
  return static_cast<double>(limit.rlim_cur);
}

}  // namespace

ProcessStats ParseProcStat(const std::string& stat, std::optional<double> boot_seconds) {
  ProcessStats stats;
  // The second field is the program's name in brackets and may hold spaces and brackets itself.
  const auto name_end = stat.rfind(')');
  if (name_end == std::string::npos) return stats;
  std::istringstream text(stat.substr(name_end + 1));
  const std::vector<std::string> fields{std::istream_iterator<std::string>(text), {}};
  // proc(5) counts from 1 and `fields` starts at the third.
  const auto field = [&](std::size_t number) { return std::strtod(fields[number - 3].c_str(), nullptr); };
  if (fields.size() < 22) return stats;
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  stats.cpu_seconds = (field(14) + field(15)) / ticks;
  stats.threads = field(20);
  if (boot_seconds) stats.start_time_seconds = *boot_seconds + field(22) / ticks;
  stats.virtual_bytes = field(23);
  stats.resident_bytes = field(24) * static_cast<double>(sysconf(_SC_PAGESIZE));
  return stats;
}

ProcessStats ReadProcessStats() {
  static const std::optional<double> boot_seconds = BootSeconds();
  ProcessStats stats = ParseProcStat(ReadFile("/proc/self/stat"), boot_seconds);
  stats.open_fds = OpenFds();
  stats.max_fds = MaxFds();
  return stats;
}

}  // namespace softmax::server

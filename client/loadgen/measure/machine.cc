#include "client/loadgen/measure/machine.h"

#include <sys/timex.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <thread>

namespace softmax::client {
namespace {

// Of the first one; where /proc does not name it (ARM), its architecture.
std::string ProcessorName(const std::string& architecture) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return architecture;
}

// The beginning of a file of /proc; empty when it is not there.
std::string ReadProc(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "r");
  if (file == nullptr) return "";
  char text[1024];
  const std::size_t size = std::fread(text, 1, sizeof(text), file);
  std::fclose(file);
  return std::string(text, size);
}

double FromTicks(unsigned long ticks) { return static_cast<double>(ticks) / static_cast<double>(sysconf(_SC_CLK_TCK)); }

double CpuSecondsOf(int pid) {
  const std::string text = ReadProc("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t after_name = text.rfind(')');  // the name may hold anything
  unsigned long user = 0;
  unsigned long system = 0;
  if (after_name == std::string::npos ||
      std::sscanf(text.c_str() + after_name + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
                  &system) != 2) {
    return 0;
  }
  return FromTicks(user + system);
}

}  // namespace

MachineName ThisMachine() {
  MachineName machine;
  machine.cores = std::thread::hardware_concurrency();
  utsname names{};
  if (uname(&names) != 0) return machine;
  machine.host = names.nodename;
  machine.system = std::string(names.sysname) + " " + names.release;
  machine.processor = ProcessorName(names.machine);
  return machine;
}

std::optional<double> ClockErrorMs() {
  timex clock{};  // asks and sets nothing
  const int state = adjtimex(&clock);
  if (state < 0 || state == TIME_ERROR || (clock.status & STA_UNSYNC) != 0) return std::nullopt;
  return static_cast<double>(clock.maxerror) / 1e3;
}

double CpuSecondsOf(const std::vector<int>& pids) {
  double seconds = 0;
  for (const int pid : pids) seconds += CpuSecondsOf(pid);
  return seconds;
}

std::optional<MachineTimes> ReadMachineTimes() {
  const std::string text = ReadProc("/proc/stat");
  unsigned long user = 0, nice = 0, system = 0, idle = 0, waiting = 0, irq = 0, soft_irq = 0, stolen = 0;
  if (std::sscanf(text.c_str(), "cpu %lu %lu %lu %lu %lu %lu %lu %lu", &user, &nice, &system, &idle, &waiting, &irq,
                  &soft_irq, &stolen) != 8) {
    return std::nullopt;
  }
  MachineTimes times;
  times.busy = FromTicks(user + nice + system + irq + soft_irq + stolen);
  times.total = times.busy + FromTicks(idle + waiting);
  return times;
}

}  // namespace softmax::client

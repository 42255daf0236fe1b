#include "client/loadgen/measure/machine_name.h"

#include <sys/utsname.h>

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

}  // namespace softmax::client

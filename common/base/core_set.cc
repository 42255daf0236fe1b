#include "common/base/core_set.h"

#include <sstream>

namespace softmax {

CoreSet ParseCores(const std::string& list) {
  CoreSet cores;
  std::istringstream ranges(list);
  for (std::string range; std::getline(ranges, range, ',');) {
    std::istringstream numbers(range);
    std::size_t first = 0;
    if (!(numbers >> first)) return {};
    std::size_t last = first;
    if (char dash = 0; numbers >> dash && (dash != '-' || !(numbers >> last))) return {};
    if (!(numbers >> std::ws).eof() || first > last || last >= cores.size()) return {};
    for (std::size_t core = first; core <= last; ++core) cores.set(core);
  }
  return cores;
}

std::string FormatCores(const CoreSet& cores) {
  std::string list;
  for (std::size_t first = 0; first < cores.size(); ++first) {
    if (!cores[first]) continue;
    std::size_t last = first;
    while (last + 1 < cores.size() && cores[last + 1]) ++last;
    list += (list.empty() ? "" : ",") + std::to_string(first) + (last > first ? "-" + std::to_string(last) : "");
    first = last;
  }
  return list;
}

CoreSet CoresOfThread() {
  CoreSet cores;
  cpu_set_t mask;
  // A machine of more cores than the set holds tells none.
  if (sched_getaffinity(0, sizeof(mask), &mask) != 0) return cores;
  for (std::size_t core = 0; core < cores.size(); ++core) cores[core] = CPU_ISSET(core, &mask);
  return cores;
}

void StayOn(const CoreSet& cores) {
  if (cores.none()) return;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (std::size_t core = 0; core < cores.size(); ++core) {
    if (cores[core]) CPU_SET(core, &mask);
  }
  (void)sched_setaffinity(0, sizeof(mask), &mask);  // refused: it stays where it is
}

}  // namespace softmax

#include "kernels/bench/cpu/pin.h"

#include <sched.h>

namespace softmax::kernels::bench {
namespace {

// The process's own set, asked for before any thread was pinned: threads inherit what their maker has.
cpu_set_t AllowedCores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof(cores), &cores) != 0) CPU_ZERO(&cores);
  return cores;
}

}  // namespace

void PinToCore(int index) {
  static const cpu_set_t allowed = AllowedCores();
  const int count = CPU_COUNT(&allowed);
  if (count == 0) return;
  int left = index % count;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed) || left-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof(one), &one);
    return;
  }
}

}  // namespace softmax::kernels::bench

#pragma once

#include <sched.h>

#include <bitset>
#include <string>

namespace softmax {

// Cores by their numbers. Nothing in it: not told, or any.
using CoreSet = std::bitset<CPU_SETSIZE>;

// "0-3,8", as /sys lists cores; nothing for what is not such a list.
CoreSet ParseCores(const std::string& list);
std::string FormatCores(const CoreSet& cores);

// What the calling thread may run on, and what it is to run on from now on; an empty set changes nothing.
CoreSet CoresOfThread();
void StayOn(const CoreSet& cores);

// While this lives the calling thread is on those cores, so that memory that it touches first lies near them.
class VisitCores {
 public:
  explicit VisitCores(const CoreSet& cores) : before_(cores.any() ? CoresOfThread() : CoreSet()) { StayOn(cores); }
  ~VisitCores() { StayOn(before_); }
  VisitCores(const VisitCores&) = delete;
  VisitCores& operator=(const VisitCores&) = delete;

 private:
  const CoreSet before_;
};

}  // namespace softmax

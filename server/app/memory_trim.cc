#include "server/app/memory_trim.h"

#include <malloc.h>

#include <chrono>

#include "server/metrics/process_stats.h"

namespace softmax::server {
namespace {

constexpr auto kQuiet = std::chrono::seconds(1);
constexpr auto kPause = std::chrono::seconds(10);
constexpr double kMuch = 64 << 20;

double ResidentBytes() { return ReadProcessStats().resident_bytes.value_or(0); }

}  // namespace

MemoryTrim::MemoryTrim() : resident_at_start_(ResidentBytes()) {}

void MemoryTrim::Look(bool quiet, TimePoint now) {
  if (!quiet) {
    quiet_since_ = kNoDeadline;
    return;
  }
  if (quiet_since_ == kNoDeadline) quiet_since_ = now;
  if (now - quiet_since_ < kQuiet || now < next_) return;
  next_ = now + kPause;
  if (ResidentBytes() - resident_at_start_ > kMuch) malloc_trim(0);
}

}  // namespace softmax::server

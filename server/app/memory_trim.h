#pragma once

#include "common/base/clock.h"

namespace softmax::server {

// Gives memory that has become free back to the system, which glibc does not: after a flood it keeps what small blocks
// lie between, for ever, and a container is killed for what it holds. For one thread.
class MemoryTrim {
 public:
  MemoryTrim();

  // Looked at often, it acts when the process has been quiet for a second, is much larger than at its start, and has
  // not been trimmed for a while: a thread that allocates meanwhile waits.
  void Look(bool quiet, TimePoint now);

 private:
  const double resident_at_start_;
  TimePoint quiet_since_ = kNoDeadline;
  TimePoint next_{};
};

}  // namespace softmax::server

#pragma once

#include <cstdint>
#include <optional>

#include "client/loadgen/measure/board.h"
#include "client/loadgen/plan/arrivals.h"

namespace softmax::client {

// One request of an open loop.
struct Due {
  std::uint64_t position = 0;  // in the run's sequence; the warm-up has its own
  std::int64_t at_ns = 0;      // CLOCK_MONOTONIC
  std::int32_t shape = -1;     // as in Arrival
};

// What one sender has to send and when: first the warm-up at the plan's initial rate, then, from the start of the
// window, the plan. Used by one thread. The plan and the control must outlive it.
class Pacer {
 public:
  Pacer(const ArrivalPlan& plan, const Control& control, std::uint64_t index, std::uint64_t count);

  // What is due next; nothing: the window has no more. May change between two calls when the window's borders do.
  const Due* Peek();
  void Pop() { next_.reset(); }

 private:
  std::optional<Due> NextOf(ArrivalSequence& sequence, std::int64_t begin_ns);

  const Control& control_;
  const ArrivalPlan warmup_plan_;
  ArrivalSequence warmup_;
  ArrivalSequence measured_;
  bool in_warmup_ = true;
  std::optional<Due> next_;
};

}  // namespace softmax::client

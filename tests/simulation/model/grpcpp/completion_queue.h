#pragma once

#include <deque>

#include "tests/simulation/model/interleaver.h"

enum gpr_clock_type { GPR_CLOCK_MONOTONIC };
struct gpr_timespec {};
inline gpr_timespec gpr_inf_past(gpr_clock_type /*clock*/) { return {}; }

// In place of gRPC's in the models: one thread waits for what alarms put in.
namespace grpc {

class CompletionQueue {
 public:
  // As gRPC's, but that it waits without an end.
  void Next(void** tag) {
    softmax::simulation::Interleaver::WaitFor(&is_empty_);
    *tag = events_.front().tag;
    *events_.front().delivered = true;
    events_.pop_front();
    is_empty_ = events_.empty();
  }
  void Shutdown() {
    softmax::simulation::Interleaver::Step();
    is_shut_ = true;
  }
  // An alarm was set on a queue that is shut down, where gRPC aborts, or freed before it was delivered.
  bool misused() const { return misused_; }

 private:
  friend class Alarm;
  struct Event {
    void* tag;
    bool* delivered;
  };
  std::deque<Event> events_;
  bool is_empty_ = true;
  bool is_shut_ = false;
  bool misused_ = false;
};

}  // namespace grpc

#include "tests/end_to_end/late_events.h"

#include <dlfcn.h>
#include <grpc/grpc.h>

#include <atomic>
#include <chrono>
#include <optional>

namespace softmax::testing {
namespace {

using Clock = std::chrono::steady_clock;
using Next = grpc_event(grpc_completion_queue*, gpr_timespec, void*);

std::atomic<int> hold_ms{0};
std::atomic<bool> came_late{false};

struct Held {
  grpc_completion_queue* queue;
  grpc_event event;
  Clock::time_point until;
};
thread_local std::optional<Held> held;

Next* Real() {
  static Next* const real = reinterpret_cast<Next*>(dlsym(RTLD_NEXT, "grpc_completion_queue_next"));
  return real;
}

// Waits no longer than until the held event is due.
gpr_timespec Limit(gpr_timespec deadline) {
  const gpr_timespec due =
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                   gpr_time_from_nanos(std::chrono::nanoseconds(held->until - Clock::now()).count(), GPR_TIMESPAN));
  return gpr_time_min(gpr_convert_clock_type(deadline, GPR_CLOCK_MONOTONIC), due);
}

grpc_event NextOf(grpc_completion_queue* queue, gpr_timespec deadline, void* reserved) {
  if (!held || held->queue != queue) {
    const grpc_event event = Real()(queue, deadline, reserved);
    if (event.type != GRPC_OP_COMPLETE || event.success == 0) return event;
    const int milliseconds = hold_ms.exchange(0);
    if (milliseconds == 0) return event;
    held = Held{queue, event, Clock::now() + std::chrono::milliseconds(milliseconds)};
  }
  grpc_event event = Real()(queue, Limit(deadline), reserved);
  // A queue is not shut down before its last event is out.
  const bool due = event.type == GRPC_QUEUE_SHUTDOWN || Clock::now() >= held->until;
  if (event.type == GRPC_OP_COMPLETE || !due) return event;
  event = held->event;
  held.reset();
  came_late = true;
  return event;
}

}  // namespace

void HoldBackEvent(int milliseconds) {
  came_late = false;
  hold_ms = milliseconds;
}

bool EventIsHeldBack() { return hold_ms == 0; }

bool EventCameLate() { return came_late; }

}  // namespace softmax::testing

// Instead of gRPC's own, which libgrpc++ calls by this name.
extern "C" grpc_event grpc_completion_queue_next(grpc_completion_queue* queue, gpr_timespec deadline, void* reserved) {
  return softmax::testing::NextOf(queue, deadline, reserved);
}

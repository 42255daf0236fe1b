#include "client/loadgen/send/pacer.h"

namespace softmax::client {
namespace {

constexpr double kEndlessSeconds = 1e9;

ArrivalPlan WarmupPlan(const ArrivalPlan& plan) {
  ArrivalPlan warmup;
  const double rate = plan.InitialRate();
  warmup.segments = {{rate, rate, kEndlessSeconds}};
  warmup.kind = plan.kind;
  warmup.seed = plan.seed ^ 0x77617270u;  // not the same gaps as the window's first ones
  return warmup;
}

}  // namespace

Pacer::Pacer(const ArrivalPlan& plan, const Control& control, std::uint64_t index, std::uint64_t count)
    : control_(control),
      warmup_plan_(WarmupPlan(plan)),
      warmup_(warmup_plan_, index, count),
      measured_(plan, index, count) {}

const Due* Pacer::Peek() {
  const std::int64_t start = control_.start_ns.load(std::memory_order_relaxed);
  if (in_warmup_) {
    if (!next_) next_ = NextOf(warmup_, control_.go_ns.load(std::memory_order_relaxed));
    if (next_->at_ns < start) return &*next_;
    in_warmup_ = false;
    next_.reset();
  }
  if (!next_) next_ = NextOf(measured_, start);
  if (!next_ || next_->at_ns >= control_.end_ns.load(std::memory_order_relaxed)) return nullptr;
  return &*next_;
}

std::optional<Due> Pacer::NextOf(ArrivalSequence& sequence, std::int64_t begin_ns) {
  const std::optional<Arrival> arrival = sequence.Next();
  if (!arrival) return std::nullopt;
  return Due{arrival->position, begin_ns + arrival->offset_ns, arrival->shape};
}

}  // namespace softmax::client

#pragma once

#include <deque>
#include <memory>

#include "server/batching/lane.h"
#include "server/execution/faults.h"

namespace softmax::server {

// Applies a FaultPlan to a device's lane: batches fail, hang or come late as the plan says. Servers without faults have
// none.
class FaultyLane final : public Lane {
 public:
  // `plan` outlives this.
  FaultyLane(std::unique_ptr<Lane> lane, std::uint32_t device, FaultPlan& plan)
      : lane_(std::move(lane)), device_(device), plan_(plan), delay_(plan.DelayOf(device)) {}

  void Launch(Batch* batch) override;
  Batch* Poll() override;
  bool needs_polling() const override { return lane_->needs_polling() || delay_.count() > 0; }
  std::uint64_t gather_bytes() const override { return lane_->gather_bytes(); }

 private:
  struct Late {
    Batch* batch;
    Nanoseconds due;  // by ran_
  };
  void CountTime();

  const std::unique_ptr<Lane> lane_;
  const std::uint32_t device_;
  FaultPlan& plan_;
  const Nanoseconds delay_;
  std::deque<Batch*> failed_;
  std::deque<Late> late_;
  // The time that delays are measured in: it stands still while the process is stopped, as the device of a virtual
  // machine stops together with the machine. Advanced by Poll only.
  Nanoseconds ran_{0};
  TimePoint last_poll_;
};

}  // namespace softmax::server

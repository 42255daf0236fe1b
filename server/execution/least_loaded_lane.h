#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "server/batching/lane.h"
#include "server/execution/devices.h"

namespace softmax::server {

// One thread's lanes, one on each of several devices: a batch goes to the device with the fewest bytes in flight over
// all threads, and one whose requests lie in a device's memory to that device. While devices are tested after a loss,
// batches wait here. Servers with one device have none.
class LeastLoadedLane final : public Lane {
 public:
  // lanes[d] is on device d; `order`: all devices, the first of which is taken where several have equally little to do.
  LeastLoadedLane(std::vector<std::unique_ptr<Lane>> lanes, std::vector<std::uint32_t> order, Devices& devices)
      : order_(std::move(order)), devices_(devices) {
    for (std::unique_ptr<Lane>& lane : lanes) lanes_.push_back({std::move(lane)});
  }

  void Launch(Batch* batch) override;
  Batch* Poll() override;
  bool needs_polling() const override;
  std::uint64_t gather_bytes() const override { return lanes_[0].lane->gather_bytes(); }

 private:
  struct OnDevice {
    std::unique_ptr<Lane> lane;
    std::uint32_t running = 0;
  };
  bool TryLaunch(Batch* batch);

  const std::vector<std::uint32_t> order_;
  Devices& devices_;
  std::vector<OnDevice> lanes_;
  std::uint32_t next_ = 0;  // whose turn to be asked first it is
  std::deque<Batch*> held_;
};

}  // namespace softmax::server

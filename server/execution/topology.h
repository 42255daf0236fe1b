#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/core_set.h"

namespace softmax::server {

// Which cores are near which device, where a machine has several NUMA nodes, and which queue thread is at home where.
// The order of devices is that of Executor::devices(). Immutable.
class Topology {
 public:
  struct Home {
    std::uint32_t device;  // that the thread prefers
    CoreSet cores;         // that it runs on; none: any
  };

  // near[d]: the cores near device d that the process may use; none: all, or not known.
  explicit Topology(std::vector<CoreSet> near) : near_(std::move(near)) {}

  // Threads take turns on the devices. Of those near the same cores only as many stay there as these have queues for:
  // the kernel's part of their work, and callers, need cores as well.
  Home HomeOf(std::uint32_t thread) const;
  // All devices in the order in which a thread at home on the first of them prefers them: those near the same cores,
  // then the others.
  std::vector<std::uint32_t> DevicesFrom(std::uint32_t home) const;

  // "8 threads on cores 0-15 near devices 0, 1; ..."; empty: no thread has cores of its own.
  std::string Describe(std::uint32_t threads) const;

 private:
  const std::vector<CoreSet> near_;
};

// By /sys (under `root`) for devices with these PCI addresses, of which each may be empty. `usable`: the cores that the
// process may use.
Topology ReadTopology(const std::string& root, const std::vector<std::string>& pci_addresses, const CoreSet& usable);

}  // namespace softmax::server

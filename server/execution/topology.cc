#include "server/execution/topology.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <fstream>

#include "common/base/usable_cores.h"

namespace softmax::server {

Topology::Home Topology::HomeOf(std::uint32_t thread) const {
  const auto device_of = [this](std::uint32_t of) { return static_cast<std::uint32_t>(of % near_.size()); };
  const std::uint32_t device = device_of(thread);
  const CoreSet& cores = near_[device];
  unsigned before = 0;
  for (std::uint32_t other = 0; other < thread; ++other) before += near_[device_of(other)] == cores ? 1 : 0;
  return {device, before < QueuesFor(static_cast<unsigned>(cores.count())) ? cores : CoreSet()};
}

std::vector<std::uint32_t> Topology::DevicesFrom(std::uint32_t home) const {
  std::vector<std::uint32_t> devices;
  for (std::uint32_t i = 0; i < near_.size(); ++i) devices.push_back((home + i) % near_.size());
  std::stable_partition(devices.begin(), devices.end(), [&](std::uint32_t d) { return near_[d] == near_[home]; });
  return devices;
}

std::string Topology::Describe(std::uint32_t threads) const {
  std::vector<std::string> parts;
  for (std::uint32_t home = 0; home < near_.size(); ++home) {
    const CoreSet& cores = near_[home];
    if (cores.none() || std::find(near_.begin(), near_.begin() + home, cores) != near_.begin() + home) continue;
    std::uint32_t count = 0;
    for (std::uint32_t thread = 0; thread < threads; ++thread) count += HomeOf(thread).cores == cores ? 1 : 0;
    std::vector<std::uint32_t> devices = DevicesFrom(home);
    devices.resize(std::count(near_.begin(), near_.end(), cores));
    parts.push_back(
        absl::StrCat(count, " threads on cores ", FormatCores(cores), " near devices ", absl::StrJoin(devices, ", ")));
  }
  return absl::StrJoin(parts, "; ");
}

Topology ReadTopology(const std::string& root, const std::vector<std::string>& pci_addresses, const CoreSet& usable) {
  std::vector<CoreSet> near;
  for (const std::string& address : pci_addresses) {
    // Without a node of its own a device lists all cores.
    std::ifstream file(absl::StrCat(root, "/sys/bus/pci/devices/", absl::AsciiStrToLower(address), "/local_cpulist"));
    std::string list;
    std::getline(file, list);
    const CoreSet cores = ParseCores(list) & usable;
    near.push_back(cores == usable ? CoreSet() : cores);
  }
  return Topology(std::move(near));
}

}  // namespace softmax::server

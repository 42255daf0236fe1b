#include "common/base/usable_cores.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <string_view>

#include "common/base/core_set.h"

namespace softmax {
namespace {

constexpr double kNoQuota = std::numeric_limits<double>::infinity();

// Version 2: "400000 100000", in microseconds a period, or "max 100000".
double QuotaV2(const std::string& group) {
  double quota = 0;
  double period = 0;
  return std::ifstream(group + "/cpu.max") >> quota >> period && quota > 0 && period > 0 ? quota / period : kNoQuota;
}

// Version 1: the same in two files; no quota is -1.
double QuotaV1(const std::string& group) {
  double quota = 0;
  double period = 0;
  const bool told = (std::ifstream(group + "/cpu.cfs_quota_us") >> quota) &&
                    (std::ifstream(group + "/cpu.cfs_period_us") >> period) && quota > 0 && period > 0;
  return told ? quota / period : kNoQuota;
}

// Of the group and of those above it. In a container the group's own path may not be there, but what it sees as the
// root is.
double LeastQuota(double (*quota_of)(const std::string&), const std::string& mount, std::string group) {
  double least = kNoQuota;
  while (true) {
    least = std::min(least, quota_of(mount + group));
    if (group.empty()) return least;
    group.erase(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
}

bool Lists(const std::string& controllers, std::string_view name) {
  std::istringstream list(controllers);
  for (std::string one; std::getline(list, one, ',');) {
    if (one == name) return true;
  }
  return false;
}

double Quota(const std::string& root) {
  const std::string mount = root + "/sys/fs/cgroup";
  double least = kNoQuota;
  std::ifstream groups(root + "/proc/self/cgroup");
  // "0::/path" is version 2, "4:cpu,cpuacct:/path" version 1.
  for (std::string number, controllers, path;
       std::getline(groups, number, ':') && std::getline(groups, controllers, ':') && std::getline(groups, path);) {
    if (controllers.empty()) least = std::min(least, LeastQuota(QuotaV2, mount, path));
    if (Lists(controllers, "cpu")) least = std::min(least, LeastQuota(QuotaV1, mount + "/cpu", path));
  }
  return least;
}

}  // namespace

UsableCores CoresOf(const std::string& root, unsigned machine, unsigned masked) {
  const double quota = Quota(root);
  const std::string of = " of " + std::to_string(machine) + " cores ";
  if (quota < masked) {
    const unsigned count = std::max(1u, static_cast<unsigned>(std::floor(quota)));
    return {count, std::to_string(count) + of + "(the cgroup's quota)"};
  }
  if (masked < machine) return {masked, std::to_string(masked) + of + "(the affinity mask)"};
  return {masked, "all " + std::to_string(masked) + " cores"};
}

unsigned QueuesFor(unsigned cores) {
  const unsigned most = std::max(1u, std::min((3 * cores + 3) / 4, 8u));
  return std::clamp(cores / 2, most, 32u);
}

const UsableCores& CoresOfThisProcess() {
  static const UsableCores cores = [] {
    const auto machine = static_cast<unsigned>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
    const auto masked = static_cast<unsigned>(CoresOfThread().count());
    return CoresOf("", std::max(machine, masked), masked > 0 ? masked : machine);
  }();
  return cores;
}

}  // namespace softmax

#pragma once

#include <absl/status/statusor.h>
#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "server/regions/session.h"

namespace softmax::server {

// The socket where processes of this machine get regions (proto/softmax/v1/regions.proto), and its thread. Connections
// take turns, a packet each: making a region takes a while (75 ms a GiB where it is registered with CUDA), and nobody
// waits for more than one of each other's. What a client sends, or does not read, ends or stops its own connection at
// most.
class RegionServer {
 public:
  struct Options {
    std::string socket;
    unsigned mode = 0600;                    // of its file
    std::optional<std::vector<uid_t>> uids;  // whose processes may connect; none: all
    std::size_t connections = 64;
    RegionBudget::Limits host, device;  // of each device
    std::uint32_t devices = 1;
    std::uint32_t queue_threads = 1;     // that ask the registry
    std::function<bool()> keeps_memory;  // RegionStore's; any thread
  };

  // Listens and starts its thread. The error says the flag, the path and why. `source` outlives this and all regions.
  static absl::StatusOr<std::unique_ptr<RegionServer>> Create(const Options& options, SharedMemorySource& source);
  // Ends all connections. Regions that requests still use are not given back any more.
  ~RegionServer();

  const RegionRegistry& registry() const { return registry_; }
  // From now on nobody may connect and nothing is made; what there is stays. Any thread.
  void StopAllocating();

  // For metrics; any thread.
  const RegionBudget& budget() const { return budget_; }
  std::size_t connections() const { return open_.load(std::memory_order_relaxed); }
  std::uint64_t refused(RegionRefusal::Reason reason) const { return refused_[reason].load(std::memory_order_relaxed); }

 private:
  struct Connection;
  class Bell;

  RegionServer(const Options& options, SharedMemorySource& source, int listener, std::shared_ptr<Bell> bell);
  void Run();
  // In ms, as epoll_wait wants it.
  int Patience() const;
  void StopListening();
  void Rest();
  void AcceptOne();
  bool MakeRoom();
  void Count(RegionRefusal::Reason reason) { refused_[reason].fetch_add(1, std::memory_order_relaxed); }
  void Refuse(int fd, const RegionRefusal& refusal);
  void Turn(std::uint64_t number);
  // False: the connection is to end.
  bool Send(Connection& connection, std::uint64_t number);
  void Watch(int operation, int fd, std::uint32_t events, std::uint64_t what) const;

  const Options options_;
  SharedMemorySource& source_;
  RegionRegistry registry_;
  RegionBudget budget_;
  const std::shared_ptr<Bell> bell_;  // wakes the thread; those who may ring have it, too
  RegionStore store_;
  const int epoll_;

  std::atomic<bool> draining_{false}, stopping_{false};
  std::atomic<std::size_t> open_{0};
  std::array<std::atomic<std::uint64_t>, RegionRefusal::kReasons> refused_{};

  // The thread's.
  int listener_;
  std::map<std::uint64_t, std::unique_ptr<Connection>> connections_;  // by number, the oldest first
  std::uint64_t next_number_;
  std::optional<TimePoint> resting_until_;  // without descriptors nobody is accepted
  std::thread thread_;
};

}  // namespace softmax::server

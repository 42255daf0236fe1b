#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "softmax/v1/regions.pb.h"
#include "softmax/v1/softmax.pb.h"

namespace softmax::client {

// The server's side of regions.proto, in this process; device memory is that of the fake driver.
class FakeRegions {
 public:
  explicit FakeRegions(std::string path);
  ~FakeRegions();

  struct Behavior {
    std::atomic<int> refuse_code{0};         // of every allocation; 0: none
    std::atomic<bool> not_your_user{false};  // PERMISSION_DENIED, and the end, to whoever connects
    std::atomic<bool> rubbish{false};        // replies that cannot be decoded
    std::atomic<bool> short_files{false};    // files of fewer bytes than the reply says
    std::atomic<bool> silent{false};         // no replies
    std::atomic<int> device{1};              // where device memory is, by fake_device.h
  };
  Behavior& behavior() { return behavior_; }
  const std::string& path() const { return path_; }

  std::size_t regions() const;  // that there are now
  int allocations() const { return allocations_; }
  int connections() const { return connections_; }  // so far

  // All connections and regions end, as when a server goes.
  void EndAll();

  // The memory at a place; empty: it is not there.
  std::span<std::byte> At(const softmax::v1::Place& place, std::size_t bytes) const;

 private:
  struct Mapping {
    int connection = -1;
    std::byte* memory = nullptr;
    std::size_t bytes = 0;
  };

  void Run();
  bool Answer(int connection);
  softmax::v1::RegionReply Allocate(int connection, const softmax::v1::AllocateRegion& asked, int* fd);
  void End(int connection);
  void Drop(std::map<std::string, Mapping>::iterator mapping);

  const std::string path_;
  Behavior behavior_;
  int listener_ = -1;
  std::atomic<int> allocations_ = 0;
  std::atomic<int> connections_ = 0;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> end_all_ = false;
  std::vector<int> open_;  // used by the thread
  mutable std::mutex mu_;
  std::map<std::string, Mapping> by_token_;  // guarded by mu_
  std::thread thread_;                       // last
};

}  // namespace softmax::client

#pragma once

#include <chrono>
#include <cstddef>
#include <list>
#include <string>
#include <unordered_map>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace softmax::server {

// Networks (PeerNetwork) whose connections were ended for floods: what they open next is looked at later, and later
// still after each further end, until they have been quiet for a while. So who comes back at once costs little, and
// honest clients of the same network lose a little time. Unix sockets, the empty network, are never late. Thread-safe.
class LateGreetings {
 public:
  static constexpr Nanoseconds kFirst = std::chrono::milliseconds(100);
  static constexpr Nanoseconds kMost = std::chrono::seconds(5);  // half of what a greeting may take
  static constexpr Nanoseconds kForgottenAfter = std::chrono::seconds(60);
  // So many are remembered; then the one that has been quiet for longest is forgotten.
  static constexpr std::size_t kNetworks = 4096;

  // A connection from there was ended.
  void Ended(const std::string& network, TimePoint now) ABSL_LOCKS_EXCLUDED(mu_);
  // When what comes from there now may be greeted: `now`, or later.
  TimePoint GreetAt(const std::string& network, TimePoint now) const ABSL_LOCKS_EXCLUDED(mu_);
  std::size_t size() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Network {
    std::string name;
    TimePoint ended;  // the last time
    Nanoseconds delay;
  };
  using Networks = std::list<Network>;  // the longest quiet first

  mutable Mutex mu_;
  Networks networks_ ABSL_GUARDED_BY(mu_);
  std::unordered_map<std::string, Networks::iterator> by_name_ ABSL_GUARDED_BY(mu_);
};

}  // namespace softmax::server

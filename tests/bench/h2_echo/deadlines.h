#pragma once

#include <chrono>
#include <cstdint>
#include <set>
#include <tuple>

namespace softmax::bench {

class EchoConnection;

// When the open calls of one thread are over. A call that is answered in the turn of the loop in which it came is
// never here.
class Deadlines {
 public:
  using Clock = std::chrono::steady_clock;
  using Entry = std::tuple<Clock::time_point, EchoConnection*, std::int32_t>;

  void Add(const Entry& entry) { entries_.insert(entry); }
  void Remove(const Entry& entry) { entries_.erase(entry); }
  bool empty() const { return entries_.empty(); }
  const Entry& first() const { return *entries_.begin(); }

 private:
  std::set<Entry> entries_;
};

}  // namespace softmax::bench

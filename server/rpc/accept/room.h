#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/clock.h"

namespace softmax::server {

// What a connection does with its place. One that has a call under way is none of these, and keeps it.
enum class Use : std::uint8_t {
  kSilent,     // it has not said what it speaks
  kHandshake,  // TLS, or HTTP/2's exchange of SETTINGS, is not finished
  kUnused,     // it has begun no call yet
  kIdle,       // it had calls, and has none now
};
constexpr std::size_t kUses = 4;

// How many connections have made room for others, by what they were, and how many newcomers found none.
struct RoomCounts {
  std::array<std::atomic<std::uint64_t>, kUses> made{};
  std::atomic<std::uint64_t> refused{0};
};

// Who makes room for a newcomer when every place is taken: silent connections, then those in a handshake, the unused
// and the idle; among these one of the network that has the most, and of it the one that has been so for longest.
//
// Those who have had the time to begin and did not, and those of a network with more than its share of the places, go
// before others. No newcomer drives out what a network with no more connections than its own has, but for those who
// did not begin in time. So who has just come can finish its handshake, networks with few connections keep them, and
// one that many callers share (a proxy's) is not bounded as long as nobody else needs the places.
class Room {
 public:
  // For a handshake and a first call.
  static constexpr Nanoseconds kTimeToBegin = std::chrono::seconds(3);
  // A connection that had calls may be in use for so long after its last byte: between two calls, or two parts of a
  // long message.
  static constexpr Nanoseconds kTimeBetweenCalls = std::chrono::seconds(10);

  struct Occupant {
    int fd = -1;
    Use use{};
    std::string network;  // PeerNetwork
    TimePoint since;      // it arrived; kIdle: of its client's last byte
  };
  using Networks = std::unordered_map<std::string, std::size_t>;

  // A look at all, which took so long: `networks` says how many connections each has, those with calls under way
  // included.
  Room(std::vector<Occupant> occupants, Networks networks, std::size_t places, TimePoint looked, Nanoseconds took);

  // The one that makes room, which is none of the occupants from then on.
  std::optional<Occupant> MakeFor(const std::string& newcomer, TimePoint now);
  // Whether another look costs little in proportion to the time or to the newcomers since this one: a crowd does not
  // keep the accept thread looking, and is not refused for those that came after the look.
  bool IsOutdated(TimePoint now) const { return now >= look_again_ || kTimesALook * gone_ >= places_; }

 private:
  enum class Pressed : bool { kNo, kYes };  // kYes: nobody goes otherwise
  // A tenth of the accept thread's time at most goes into looks, or one look for a tenth of the places.
  static constexpr int kTimesALook = 10;

  bool MayGo(const Occupant& occupant, const std::string& newcomer, TimePoint now, Pressed pressed) const;
  std::size_t Has(const std::string& network) const;

  std::vector<Occupant> occupants_;  // in the order in which they go
  Networks networks_;
  const std::size_t places_;
  std::size_t gone_ = 0;
  const TimePoint look_again_;
};

}  // namespace softmax::server

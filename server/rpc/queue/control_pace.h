#pragma once

#include <absl/status/status.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "common/base/clock.h"
#include "server/rpc/accept/connections.h"

namespace softmax::server {

// What waits for its turn: a call that brings no tensor, or one more question of it.
class PacedWork {
 public:
  virtual ~PacedWork() = default;
  // On the queue's thread, once. OK: its turn has come. Otherwise the call has to end with this status.
  virtual void TakeTurn(const absl::Status& entry) = 0;
};

// How fast one queue thread answers what is not a tensor: health checks, GetServerInfo, reflection, unknown methods.
// A prober needs a few a second; connections that send more take turns, one call each, so that neither tensors nor the
// others' probes wait for them. Calls are taken from gRPC, where they would wait in order of arrival, and wait here.
// Holding a call is the cheapest thing to do with it: a connection's open calls are limited, while a refusal would
// bring the next at once. One thread.
class ControlPace {
 public:
  static constexpr int kTurnsAStep = 4;
  // Calls taken from gRPC: far more than are answered, but resets of calls that never get a turn cost no more.
  static constexpr int kOffersAStep = 64;
  static constexpr Nanoseconds kStep = std::chrono::milliseconds(1);
  // Of all connections.
  static constexpr std::size_t kMostWaiting = 16384;
  // How often what ended connections have left is looked for.
  static constexpr Nanoseconds kLookForEnded = std::chrono::milliseconds(10);

  // `most_of_a_connection`: may wait, as many as it may have calls open. More are there when it takes calls back.
  explicit ControlPace(std::size_t most_of_a_connection) : most_of_a_connection_(most_of_a_connection) {}

  // Offers one more such call to the server: now or when there is room.
  void Offer(std::function<void()> offer);
  // Gives the work its turn, now or later. The connection is the call's; null: it has ended, and so does the call.
  // RESOURCE_EXHAUSTED, for all that waits of it: a connection that has too many waiting, and the one with the most
  // when all together are too many. UNAVAILABLE: its connection has ended.
  void Wait(std::shared_ptr<const Connection> connection, PacedWork* work);
  // Gives turns to what waits and has room by now.
  void Advance(TimePoint now);
  // Nothing waits any more, nor will: the server ends.
  void Close();
  // When to call Advance; kNoDeadline: nothing waits.
  TimePoint next() const { return lines_.empty() && offers_.empty() ? kNoDeadline : next_; }
  std::size_t waiting() const { return waiting_; }

 private:
  struct Line {
    std::shared_ptr<const Connection> connection;
    std::list<PacedWork*> work;  // oldest first; never empty
  };
  using Lines = std::list<Line>;

  void TakeFrontTurn();
  // Ends all that waits of a connection.
  void End(Lines::iterator line, const absl::Status& status);

  const std::size_t most_of_a_connection_;
  int turns_left_ = kTurnsAStep;
  int offers_left_ = kOffersAStep;
  TimePoint next_{};
  TimePoint look_for_ended_{};
  bool closed_ = false;
  std::vector<std::function<void()>> offers_;
  Lines lines_;  // the next turn is the front's
  std::unordered_map<const Connection*, Lines::iterator> line_of_;
  std::size_t waiting_ = 0;
};

}  // namespace softmax::server

#pragma once

#include <atomic>
#include <memory>
#include <unordered_map>

#include "tests/bench/h2_echo/deadlines.h"
#include "tests/bench/h2_echo/echo_connection.h"
#include "tests/bench/h2_echo/memory.h"

namespace softmax::bench {

// The connections of one thread: an epoll set that nobody else waits for.
class Loop {
 public:
  explicit Loop(const EchoConnection::Settings& settings);
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  ~Loop();

  // Serves until Drain was called and the last connection is over, or a second has passed since. The thread's whole
  // work.
  void Run();

  // From any thread. Takes a connected socket over.
  void Adopt(int fd);
  // From any thread: no new calls; those under way are answered.
  void Drain();
  int connections() const { return connections_; }

 private:
  void Serve(int fd);
  void Expire(Deadlines::Clock::time_point now);
  void BeginToDrain();
  int WaitMs(Deadlines::Clock::time_point now) const;

  const EchoConnection::Settings settings_;
  const int epoll_;
  const int wake_;  // an eventfd: Drain
  std::atomic<int> connections_{0};
  Memory memory_;
  Deadlines deadlines_;
  struct Served {
    std::unique_ptr<EchoConnection> connection;
    std::uint32_t waits_for = 0;
  };
  std::unordered_map<int, Served> served_;  // by socket
  Deadlines::Clock::time_point now_;
  Deadlines::Clock::time_point ends_ = Deadlines::Clock::time_point::max();
};

}  // namespace softmax::bench

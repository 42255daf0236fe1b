#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <future>
#include <mutex>
#include <stop_token>
#include <utility>

// How calls into the library live beside Python: its lock, its signals, its forks and its end.
namespace softmax::python {

namespace py = pybind11;

// Without the GIL, while it lives. Unlike pybind11's own, it never comes back into an interpreter that has ended: there
// Python would end the thread in the middle of C++ frames that must not be unwound.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  ~Unlocked();
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* const state_;
};

// Calls that run; once closed, no more of them. Thread-safe.
class Gate {
 public:
  class Passage {
   public:
    explicit Passage(Gate& gate) : gate_(gate) { gate.Enter(); }
    ~Passage() { gate_.Leave(); }
    Passage(const Passage&) = delete;
    Passage& operator=(const Passage&) = delete;

   private:
    Gate& gate_;
  };

  // False: it was closed before. Requests the stop of all that run.
  bool Close();
  void AwaitAll();  // without the GIL
  std::stop_token stop() const { return stop_.get_token(); }

 private:
  void Enter();  // RuntimeError: closed
  void Leave();

  std::stop_source stop_;
  std::mutex mu_;
  std::condition_variable empty_;
  std::size_t running_ = 0;  // guarded by mu_
  bool closed_ = false;      // guarded by mu_
};

// Whether the interpreter is ending. Needs no GIL.
bool Ending();

// True on the thread on which Python runs its signal handlers.
bool OnMainThread();

// Runs the handlers of signals that came. True: one raised, and Python's error is set. Takes the GIL.
bool SignalRaised();

// How long Ctrl-C may have to wait.
inline constexpr std::chrono::milliseconds kSignalInterval(50);

// What blocks without looking at signals: runs without the GIL, on another thread if this is the main one. When a
// signal's handler raises, calls `stop`, waits for the end, and throws.
template <typename Work, typename Stop>
auto Interruptible(Work work, Stop stop) {
  if (!OnMainThread()) {
    const Unlocked unlocked;
    return work();
  }
  auto result = std::async(std::launch::async, std::move(work));
  for (;;) {
    {
      const Unlocked unlocked;
      if (result.wait_for(kSignalInterval) == std::future_status::ready) return result.get();
    }
    if (PyErr_CheckSignals() == 0) continue;
    {
      const Unlocked unlocked;
      stop();
      result.wait();
    }
    throw py::error_already_set();
  }
}

// gRPC's threads do not live on in a forked process. RuntimeError when this is one whose parent had used gRPC before.
void ForbidAfterFork();
bool Forked();
// From now on a fork makes gRPC useless in the child.
void MarkUsed();

void WatchForks();

}  // namespace softmax::python

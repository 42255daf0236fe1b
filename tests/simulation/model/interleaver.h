#pragma once

#include <ucontext.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

// Runs a few threads in every order in which their atomic steps can follow each other. The threads are fibers of one
// real thread: each step of an atomic variable or a lock is a place where another may go on (model_atomic.h,
// common/base/mutex.h of this folder). Sequentially consistent; weaker orders are ThreadSanitizer's.
namespace softmax::simulation {

class Interleaver {
 public:
  // All orders of the threads that `make` returns and spawns, each of a world made anew; `check` after each. Stops at
  // the first that `check` calls wrong, or in which all that are left wait for ever. How many orders there were;
  // `wrong` says whether it stopped.
  static std::uint64_t Explore(const std::function<std::vector<std::function<void()>>()>& make,
                               const std::function<bool()>& check, bool* wrong);

  // In `make`: another thread.
  static void Spawn(std::function<void()> thread);

  // A place where others may go on. Nothing outside of Explore.
  static void Step();
  // The same, for a thread that can go on only when `taken` is false.
  static void WaitFor(const bool* taken);

 private:
  struct Fiber {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    std::function<void()> run;
    const bool* waits_for = nullptr;
    bool done = false;
  };
  struct Choice {
    std::vector<std::size_t> open;  // fibers that could have gone on, the taken one last
  };
  static void Enter();
  // False: it came to no end.
  bool RunOnce(std::vector<std::function<void()>> threads);
  // False: none can go on.
  bool Choose();

  static Interleaver* current;
  static std::vector<std::function<void()>> spawned;

  ucontext_t main_;
  std::vector<Fiber> fibers_;
  std::size_t running_ = 0;
  std::vector<Choice> path_;
  std::size_t depth_ = 0;
};

}  // namespace softmax::simulation

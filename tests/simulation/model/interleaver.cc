#include "tests/simulation/model/interleaver.h"

namespace softmax::simulation {
namespace {

constexpr std::size_t kStackBytes = 64 << 10;

}  // namespace

Interleaver* Interleaver::current = nullptr;
std::vector<std::function<void()>> Interleaver::spawned;

void Interleaver::Spawn(std::function<void()> thread) { spawned.push_back(std::move(thread)); }

void Interleaver::Step() {
  if (current == nullptr) return;
  Fiber& fiber = current->fibers_[current->running_];
  swapcontext(&fiber.context, &current->main_);
}

void Interleaver::WaitFor(const bool* taken) {
  if (current == nullptr) return;
  Fiber& fiber = current->fibers_[current->running_];
  fiber.waits_for = taken;
  swapcontext(&fiber.context, &current->main_);
  fiber.waits_for = nullptr;
}

void Interleaver::Enter() {
  Fiber& fiber = current->fibers_[current->running_];
  fiber.run();
  fiber.done = true;
  swapcontext(&fiber.context, &current->main_);
}

// Sets the fiber that goes on: as the path has it, and the first open one where that ends.
bool Interleaver::Choose() {
  if (depth_ == path_.size()) {
    Choice choice;
    for (std::size_t i = fibers_.size(); i > 0; --i) {
      const Fiber& fiber = fibers_[i - 1];
      const bool waits = fiber.waits_for != nullptr && *fiber.waits_for;
      if (!fiber.done && !waits) choice.open.push_back(i - 1);
    }
    if (choice.open.empty()) return false;
    path_.push_back(std::move(choice));
  }
  running_ = path_[depth_++].open.back();
  return true;
}

bool Interleaver::RunOnce(std::vector<std::function<void()>> threads) {
  fibers_.resize(threads.size());
  for (std::size_t i = 0; i < threads.size(); ++i) {
    Fiber& fiber = fibers_[i];
    if (fiber.stack == nullptr) fiber.stack = std::make_unique<char[]>(kStackBytes);
    fiber.run = std::move(threads[i]);
    fiber.done = false;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, &Interleaver::Enter, 0);
  }
  depth_ = 0;
  for (std::size_t left = fibers_.size(); left > 0;) {
    if (!Choose()) return false;
    swapcontext(&main_, &fibers_[running_].context);
    if (fibers_[running_].done) --left;
  }
  return true;
}

std::uint64_t Interleaver::Explore(const std::function<std::vector<std::function<void()>>()>& make,
                                   const std::function<bool()>& check, bool* wrong) {
  Interleaver self;
  std::uint64_t orders = 0;
  *wrong = false;
  while (true) {
    std::vector<std::function<void()>> threads = make();
    threads.insert(threads.end(), spawned.begin(), spawned.end());
    spawned.clear();
    current = &self;
    const bool ended = self.RunOnce(std::move(threads));
    current = nullptr;
    ++orders;
    if (!ended || !check()) {
      *wrong = true;
      return orders;
    }
    // The last choice that has another: what came after it is forgotten.
    while (!self.path_.empty() && self.path_.back().open.size() == 1) self.path_.pop_back();
    if (self.path_.empty()) return orders;
    self.path_.back().open.pop_back();
  }
}

}  // namespace softmax::simulation

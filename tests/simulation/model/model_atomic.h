#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "tests/simulation/model/interleaver.h"

// In place of std::atomic and std::jthread in what is included after this: each operation is a step of the Interleaver,
// and what a thread is to run is run by it.
namespace std {

template <typename T>
class ModelAtomic {
 public:
  ModelAtomic() = default;
  constexpr ModelAtomic(T value) : value_(value) {}  // NOLINT: as std::atomic

  T load(memory_order = memory_order_seq_cst) const {
    softmax::simulation::Interleaver::Step();
    return value_;
  }
  void store(T value, memory_order = memory_order_seq_cst) {
    softmax::simulation::Interleaver::Step();
    value_ = value;
  }
  operator T() const { return load(); }  // NOLINT: as std::atomic
  T exchange(T value, memory_order = memory_order_seq_cst) {
    return Change([value](T) { return value; });
  }
  T fetch_or(T bits, memory_order = memory_order_seq_cst) {
    return Change([bits](T value) { return value | bits; });
  }
  T fetch_add(T n, memory_order = memory_order_seq_cst) {
    return Change([n](T value) { return value + n; });
  }
  T fetch_sub(T n, memory_order = memory_order_seq_cst) {
    return Change([n](T value) { return value - n; });
  }
  bool compare_exchange_weak(T& expected, T desired, memory_order = memory_order_seq_cst) {
    softmax::simulation::Interleaver::Step();
    if (value_ != expected) {
      expected = value_;
      return false;
    }
    value_ = desired;
    return true;
  }

 private:
  template <typename F>
  T Change(const F& f) {
    softmax::simulation::Interleaver::Step();
    const T before = value_;
    value_ = static_cast<T>(f(before));
    return before;
  }
  T value_{};
};

class ModelThread {
 public:
  explicit ModelThread(function<void()> run) : runs_(make_shared<bool>(true)) {
    softmax::simulation::Interleaver::Spawn([run = std::move(run), runs = runs_] {
      run();
      *runs = false;
    });
  }
  bool joinable() const { return *runs_; }
  void join() { softmax::simulation::Interleaver::WaitFor(runs_.get()); }

 private:
  shared_ptr<bool> runs_;
};

}  // namespace std

#define atomic ModelAtomic
#define jthread ModelThread

#include "client/python/native/running.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>

namespace softmax::python {
namespace {

std::atomic<bool> used = false;
std::atomic<bool> forked = false;

}  // namespace

bool Ending() {
#if PY_VERSION_HEX >= 0x030d0000  // from where on it is no secret
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

Unlocked::~Unlocked() {
  // The thread that ends the interpreter does come back, from destructors.
  while (Ending() && !OnMainThread()) pause();
  PyEval_RestoreThread(state_);
}

void Gate::Enter() {
  ForbidAfterFork();
  const std::lock_guard lock(mu_);
  if (closed_) throw std::runtime_error("the client is closed");
  ++running_;
}

void Gate::Leave() {
  const std::lock_guard lock(mu_);
  if (--running_ == 0) empty_.notify_all();
}

bool Gate::Close() {
  {
    const std::lock_guard lock(mu_);
    if (closed_) return false;
    closed_ = true;
  }
  stop_.request_stop();
  return true;
}

void Gate::AwaitAll() {
  std::unique_lock lock(mu_);
  empty_.wait(lock, [this] { return running_ == 0; });
}

bool OnMainThread() {
  static const unsigned long main_thread =
      py::module_::import("threading").attr("main_thread")().attr("ident").cast<unsigned long>();
  return PyThread_get_thread_ident() == main_thread;
}

bool SignalRaised() {
  const py::gil_scoped_acquire locked;
  return PyErr_CheckSignals() != 0;
}

void ForbidAfterFork() {
  if (Forked()) {
    throw std::runtime_error(
        "this process was forked after its parent had used softmax_client, whose threads a fork does not copy; "
        "make clients after the fork only, or start processes with multiprocessing's method 'spawn'");
  }
}

bool Forked() { return forked; }
void MarkUsed() { used = true; }

void WatchForks() {
  pthread_atfork(nullptr, nullptr, [] {
    if (used) forked = true;
  });
}

}  // namespace softmax::python

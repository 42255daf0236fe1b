#pragma once

#include <absl/status/statusor.h>
#include <pybind11/pybind11.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <vector>

#include "client/python/native/arrays.h"
#include "client/softmax_client/softmax_client.h"

namespace softmax::python {

namespace py = pybind11;

// A request whose answer is to come on the callback thread. Made and destroyed with the GIL.
struct Pending {
  std::uint64_t id = 0;
  py::object future;  // asyncio's, or None
  Borrowed input;
  std::optional<Borrowed> output;
  py::object out;                            // whose memory `output` is, or None
  std::optional<std::int32_t> summary_axis;  // the answer is a summary of the rows along it
  std::stop_source stop;
  absl::StatusOr<client::Tensor> answer;

  // With the GIL: the answer as an array (or `out`), or as an exception.
  py::object Result();
};

// Takes answers from the callback thread, which never waits for the GIL, to Python: to whoever waits in Take, or to an
// event loop that watches fd(). Thread-safe.
class Mailbox {
 public:
  Mailbox();
  ~Mailbox();  // with the GIL; nothing may be put meanwhile
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  void Put(std::unique_ptr<Pending> answered);
  // Up to `limit` of what is there, after waiting for the first of them for so long; without the GIL.
  std::vector<std::unique_ptr<Pending>> Take(std::size_t limit, std::chrono::nanoseconds patience);
  // Readable while something is there.
  int fd() const { return fd_; }

 private:
  const int fd_;
  std::mutex mu_;
  std::condition_variable arrived_;
  std::vector<std::unique_ptr<Pending>> answered_;  // guarded by mu_
};

}  // namespace softmax::python

#pragma once

#include <pybind11/pybind11.h>

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "client/python/native/client.h"
#include "client/python/native/mailbox.h"
#include "client/python/native/running.h"
#include "client/softmax_client/softmax_client.h"

namespace softmax::python {

// A client::Stream for Python, with the answers in a mailbox. Thread-safe.
class Stream {
 public:
  static std::shared_ptr<Stream> Open(std::shared_ptr<Client> owner, client::Client& client,
                                      const client::StreamOptions& options);
  ~Stream();

  // `number` is the request's id. With `wait`, blocks while max_in_flight requests are unanswered; without, false says
  // that they are: not sent.
  bool Send(py::handle number, py::handle x, const py::tuple& options, bool wait);
  // (id, array or exception). None: nothing came within that many seconds, or nothing is outstanding.
  py::object Receive(py::handle patience);
  // All that is there, at once.
  py::list ReceiveAll();
  int fd() const { return answered_.fd(); }
  std::size_t outstanding();  // sent and not received

  void Finish();
  void Cancel();
  // Cancels, and waits until it has ended; no more calls. Any number of times.
  void Close();

 private:
  Stream(std::shared_ptr<Client> owner, std::size_t room) : owner_(std::move(owner)), room_(room) {}
  void OnAnswer(std::uint64_t id, absl::StatusOr<client::Tensor> answer);
  bool TakeRoom(bool wait);
  void ReturnRoom();

  const std::shared_ptr<Client> owner_;
  Gate gate_;
  Mailbox answered_;
  std::mutex send_mu_;  // one Send at a time, and none beside Finish

  std::mutex mu_;
  std::condition_variable changed_;
  std::size_t room_;                                              // guarded by mu_
  std::size_t outstanding_ = 0;                                   // guarded by mu_
  std::map<std::uint64_t, std::unique_ptr<Pending>> unanswered_;  // guarded by mu_

  std::unique_ptr<client::Stream> stream_;
};

}  // namespace softmax::python

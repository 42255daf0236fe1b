#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "client/python/native/mailbox.h"
#include "client/python/native/region.h"
#include "client/python/native/running.h"
#include "client/softmax_client/softmax_client.h"

namespace softmax::python {

// The options of a request, as softmax_client/client.py has checked and ordered them.
struct RequestOptions {
  client::SoftmaxOptions options;
  std::optional<py::buffer_info> lengths;  // whose memory options.lengths is
  std::optional<py::buffer_info> indices;  // and options.summary.indices
};
RequestOptions OptionsOf(const py::tuple& values);

// TypeError, ValueError: it is no number of seconds.
std::chrono::nanoseconds SecondsOf(const char* name, py::handle value);
// How long something may take: above 0, or ValueError. Nothing: None.
std::optional<std::chrono::nanoseconds> TimeoutOf(py::handle value);
// How long to wait for what may be there already: 0 or more, or ValueError.
std::chrono::nanoseconds PatienceOf(py::handle value);

class Stream;

// A client::Client for Python: softmax_client.Client and AsyncClient are over it. Thread-safe, as far as Python is.
class Client : public std::enable_shared_from_this<Client> {
 public:
  Client(client::ClientOptions options, const py::object& token);
  ~Client();

  // Blocks, without the GIL. An array, a tensor of torch for one, or `out`.
  py::object Softmax(py::handle x, const py::object& out, const py::tuple& options);
  // The same, of a request with a summary: a tuple as SummaryOf makes it.
  py::tuple Summarize(py::handle x, const py::tuple& options);
  // Of `xs`, in their order: arrays, and exceptions; unless return_exceptions, an x that cannot be sent is thrown.
  py::list SoftmaxBatch(const py::list& xs, const py::tuple& options, py::handle max_in_flight, bool return_exceptions);
  // The answer comes to answered() with that future. The result cancels the call.
  std::stop_source Start(py::handle x, const py::object& out, const py::tuple& options, const py::object& future);
  Mailbox& answered() { return answered_; }
  std::shared_ptr<Stream> OpenStream(py::handle max_in_flight, py::handle max_requests_per_message, py::handle timeout,
                                     py::handle traceparent, py::handle tracestate);

  Region Allocate(std::uint64_t bytes, bool on_device, py::handle device);
  // TypeError: it is on a device, and not in a region of this client, so that nobody could read it.
  void CheckReachable(const Borrowed& borrowed, const char* name) const;

  client::ServerInfo GetServerInfo();
  void WaitForConnection(py::handle timeout);
  client::ClientStats Stats();

  // Cancels what runs and waits for its end; no more calls. Any number of times.
  void Close();

 private:
  // What `call` returns, which runs without the GIL; `options` are made such that it ends with this client, or when a
  // signal's handler raises.
  template <typename Call>
  auto Blocking(client::SoftmaxOptions* options, Call call);

  Gate gate_;
  py::object token_;  // called by the client's calls
  Mailbox answered_;
  std::mutex mu_;
  std::vector<std::weak_ptr<Stream>> streams_;  // guarded by mu_
  std::unique_ptr<client::Client> client_;
};

}  // namespace softmax::python

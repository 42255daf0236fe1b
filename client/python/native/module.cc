// The module softmax_client._native: what the package's Python is over. Its types are told in _native.pyi.
#include <absl/synchronization/mutex.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <chrono>
#include <string>

#include "client/python/native/arrays.h"
#include "client/python/native/client.h"
#include "client/python/native/running.h"
#include "client/python/native/stream.h"

namespace softmax::python {
namespace {

std::chrono::milliseconds MillisecondsOf(const py::handle& seconds) {
  return std::chrono::milliseconds(std::llround(seconds.cast<double>() * 1000));
}

std::shared_ptr<Client> MakeClient(const std::string& target, const py::kwargs& values) {
  client::ClientOptions options;
  options.target = target;
  options.deadline = std::chrono::nanoseconds(std::llround(values["deadline"].cast<double>() * 1e9));
  options.max_receive_bytes = values["max_receive_bytes"].cast<std::optional<std::int64_t>>();
  options.connections = values["connections"].cast<int>();
  options.keepalive_time = MillisecondsOf(values["keepalive_time"]);
  options.keepalive_timeout = MillisecondsOf(values["keepalive_timeout"]);
  options.wait_for_ready = values["wait_for_ready"].cast<bool>();
  options.health_checks = values["health_checks"].cast<bool>();
  options.authority = values["authority"].cast<std::string>();
  const py::object retry = values["retry"];
  options.retry.max_attempts = retry.attr("max_attempts").cast<int>();
  options.retry.initial_backoff = MillisecondsOf(retry.attr("initial_backoff"));
  options.retry.max_backoff = MillisecondsOf(retry.attr("max_backoff"));
  options.retry.multiplier = retry.attr("multiplier").cast<double>();
  options.retry.max_tokens = retry.attr("max_tokens").cast<double>();
  options.retry.token_ratio = retry.attr("token_ratio").cast<double>();
  if (const py::object tls = values["tls"]; !tls.is_none()) {
    options.tls = client::TlsOptions{tls.attr("root_certificates").cast<std::string>(),
                                     tls.attr("certificate_chain").cast<std::string>(),
                                     tls.attr("private_key").cast<std::string>()};
  }
  return std::make_shared<Client>(std::move(options), values["token"]);
}

py::dict DictOf(const client::ServerInfo& info) {
  py::list dtypes, operations;
  for (const client::DataType dtype : info.dtypes) dtypes.append(std::string(NameOf(dtype)));
  for (const client::Operation operation : info.operations) operations.append(std::string(NameOf(operation)));
  const client::ServerLimits& limits = info.limits;
  using py::literals::operator""_a;
  return py::dict("version"_a = info.version, "build"_a = info.build, "backend"_a = info.backend,
                  "devices"_a = info.devices, "dtypes"_a = dtypes, "operations"_a = operations,
                  "max_request_bytes"_a = limits.max_request_bytes, "max_response_bytes"_a = limits.max_response_bytes,
                  "max_rank"_a = limits.max_rank, "max_rows"_a = limits.max_rows, "max_columns"_a = limits.max_columns,
                  "max_requests_per_stream_message"_a = limits.max_requests_per_stream_message,
                  "max_in_flight_per_stream"_a = limits.max_in_flight_per_stream, "degraded"_a = info.degraded,
                  "lost_devices"_a = info.lost_devices, "unsafe_testing"_a = info.unsafe_testing);
}

py::dict DictOf(const client::ClientStats& stats) {
  using py::literals::operator""_a;
  return py::dict("calls"_a = stats.calls, "attempts"_a = stats.attempts, "retries"_a = stats.retries,
                  "throttled"_a = stats.throttled, "calls_by_code"_a = stats.calls_by_code,
                  "attempts_by_code"_a = stats.attempts_by_code);
}

// [(future, array or exception)] of what has been answered.
py::list TakeAnswered(Client& client) {
  py::list results;
  for (const auto& pending : client.answered().Take(static_cast<std::size_t>(-1), {})) {
    results.append(py::make_tuple(pending->future, pending->Result()));
  }
  return results;
}

}  // namespace

PYBIND11_MODULE(_native, module) {
  // The distribution's abseil checks the order of all locks under one lock.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  WatchForks();
  OnMainThread();
  BindAnswerMemory(module);
  module.def("forked", &Forked);
  module.def("address_of", [](const py::object& x) {
    return reinterpret_cast<std::uintptr_t>(Borrowed::Input(x).view().data.data());
  });
  py::class_<std::stop_source>(module, "Call").def("cancel", [](std::stop_source& stop) {
    const Unlocked unlocked;
    stop.request_stop();
  });
  py::class_<Client, std::shared_ptr<Client>>(module, "Client")
      .def(py::init(&MakeClient))
      .def("softmax", &Client::Softmax)
      .def("summarize", &Client::Summarize)
      .def("softmax_batch", &Client::SoftmaxBatch)
      .def("start", &Client::Start)
      .def("take_answered", &TakeAnswered)
      .def("fd", [](Client& client) { return client.answered().fd(); })
      .def("open_stream", &Client::OpenStream)
      .def("server_info", [](Client& client) { return DictOf(client.GetServerInfo()); })
      .def("wait_for_connection", &Client::WaitForConnection)
      .def("stats", [](Client& client) { return DictOf(client.Stats()); })
      .def("close", &Client::Close);
  py::class_<Stream, std::shared_ptr<Stream>>(module, "Stream")
      .def("send", &Stream::Send)
      .def("receive", &Stream::Receive)
      .def("receive_all", &Stream::ReceiveAll)
      .def("fd", &Stream::fd)
      .def("outstanding", &Stream::outstanding)
      .def("finish", &Stream::Finish)
      .def("cancel", &Stream::Cancel)
      .def("close", &Stream::Close);
}

}  // namespace softmax::python

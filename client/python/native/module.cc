// The module softmax_client._native: what the package's Python is over. Its types are told in _native.pyi.
#include <absl/synchronization/mutex.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <chrono>
#include <string>

#include "client/python/native/arrays.h"
#include "client/python/native/client.h"
#include "client/python/native/errors.h"
#include "client/python/native/running.h"
#include "client/python/native/stream.h"

namespace softmax::python {
namespace {

std::chrono::milliseconds MillisecondsOf(const char* name, py::handle value) {
  return std::chrono::round<std::chrono::milliseconds>(SecondsOf(name, value));
}

int IntOf(const char* name, py::handle value) {
  return Argument<int>(name, value, "a whole number of at most 32 bits");
}

std::shared_ptr<Client> MakeClient(py::handle target, const py::kwargs& values) {
  client::ClientOptions options;
  options.target = Argument<std::string>("target", target, kText);
  options.deadline = SecondsOf("deadline", values["deadline"]);
  if (const py::object most = values["max_receive_bytes"]; !most.is_none()) {
    options.max_receive_bytes = Argument<std::int64_t>("max_receive_bytes", most, kWholeNumber);
  }
  options.connections = IntOf("connections", values["connections"]);
  options.keepalive_time = MillisecondsOf("keepalive_time", values["keepalive_time"]);
  options.keepalive_timeout = MillisecondsOf("keepalive_timeout", values["keepalive_timeout"]);
  options.wait_for_ready = Argument<bool>("wait_for_ready", values["wait_for_ready"], kBoolean);
  options.health_checks = Argument<bool>("health_checks", values["health_checks"], kBoolean);
  options.authority = Argument<std::string>("authority", values["authority"], kText);
  if (Argument<bool>("regions", values["regions"], kBoolean)) options.regions = client::RegionUse::kAuto;
  options.regions_socket = Argument<std::string>("regions_socket", values["regions_socket"], kText);
  const py::object retry = values["retry"];
  options.retry.max_attempts = IntOf("retry.max_attempts", retry.attr("max_attempts"));
  options.retry.initial_backoff = MillisecondsOf("retry.initial_backoff", retry.attr("initial_backoff"));
  options.retry.max_backoff = MillisecondsOf("retry.max_backoff", retry.attr("max_backoff"));
  options.retry.multiplier = Argument<double>("retry.multiplier", retry.attr("multiplier"), kNumber);
  options.retry.max_tokens = Argument<double>("retry.max_tokens", retry.attr("max_tokens"), kNumber);
  options.retry.token_ratio = Argument<double>("retry.token_ratio", retry.attr("token_ratio"), kNumber);
  if (const py::object tls = values["tls"]; !tls.is_none()) {
    const auto text = [&tls](const char* field) {
      return Argument<std::string>(field, tls.attr(field), "the text of a PEM file");
    };
    options.tls = client::TlsOptions{text("root_certificates"), text("certificate_chain"), text("private_key")};
  }
  return std::make_shared<Client>(std::move(options), values["token"]);
}

py::dict DictOf(const client::ServerInfo& info) {
  py::list dtypes, operations;
  for (const client::DataType dtype : info.dtypes) dtypes.append(std::string(NameOf(dtype)));
  for (const client::Operation operation : info.operations) operations.append(std::string(NameOf(operation)));
  const client::ServerLimits& limits = info.limits;
  using py::literals::operator""_a;
  py::object regions = py::none();
  if (info.regions) {
    regions = py::dict("socket"_a = info.regions->socket, "max_bytes"_a = info.regions->max_bytes,
                       "max_bytes_per_connection"_a = info.regions->max_bytes_per_connection,
                       "max_device_bytes"_a = info.regions->max_device_bytes,
                       "max_device_bytes_per_connection"_a = info.regions->max_device_bytes_per_connection,
                       "max_tensor_bytes"_a = info.regions->max_tensor_bytes);
  }
  return py::dict("regions"_a = regions, "version"_a = info.version, "build"_a = info.build, "backend"_a = info.backend,
                  "devices"_a = info.devices, "dtypes"_a = dtypes, "operations"_a = operations,
                  "max_request_bytes"_a = limits.max_request_bytes, "max_response_bytes"_a = limits.max_response_bytes,
                  "max_rank"_a = limits.max_rank, "max_rows"_a = limits.max_rows, "max_columns"_a = limits.max_columns,
                  "max_top_k"_a = limits.max_top_k,
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
  BindMemory(module);
  BindRegion(module);
  module.def("forked", &Forked);
  module.def("sent_of", [](const py::object& x) {
    const Borrowed input = Borrowed::Input(x, "x");
    const auto* data = reinterpret_cast<const char*>(input.view().data.data());
    return py::make_tuple(reinterpret_cast<std::uintptr_t>(data), py::bytes(data, input.view().data.size()));
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
      .def("allocate", &Client::Allocate)
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

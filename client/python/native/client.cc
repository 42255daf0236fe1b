#include "client/python/native/client.h"

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <utility>

#include "client/python/native/errors.h"
#include "client/python/native/stream.h"

namespace softmax::python {
namespace {

// Called by gRPC's threads and by those of calls; the function is kept by the client, for it must end with the GIL.
std::string Token(py::handle function) {
  if (Ending()) return "";
  const py::gil_scoped_acquire locked;
  try {
    return function().cast<std::string>();
  } catch (py::error_already_set& error) {
    error.discard_as_unraisable("softmax_client: the function for tokens");
  } catch (const py::cast_error&) {
    PyErr_SetString(PyExc_TypeError, "must return a str");
    PyErr_WriteUnraisable(function.ptr());
  }
  return "";  // which the library refuses
}

std::int32_t AxisOf(py::handle value) {
  const auto axis = Argument<std::int64_t>("axis", value, kWholeNumber);
  if (axis != static_cast<std::int32_t>(axis)) {
    throw py::value_error(absl::StrCat("axis: ", axis, ", must be -rank to rank - 1"));
  }
  return static_cast<std::int32_t>(axis);
}

std::uint32_t TopKOf(py::handle value) {
  const auto k = Argument<std::int64_t>("top_k", value, kWholeNumber);
  if (k != static_cast<std::uint32_t>(k)) {
    throw py::value_error(absl::StrCat("top_k: ", k, ", must be 0 (none) to the server's max_top_k"));
  }
  return static_cast<std::uint32_t>(k);
}

std::size_t CountOf(const char* name, py::handle value) {
  const auto count = Argument<std::int64_t>(name, value, kWholeNumber);
  if (count < 1) throw py::value_error(absl::StrCat(name, ": ", count, ", must be at least 1"));
  return static_cast<std::size_t>(count);
}

}  // namespace

std::chrono::nanoseconds SecondsOf(const char* name, py::handle value) {
  const auto seconds = Argument<double>(name, value, kNumber);
  if (std::isnan(seconds)) throw py::value_error(absl::StrCat(name, ": nan, must be seconds"));
  // A century is for ever; clocks count nanoseconds since 1970, and have no room for two more of them.
  const double limited = std::clamp(seconds, -1e9, 3.2e9);
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(limited));
}

std::optional<std::chrono::nanoseconds> TimeoutOf(py::handle value) {
  if (value.is_none()) return std::nullopt;
  const std::chrono::nanoseconds timeout = SecondsOf("timeout", value);
  if (Argument<double>("timeout", value, kNumber) > 0) return std::max(timeout, std::chrono::nanoseconds(1));
  throw py::value_error(absl::StrCat("timeout: ", Shown(value), ", must be above 0 seconds, or None"));
}

std::chrono::nanoseconds PatienceOf(py::handle value) {
  const std::chrono::nanoseconds patience = SecondsOf("timeout", value);
  if (patience.count() >= 0) return patience;
  throw py::value_error(absl::StrCat("timeout: ", Shown(value), ", must be 0 seconds or more"));
}

client::TraceContext TraceOf(py::handle traceparent, py::handle tracestate) {
  return {Argument<std::string>("trace", traceparent, kText), Argument<std::string>("trace", tracestate, kText)};
}

RequestOptions OptionsOf(const py::tuple& values) {
  RequestOptions result;
  client::SoftmaxOptions& options = result.options;
  if (Argument<bool>("log", values[0], kBoolean)) options.operation = client::Operation::kLogSoftmax;
  options.axis = AxisOf(values[1]);
  if (!values[2].is_none()) options.scale = Argument<double>("scale", values[2], kNumber);
  if (const int dtype = values[3].cast<int>(); dtype != 0) options.output_dtype = static_cast<client::DataType>(dtype);
  if (!values[4].is_none()) {
    result.lengths = values[4].cast<py::buffer>().request();
    options.lengths = {static_cast<const std::uint32_t*>(result.lengths->ptr),
                       static_cast<std::size_t>(result.lengths->size)};
  }
  options.timeout = TimeoutOf(values[5]);
  options.trace = TraceOf(values[6], values[7]);
  if (values.size() == 8) return result;
  options.summary.top_k = TopKOf(values[8]);
  if (!values[9].is_none()) {
    result.indices = values[9].cast<py::buffer>().request();
    options.summary.indices = {static_cast<const std::int32_t*>(result.indices->ptr),
                               static_cast<std::size_t>(result.indices->size)};
  }
  options.summary.log_sum_exp = Argument<bool>("log_sum_exp", values[10], kBoolean);
  options.summary.entropy = Argument<bool>("entropy", values[11], kBoolean);
  return result;
}

Client::Client(client::ClientOptions options, const py::object& token) : token_(token) {
  ForbidAfterFork();
  if (!token_.is_none()) options.bearer_token = [function = py::handle(token_)] { return Token(function); };
  MarkUsed();
  auto created = client::Client::Create(std::move(options));
  if (!created.ok()) Raise(created.status());
  client_ = *std::move(created);
}

Client::~Client() {
  if (Forked()) {
    static_cast<void>(client_.release());  // its threads are in the parent, and to wait for them would never end
    return;
  }
  Close();
}

template <typename Call>
auto Client::Blocking(client::SoftmaxOptions* options, Call call) {
  bool interrupted = false;
  std::stop_source stop;
  std::optional<std::stop_callback<std::function<void()>>> closing;
  if (OnMainThread()) {
    closing.emplace(gate_.stop(), [&stop] { stop.request_stop(); });
    options->cancel = stop.get_token();
    options->while_waiting = [&] {
      if (!interrupted && SignalRaised()) interrupted = stop.request_stop();
    };
  } else {
    options->cancel = gate_.stop();
  }
  auto result = [&call] {
    const Unlocked unlocked;
    return call();
  }();
  if (interrupted) throw py::error_already_set();
  return result;
}

py::object Client::Softmax(py::handle x, const py::object& out, const py::tuple& options) {
  const Gate::Passage passage(gate_);
  const Borrowed input = Borrowed::Input(x, "x");
  RequestOptions request = OptionsOf(options);
  const client::TensorView view = input.view();
  const client::DataType dtype = request.options.output_dtype.value_or(view.dtype);
  py::object result = out.is_none() ? TorchTensorFor(x, dtype, view.shape) : out;
  if (result.is_none()) result = EmptyArray(dtype, view.shape);
  const Borrowed output = Borrowed::Output(result, dtype, view.shape);
  CheckReachable(input, "x");
  CheckReachable(output, "out");

  const absl::Status status =
      Blocking(&request.options, [&] { return client_->SoftmaxInto(view, output.writable(), request.options); });
  if (!status.ok()) Raise(status);
  return result;
}

py::tuple Client::Summarize(py::handle x, const py::tuple& options) {
  const Gate::Passage passage(gate_);
  const Borrowed input = Borrowed::Input(x, "x");
  CheckReachable(input, "x");
  RequestOptions request = OptionsOf(options);
  const client::TensorView view = input.view();
  const auto answer = Blocking(&request.options, [&] { return client_->Softmax(view, request.options); });
  if (!answer.ok()) Raise(answer.status());
  return SummaryOf(*answer, request.options.axis.value_or(-1));
}

py::list Client::SoftmaxBatch(const py::list& xs, const py::tuple& options, py::handle max_in_flight,
                              bool return_exceptions) {
  const Gate::Passage passage(gate_);
  RequestOptions request = OptionsOf(options);
  std::vector<Borrowed> inputs;
  std::vector<client::BatchItem> items;
  inputs.reserve(xs.size());
  items.reserve(xs.size());
  py::list results;  // None where an answer is to come
  for (std::size_t i = 0; i < xs.size(); ++i) {
    try {
      Borrowed input = Borrowed::Input(xs[i], "xs", i);
      CheckReachable(input, "xs");
      inputs.push_back(std::move(input));
      results.append(py::none());
    } catch (py::error_already_set& error) {
      if (!return_exceptions || !error.matches(PyExc_Exception)) throw;
      results.append(error.value());
    }
  }
  for (const Borrowed& input : inputs) items.push_back({input.view(), request.options});

  std::stop_source stop;
  const std::stop_callback closing(gate_.stop(), [&stop] { stop.request_stop(); });
  client::BatchOptions batch{.timeout = request.options.timeout, .cancel = stop.get_token()};
  batch.max_in_flight = CountOf("max_in_flight", max_in_flight);
  batch.trace = request.options.trace;
  auto answers = Interruptible([&] { return client_->SoftmaxBatch(items, batch); }, [&] { stop.request_stop(); });

  auto answer = answers.begin();
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].is_none()) continue;
    results[i] = answer->ok() ? ArrayOf(*std::move(*answer)) : ExceptionOf(answer->status());
    ++answer;
  }
  return results;
}

std::stop_source Client::Start(py::handle x, const py::object& out, const py::tuple& options,
                               const py::object& future) {
  const Gate::Passage passage(gate_);
  RequestOptions request = OptionsOf(options);
  auto pending = std::make_unique<Pending>();
  pending->future = future;
  pending->input = Borrowed::Input(x, "x");
  CheckReachable(pending->input, "x");
  const bool summary = request.options.summary.any();
  if (summary) pending->summary_axis = request.options.axis.value_or(-1);
  const client::TensorView view = pending->input.view();
  const client::DataType dtype = request.options.output_dtype.value_or(view.dtype);
  pending->out = out.is_none() && !summary ? TorchTensorFor(x, dtype, view.shape) : out;
  if (!pending->out.is_none()) {
    pending->output = Borrowed::Output(pending->out, dtype, view.shape);
    CheckReachable(*pending->output, "out");
    // Elsewhere the answer is put when it is taken in, and not when nobody wants it any more.
    const auto output = pending->output->writable();
    if (client_->IsInRegion(output)) request.options.output = output;
  }
  std::stop_source stop = pending->stop;
  request.options.cancel = stop.get_token();
  Pending* const sent = pending.release();  // until the callback, which runs exactly once
  const Unlocked unlocked;
  client_->SoftmaxAsync(view, request.options, [this, sent](absl::StatusOr<client::Tensor> answer) {
    sent->answer = std::move(answer);
    answered_.Put(std::unique_ptr<Pending>(sent));
  });
  return stop;
}

std::shared_ptr<Stream> Client::OpenStream(py::handle max_in_flight, py::handle max_requests_per_message,
                                           py::handle timeout, py::handle traceparent, py::handle tracestate) {
  const Gate::Passage passage(gate_);
  client::StreamOptions options{CountOf("max_in_flight", max_in_flight),
                                CountOf("max_requests_per_message", max_requests_per_message)};
  options.timeout = TimeoutOf(timeout);
  options.trace = TraceOf(traceparent, tracestate);
  auto stream = Stream::Open(shared_from_this(), *client_, options);
  const std::lock_guard lock(mu_);
  std::erase_if(streams_, [](const std::weak_ptr<Stream>& other) { return other.expired(); });
  streams_.push_back(stream);
  return stream;
}

Region Client::Allocate(std::uint64_t bytes, bool on_device, py::handle device) {
  const Gate::Passage passage(gate_);
  std::optional<std::uint32_t> number;
  if (!device.is_none()) number = static_cast<std::uint32_t>(Argument<std::uint64_t>("device", device, kWholeNumber));
  absl::StatusOr<client::Region> region;
  {
    const Unlocked unlocked;
    region = client_->AllocateRegion(bytes, on_device ? client::Memory::kDevice : client::Memory::kHost, number);
  }
  if (!region.ok()) Raise(region.status());
  return Region(*std::move(region));
}

void Client::CheckReachable(const Borrowed& borrowed, const char* name) const {
  if (!borrowed.on_device() || borrowed.view().data.empty() || client_->IsInRegion(borrowed.view().data)) return;
  throw py::type_error(std::string(name) + ": is on a device, and not in memory of this client's allocate()");
}

client::ServerInfo Client::GetServerInfo() {
  const Gate::Passage passage(gate_);
  absl::StatusOr<client::ServerInfo> info;
  {
    const Unlocked unlocked;
    info = client_->GetServerInfo();
  }
  if (!info.ok()) Raise(info.status());
  return *std::move(info);
}

void Client::WaitForConnection(py::handle timeout) {
  using Clock = std::chrono::steady_clock;
  const Gate::Passage passage(gate_);
  const auto until = Clock::now() + PatienceOf(timeout);
  for (;;) {
    absl::Status status;
    {
      const Unlocked unlocked;
      status = client_->WaitForConnection(
          std::min<std::chrono::nanoseconds>(kSignalInterval, std::max(until - Clock::now(), Clock::duration::zero())));
    }
    if (status.ok()) return;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    if (Clock::now() >= until || gate_.stop().stop_requested()) Raise(status);
  }
}

client::ClientStats Client::Stats() {
  const Gate::Passage passage(gate_);
  return client_->Stats();
}

void Client::Close() {
  if (Forked()) return;
  std::vector<std::weak_ptr<Stream>> streams;
  {
    const std::lock_guard lock(mu_);
    streams.swap(streams_);
  }
  for (const auto& weak : streams) {
    if (const auto stream = weak.lock()) stream->Close();
  }
  const bool first = gate_.Close();
  const Unlocked unlocked;
  gate_.AwaitAll();
  if (first) client_.reset();
}

}  // namespace softmax::python

// The client: its options, its calls, and its end.

#include <absl/synchronization/mutex.h>

#include <chrono>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "client/c/parts.h"

namespace softmax::client::c {
namespace {

constexpr std::size_t kTokenBytes = 64 << 10;

ClientOptions OptionsOf(const softmax_client_options& given) {
  ClientOptions options;
  options.target = TextOf(given.target);
  options.deadline = std::chrono::nanoseconds(given.deadline_ns);
  options.max_receive_bytes = given.max_receive_bytes;
  options.connections = given.connections;
  options.wait_for_ready = given.wait_for_ready != 0;
  options.health_checks = given.health_checks != 0;
  if (given.regions != 0) options.regions = RegionUse::kAuto;
  options.keepalive_time = std::chrono::milliseconds(given.keepalive_time_ms);
  options.keepalive_timeout = std::chrono::milliseconds(given.keepalive_timeout_ms);
  options.authority = TextOf(given.authority);
  options.regions_socket = TextOf(given.regions_socket);
  if (given.token != nullptr) {
    options.bearer_token = [token = given.token, context = given.token_context] {
      std::string text(kTokenBytes, '\0');
      const std::int64_t length = token(context, text.data(), text.size());
      text.resize(static_cast<std::size_t>(std::clamp<std::int64_t>(length, 0, kTokenBytes)));
      return text;  // empty: the library refuses it
    };
  }
  if (given.use_tls != 0) {
    options.tls =
        TlsOptions{TextOf(given.root_certificates), TextOf(given.certificate_chain), TextOf(given.private_key)};
  }
  options.retry.max_attempts = given.max_attempts;
  options.retry.initial_backoff = std::chrono::milliseconds(given.initial_backoff_ms);
  options.retry.max_backoff = std::chrono::milliseconds(given.max_backoff_ms);
  options.retry.multiplier = given.multiplier;
  options.retry.max_tokens = given.max_tokens;
  options.retry.token_ratio = given.token_ratio;
  return options;
}

absl::Status Run(softmax_client& client, const softmax_request& request, const void* input, void* output,
                 softmax_hook hook, void* context) {
  Described described;
  if (absl::Status valid = Describe(request, input, output, &described); !valid.ok()) return valid;
  SoftmaxOptions& options = described.options;
  std::stop_source stop;
  std::optional<std::stop_callback<std::function<void()>>> closing;
  if (hook == nullptr) {
    options.cancel = client.stop.get_token();
  } else {
    closing.emplace(client.stop.get_token(), [&stop] { stop.request_stop(); });
    options.cancel = stop.get_token();
    options.while_waiting = [&] {
      if (!stop.stop_requested() && hook(context) != 0) stop.request_stop();
    };
  }
  if (options.summary.any()) return client.client->Softmax(described.input, options).status();
  return client.client->SoftmaxInto(described.input, described.output, options);
}

}  // namespace
}  // namespace softmax::client::c

using softmax::client::c::Described;
using softmax::client::c::Entering;
using softmax::client::c::Guarded;

void softmax_client_options_init(softmax_client_options* options) {
  const softmax::client::ClientOptions defaults;
  using std::chrono::milliseconds;
  *options = {};
  options->size = sizeof *options;
  options->target = "localhost:50051";
  options->deadline_ns = defaults.deadline.count();
  options->max_receive_bytes = -1;
  options->connections = defaults.connections;
  options->health_checks = defaults.health_checks ? 1 : 0;
  options->keepalive_time_ms = defaults.keepalive_time.count();
  options->keepalive_timeout_ms = defaults.keepalive_timeout.count();
  options->max_attempts = defaults.retry.max_attempts;
  options->initial_backoff_ms = defaults.retry.initial_backoff.count();
  options->max_backoff_ms = defaults.retry.max_backoff.count();
  options->multiplier = defaults.retry.multiplier;
  options->max_tokens = defaults.retry.max_tokens;
  options->token_ratio = defaults.retry.token_ratio;
}

std::int32_t softmax_client_new(const softmax_client_options* options, softmax_client** client, softmax_error** error) {
  return Guarded(error, [&]() -> absl::Status {
    // The distribution's abseil checks the order of all locks under one lock.
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
    auto created = softmax::client::Client::Create(softmax::client::c::OptionsOf(softmax::client::c::Sized(*options)));
    if (!created.ok()) return created.status();
    auto made = std::make_unique<softmax_client>();
    made->client = *std::move(created);
    *client = made.release();
    return absl::OkStatus();
  });
}

void softmax_client_close(softmax_client* client) {
  {
    const std::lock_guard lock(client->mu);
    client->closed = true;
  }
  client->stop.request_stop();
  std::unique_lock lock(client->mu);
  client->empty.wait(lock, [client] { return client->running == 0; });
  lock.unlock();
  const std::lock_guard streams(client->streams_mu);  // another close may be here
  for (softmax_stream* const stream : client->streams) softmax_stream_end(stream);
  client->streams.clear();
  client->client.reset();
}

void softmax_client_free(softmax_client* client) {
  if (client == nullptr) return;
  softmax_client_close(client);
  delete client;
}

std::int32_t softmax_run(softmax_client* client, const softmax_request* request, const void* input, void* output,
                         softmax_hook hook, void* context, softmax_error** error) {
  return Entering(*client, error,
                  [&] { return softmax::client::c::Run(*client, *request, input, output, hook, context); });
}

std::int32_t softmax_run_batch(softmax_client* client, const softmax_stream_options* given,
                               const softmax_request* const* requests, const void* const* inputs, void* const* outputs,
                               std::size_t count, softmax_error** errors, softmax_hook hook, void* context,
                               softmax_error** error) {
  return Entering(*client, error, [&]() -> absl::Status {
    std::vector<softmax::client::BatchItem> items;
    items.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      Described described;
      absl::Status valid = softmax::client::c::Describe(*requests[i], inputs[i], outputs[i], &described);
      if (!valid.ok()) return valid;
      items.push_back({described.input, described.options});
    }
    std::stop_source stop;
    const std::stop_callback closing(client->stop.get_token(), [&stop] { stop.request_stop(); });
    const softmax::client::StreamOptions stream = softmax::client::c::StreamOptionsOf(*given);
    const softmax::client::BatchOptions options{.timeout = stream.timeout,
                                                .cancel = stop.get_token(),
                                                .max_in_flight = stream.max_in_flight,
                                                .max_requests_per_message = stream.max_requests_per_message,
                                                .trace = stream.trace};
    return softmax::client::c::Hooked(
        hook, context,
        [&] {
          const auto answers = client->client->SoftmaxBatch(items, options);
          for (std::size_t i = 0; i < count; ++i) {
            errors[i] = nullptr;
            softmax::client::c::Told(answers[i].status(), &errors[i]);
          }
          return absl::OkStatus();
        },
        [&stop] { stop.request_stop(); });
  });
}

std::int32_t softmax_start(softmax_client* client, const softmax_request* request, const void* input, void* output,
                           softmax_queue* queue, std::uint64_t tag, softmax_error** error) {
  return Entering(*client, error, [&]() -> absl::Status {
    Described described;
    absl::Status valid = softmax::client::c::Describe(*request, input, output, &described);
    if (!valid.ok()) return valid;
    std::stop_source stop;
    described.options.cancel = stop.get_token();
    {
      const std::lock_guard lock(queue->mu);
      queue->running[tag] = std::move(stop);
    }
    client->client->SoftmaxAsync(
        described.input, described.options,
        [queue, tag](const absl::StatusOr<softmax::client::Tensor>& answer) { queue->Put(tag, answer.status()); });
    return absl::OkStatus();
  });
}

std::int32_t softmax_wait_for_connection(softmax_client* client, std::int64_t timeout_ns, softmax_hook hook,
                                         void* context, softmax_error** error) {
  using Clock = std::chrono::steady_clock;
  return Entering(*client, error, [&]() -> absl::Status {
    const auto until = Clock::now() + std::chrono::nanoseconds(timeout_ns);
    for (;;) {
      const auto left = std::max(until - Clock::now(), Clock::duration::zero());
      absl::Status status = client->client->WaitForConnection(
          std::min<std::chrono::nanoseconds>(softmax::client::c::kHookInterval, left));
      if (status.ok() || Clock::now() >= until || client->stop.stop_requested()) return status;
      if (hook != nullptr && hook(context) != 0) return absl::CancelledError("ended by its hook");
    }
  });
}

#pragma once

#include <absl/cleanup/cleanup.h>
#include <absl/status/status.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>

#include "client/c/softmax.h"
#include "client/softmax_client/softmax_client.h"

// What is behind softmax.h's handles. Internal.

struct softmax_error {
  absl::Status status;
  std::string message;  // with a 0 behind it
};

struct softmax_queue {
  int fd = -1;
  std::mutex mu;
  std::condition_variable arrived;
  std::deque<softmax_event> events;                   // guarded by mu
  std::map<std::uint64_t, std::stop_source> running;  // guarded by mu; of softmax_start, by their tags

  // From the callback thread.
  void Put(std::uint64_t tag, const absl::Status& status);
};

struct softmax_client {
  std::unique_ptr<softmax::client::Client> client;
  std::stop_source stop;
  std::mutex mu;
  std::condition_variable empty;
  std::size_t running = 0;  // guarded by mu
  bool closed = false;      // guarded by mu
  std::mutex streams_mu;
  std::set<softmax_stream*> streams;  // guarded by streams_mu
};

// Closes it; it may outlive its client then.
void softmax_stream_end(softmax_stream* stream);

namespace softmax::client::c {

// How long a hook may have to wait.
inline constexpr std::chrono::milliseconds kHookInterval(50);

// The code, and the error if it is wanted.
std::int32_t Told(const absl::Status& status, softmax_error** error);

// Nothing is thrown across the interface.
template <typename Work>
std::int32_t Guarded(softmax_error** error, Work work) {
  if (error != nullptr) *error = nullptr;
  try {
    return Told(work(), error);
  } catch (const std::bad_alloc&) {
    return Told(absl::ResourceExhaustedError("no memory"), error);
  } catch (const std::exception& thrown) {
    return Told(absl::InternalError(thrown.what()), error);
  }
}

// The caller's structure, which may be of another version.
template <typename Struct>
Struct Sized(const Struct& given) {
  Struct known = {};
  std::memcpy(&known, &given, std::min(given.size, sizeof known));
  return known;
}

// Does what blocks without looking at a hook: on another thread, if there is one.
template <typename Work, typename Stop>
absl::Status Hooked(softmax_hook hook, void* context, Work work, Stop stop) {
  if (hook == nullptr) return work();
  auto result = std::async(std::launch::async, std::move(work));
  while (result.wait_for(kHookInterval) != std::future_status::ready) {
    if (hook(context) == 0) continue;
    stop();
    result.wait();
    return absl::CancelledError("ended by its hook");
  }
  return result.get();
}

// A call into the client: Guarded, and the client's end waits for it. FAILED_PRECONDITION: it has come.
template <typename Work>
std::int32_t Entering(softmax_client& client, softmax_error** error, Work work) {
  return Guarded(error, [&]() -> absl::Status {
    {
      const std::lock_guard lock(client.mu);
      if (client.closed) return absl::FailedPreconditionError("the client is closed");
      ++client.running;
    }
    const absl::Cleanup leave = [&client] {
      const std::lock_guard lock(client.mu);
      if (--client.running == 0) client.empty.notify_all();
    };
    return work();
  });
}

inline std::string TextOf(const char* text) { return text == nullptr ? "" : text; }

// A request as the library takes it.
struct Described {
  TensorView input;
  SoftmaxOptions options;
  std::span<std::byte> output;  // of a request without a summary
};

// INVALID_ARGUMENT: a number that the library's types cannot say. What else may be wrong, the library finds.
absl::Status Describe(const softmax_request& request, const void* input, void* output, Described* described);

StreamOptions StreamOptionsOf(const softmax_stream_options& given);

}  // namespace softmax::client::c

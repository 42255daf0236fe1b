// Queues of answers, and streams, whose answers come to them.

#include <absl/status/status.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "client/c/parts.h"

void softmax_queue::Put(std::uint64_t tag, const absl::Status& status) {
  softmax_event event{.tag = tag, .error = nullptr, .taken = 1};
  softmax::client::c::Told(status, &event.error);
  const std::lock_guard lock(mu);
  running.erase(tag);
  if (events.empty()) eventfd_write(fd, 1);
  events.push_back(event);
  arrived.notify_one();
}

softmax_queue* softmax_queue_new() {
  const int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (fd < 0) return nullptr;
  auto* const queue = new softmax_queue;
  queue->fd = fd;
  return queue;
}

std::int32_t softmax_queue_fd(const softmax_queue* queue) { return queue->fd; }

std::size_t softmax_queue_take(softmax_queue* queue, softmax_event* events, std::size_t room,
                               std::int64_t patience_ns) {
  std::unique_lock lock(queue->mu);
  if (patience_ns > 0) {
    queue->arrived.wait_for(lock, std::chrono::nanoseconds(patience_ns), [queue] { return !queue->events.empty(); });
  }
  const std::size_t count = std::min(room, queue->events.size());
  const auto end = queue->events.begin() + static_cast<std::ptrdiff_t>(count);
  std::copy(queue->events.begin(), end, events);
  queue->events.erase(queue->events.begin(), end);
  if (count > 0 && queue->events.empty()) {
    eventfd_t unused = 0;
    eventfd_read(queue->fd, &unused);
  }
  return count;
}

void softmax_queue_free(softmax_queue* queue) {
  if (queue == nullptr) return;
  for (const softmax_event& event : queue->events) softmax_error_free(event.error);
  close(queue->fd);
  delete queue;
}

void softmax_cancel(softmax_queue* queue, std::uint64_t tag) {
  std::optional<std::stop_source> stop;
  {
    const std::lock_guard lock(queue->mu);
    const auto found = queue->running.find(tag);
    if (found != queue->running.end()) stop = found->second;
  }
  if (stop) stop->request_stop();
}

struct softmax_stream {
  softmax_client* client = nullptr;
  softmax_queue* queue = nullptr;
  std::unique_ptr<softmax::client::Stream> stream;
  std::mutex send_mu;  // one Send at a time, and none beside Finish

  std::mutex mu;
  std::condition_variable changed;
  std::size_t room = 0;        // guarded by mu
  std::size_t unanswered = 0;  // guarded by mu
  std::size_t running = 0;     // guarded by mu; calls inside
  bool closed = false;         // guarded by mu

  absl::Status Enter() {
    const std::lock_guard lock(mu);
    if (closed) return absl::CancelledError("the stream is closed");
    ++running;
    return absl::OkStatus();
  }
  void Leave() {
    const std::lock_guard lock(mu);
    --running;
    changed.notify_all();
  }
};

std::int32_t softmax_stream_open(softmax_client* client, const softmax_stream_options* given, softmax_queue* queue,
                                 softmax_stream** stream, softmax_error** error) {
  return softmax::client::c::Entering(*client, error, [&]() -> absl::Status {
    softmax::client::StreamOptions options = softmax::client::c::StreamOptionsOf(*given);
    const std::size_t room = options.max_in_flight;
    // The library counts an answer as there when its callback has returned, and we inside of it.
    if (room > 0) ++options.max_in_flight;
    auto made = std::make_unique<softmax_stream>();
    made->client = client;
    made->queue = queue;
    made->room = room;
    auto opened = client->client->OpenStream(
        options, [self = made.get()](std::uint64_t id, const absl::StatusOr<softmax::client::Tensor>& answer) {
          {
            const std::lock_guard lock(self->mu);
            ++self->room;
            self->changed.notify_all();
          }
          self->queue->Put(id, answer.status());
          const std::lock_guard lock(self->mu);
          --self->unanswered;
        });
    if (!opened.ok()) return opened.status();
    made->stream = *std::move(opened);
    const std::lock_guard lock(client->streams_mu);
    client->streams.insert(made.get());
    *stream = made.release();
    return absl::OkStatus();
  });
}

std::int32_t softmax_stream_send(softmax_stream* stream, std::uint64_t id, const softmax_request* request,
                                 const void* input, void* output, std::int64_t patience_ns, softmax_error** error) {
  bool has_room = true;
  const std::int32_t code = softmax::client::c::Guarded(error, [&] {
    softmax::client::c::Described described;
    absl::Status sent = softmax::client::c::Describe(*request, input, output, &described);
    if (!sent.ok()) return sent;
    {
      std::unique_lock lock(stream->mu);
      const auto may_send = [stream] { return stream->room > 0 || stream->closed; };
      has_room =
          stream->changed.wait_for(lock, std::chrono::nanoseconds(std::max<std::int64_t>(patience_ns, 0)), may_send);
      if (!has_room) return sent;
      if (!stream->closed) --stream->room;
    }
    sent = stream->Enter();
    if (!sent.ok()) return sent;
    {
      const std::lock_guard lock(stream->mu);
      ++stream->unanswered;
    }
    {
      const std::lock_guard sending(stream->send_mu);
      sent = stream->stream->Send(id, described.input, described.options);
    }
    if (!sent.ok()) {
      const std::lock_guard lock(stream->mu);
      ++stream->room;
      --stream->unanswered;
    }
    stream->Leave();
    return sent;
  });
  return has_room ? code : SOFTMAX_NO_ROOM;
}

std::size_t softmax_stream_unanswered(softmax_stream* stream) {
  const std::lock_guard lock(stream->mu);
  return stream->unanswered;
}

std::int32_t softmax_stream_finish(softmax_stream* stream, softmax_hook hook, void* context, softmax_error** error) {
  return softmax::client::c::Guarded(error, [&] {
    absl::Status ended = stream->Enter();
    if (!ended.ok()) return ended;
    ended = softmax::client::c::Hooked(
        hook, context,
        [stream] {
          const std::lock_guard sending(stream->send_mu);
          return stream->stream->Finish();
        },
        [stream] { stream->stream->Cancel(); });
    stream->Leave();
    return ended;
  });
}

void softmax_stream_cancel(softmax_stream* stream) {
  if (!stream->Enter().ok()) return;
  stream->stream->Cancel();
  stream->Leave();
}

void softmax_stream_close(softmax_stream* stream) {
  {
    std::unique_lock lock(stream->mu);
    stream->closed = true;
    stream->changed.notify_all();
    if (stream->stream) stream->stream->Cancel();
    stream->changed.wait(lock, [stream] { return stream->running == 0; });
  }
  const std::lock_guard sending(stream->send_mu);  // another close may be here
  stream->stream.reset();
}

void softmax_stream_end(softmax_stream* stream) {
  softmax_stream_close(stream);
  stream->client = nullptr;
}

void softmax_stream_free(softmax_stream* stream) {
  if (stream == nullptr) return;
  if (stream->client != nullptr) {
    const std::lock_guard lock(stream->client->streams_mu);
    stream->client->streams.erase(stream);
  }
  softmax_stream_close(stream);
  delete stream;
}

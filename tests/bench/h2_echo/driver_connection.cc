#include "tests/bench/h2_echo/driver_connection.h"

#include <algorithm>
#include <cstring>

namespace softmax::bench {
namespace {

// As large as gRPC's client makes them when messages are large.
constexpr std::int32_t kWindow = 64 << 20;
constexpr std::uint32_t kMaxFrame = (1 << 24) - 1;

}  // namespace

const Callbacks& DriverConnection::SharedCallbacks() {
  static const Callbacks shared = [] {
    Callbacks callbacks = NewCallbacks();
    nghttp2_session_callbacks_set_on_header_callback(
        callbacks.get(),
        [](nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name, std::size_t name_length,
           const std::uint8_t* value, std::size_t value_length, std::uint8_t, void* self) -> int {
          Self(self)->OnHeader(frame->hd.stream_id, {reinterpret_cast<const char*>(name), name_length},
                               {reinterpret_cast<const char*>(value), value_length});
          return 0;
        });
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(
        callbacks.get(),
        [](nghttp2_session*, std::uint8_t, std::int32_t stream, const std::uint8_t* data, std::size_t length,
           void* self) -> int {
          Self(self)->OnData(stream, {data, length});
          return 0;
        });
    nghttp2_session_callbacks_set_on_stream_close_callback(
        callbacks.get(), [](nghttp2_session*, std::int32_t stream, std::uint32_t error, void* self) -> int {
          Self(self)->OnClosed(stream, error);
          return 0;
        });
    return callbacks;
  }();
  return shared;
}

DriverConnection::DriverConnection(int fd, Memory* memory, const Settings* settings, Seen* seen)
    : Connection(fd, memory), settings_(*settings), seen_(seen) {
  nghttp2_session* session = nullptr;
  nghttp2_session_client_new(&session, SharedCallbacks().get(), this);
  Start(session);
  const nghttp2_settings_entry entries[] = {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
                                            {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kWindow},
                                            {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, kMaxFrame},
                                            {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1}};
  nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, entries, std::size(entries));
  nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, 0, kWindow);
  const int calls = settings_.stream ? 1 : settings_.in_flight;
  sent_.resize(static_cast<std::size_t>(settings_.in_flight), Clock::now());
  for (int i = 0; i < calls; ++i) BeginCall();
}

bool DriverConnection::Turn(bool measuring) {
  measuring_ = measuring;
  return Proceed();
}

void DriverConnection::BeginCall() {
  // What gRPC's C++ client sends.
  const nghttp2_nv headers[] = {Header(":method", "POST"),
                                Header(":scheme", "http"),
                                Header(":path", settings_.path),
                                Header(":authority", settings_.authority),
                                Header("content-type", "application/grpc"),
                                Header("te", "trailers"),
                                Header("user-agent", "grpc-c++/1.51.1 grpc-c/29.0.0 (linux; chttp2)"),
                                Header("grpc-accept-encoding", "identity, deflate, gzip"),
                                Header("grpc-timeout", "60S")};
  nghttp2_data_provider request;
  request.source.ptr = nullptr;
  request.read_callback = [](nghttp2_session*, std::int32_t stream, std::uint8_t*, std::size_t most,
                             std::uint32_t* flags, nghttp2_data_source*, void* self) -> ssize_t {
    return Self(self)->ReadRequest(&Self(self)->calls_.at(stream), most, flags);
  };
  const std::int32_t stream =
      nghttp2_submit_request(session(), nullptr, headers, std::size(headers), &request, nullptr);
  Call& call = calls_[stream];
  call.began = Clock::now();
  call.to_send = message_bytes() * static_cast<std::size_t>(settings_.stream ? settings_.in_flight : 1);
}

ssize_t DriverConnection::ReadRequest(Call* call, std::size_t most, std::uint32_t* flags) const {
  if (call->to_send == 0) {
    call->waiting = true;
    return NGHTTP2_ERR_DEFERRED;
  }
  // A frame does not go beyond a message's end, so that TakeMessage finds its bytes side by side.
  const std::size_t in_message = (call->to_send - 1) % message_bytes() + 1;
  const std::size_t size = std::min(most, in_message);
  *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
  if (!settings_.stream && size == call->to_send) *flags |= NGHTTP2_DATA_FLAG_EOF;
  return static_cast<ssize_t>(size);
}

void DriverConnection::TakeMessage(std::int32_t stream, nghttp2_data_source*, std::size_t length, SliceQueue* output) {
  Call& call = calls_.at(stream);
  const std::size_t in_message = (call.to_send - 1) % message_bytes() + 1;
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(settings_.message.data());
  const std::span<const std::uint8_t> part(bytes + message_bytes() - in_message, length);
  call.to_send -= length;
  if (length <= SliceQueue::kCopiedBytes) {
    output->Copy(part, &memory()->small());
  } else {
    output->Add(Slice(nullptr, part.data(), part.size()));
  }
}

void DriverConnection::OnHeader(std::int32_t stream, std::string_view name, std::string_view value) {
  if (name != "grpc-status") return;
  if (const auto found = calls_.find(stream); found != calls_.end()) found->second.ok = value == "0";
}

void DriverConnection::OnData(std::int32_t stream, std::span<const std::uint8_t> bytes) {
  const auto found = calls_.find(stream);
  if (found == calls_.end()) return;
  Call& call = found->second;
  while (!bytes.empty()) {
    if (call.answered == 0) {
      call.compared = answers_++ % settings_.verify_every == 0;
      call.equal = true;
    }
    const std::size_t part = std::min(bytes.size(), message_bytes() - call.answered);
    if (part == 0) {  // more than was asked for
      call.equal = false;
      return;
    }
    if (call.compared) {
      call.equal &= std::memcmp(settings_.message.data() + call.answered, bytes.data(), part) == 0;
    }
    call.answered += part;
    bytes = bytes.subspan(part);
    if (settings_.stream && call.answered == message_bytes()) OnWholeAnswer(stream, &call);
  }
}

void DriverConnection::OnWholeAnswer(std::int32_t stream, Call* call) {
  if (!call->equal) ++seen_->wrong;
  // Answers of a stream come in the order of its messages.
  Clock::time_point& sent = sent_[(answers_ - 1) % sent_.size()];
  Count(sent);
  sent = Clock::now();
  call->answered = 0;
  call->to_send += message_bytes();
  if (call->waiting) nghttp2_session_resume_data(session(), stream);
  call->waiting = false;
}

void DriverConnection::OnClosed(std::int32_t stream, std::uint32_t error) {
  const auto found = calls_.find(stream);
  if (found == calls_.end()) return;
  const Call& call = found->second;
  if (!call.ok || error != NGHTTP2_NO_ERROR) {
    ++seen_->errors;
  } else if (!call.equal || call.answered != message_bytes()) {
    ++seen_->wrong;
  } else {
    Count(call.began);
  }
  calls_.erase(found);
  BeginCall();
}

void DriverConnection::Count(Clock::time_point began) {
  if (!measuring_) return;
  seen_->latencies_us.push_back(std::chrono::duration<float, std::micro>(Clock::now() - began).count());
}

}  // namespace softmax::bench

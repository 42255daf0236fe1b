#include "tests/bench/h2_echo/echo_connection.h"

#include <algorithm>
#include <charconv>
#include <string>

namespace softmax::bench {
namespace {

constexpr std::uint32_t kMaxStreams = 256;
constexpr std::uint32_t kStreamWindow = 4 << 20;
constexpr std::int32_t kConnectionWindow = 64 << 20;
constexpr std::uint32_t kMaxFrame = (1 << 24) - 1;
// Ready and not read by the client; above it the call's window stays shut.
constexpr std::size_t kMaxUnsentBytes = 256 << 10;
// Of all calls of a connection.
constexpr std::size_t kMaxHeldBytes = 256 << 20;

// What a client may send more than it earns by calls that are answered, in frames:
// docs/decisions/hostile-connections.md.
constexpr double kMaxDebt = 16384;
constexpr double kEarnedByAnswer = 8;
constexpr double kForgivenPerSecond = 8192;
constexpr std::size_t kEarningBytes = 1 << 10;

std::string_view Text(const std::uint8_t* data, std::size_t length) {
  return {reinterpret_cast<const char*>(data), length};
}

nghttp2_session* NewSession(EchoConnection* connection) {
  nghttp2_option* made = nullptr;
  nghttp2_option_new(&made);
  const Options options(made);
  nghttp2_option_set_no_auto_window_update(made, 1);
  nghttp2_option_set_max_outbound_ack(made, 100);
  // Unknown frames are dropped, but counted before (CountFrame).
  for (int type = NGHTTP2_CONTINUATION + 1; type <= 0xff; ++type) {
    nghttp2_option_set_user_recv_extension_type(made, static_cast<std::uint8_t>(type));
  }
  nghttp2_session* session = nullptr;
  nghttp2_session_server_new2(&session, EchoConnection::SharedCallbacks().get(), connection, made);
  const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, kMaxStreams},
                                             {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kStreamWindow},
                                             {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, kMaxFrame},
                                             {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, Call::kMaxHeaderBytes},
                                             {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1}};
  nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings, std::size(settings));
  nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, 0, kConnectionWindow);
  return session;
}

}  // namespace

const Callbacks& EchoConnection::SharedCallbacks() {
  static const Callbacks shared = [] {
    Callbacks callbacks = NewCallbacks();
    nghttp2_session_callbacks_set_on_begin_frame_callback(
        callbacks.get(), [](nghttp2_session*, const nghttp2_frame_hd*, void* self) -> int {
          Self(self)->CountFrame();
          return 0;
        });
    nghttp2_session_callbacks_set_unpack_extension_callback(
        callbacks.get(),
        [](nghttp2_session*, void**, const nghttp2_frame_hd*, void*) -> int { return NGHTTP2_ERR_CANCEL; });
    nghttp2_session_callbacks_set_on_begin_headers_callback(
        callbacks.get(), [](nghttp2_session* session, const nghttp2_frame* frame, void* self) -> int {
          if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
            const std::int32_t stream = frame->hd.stream_id;
            nghttp2_session_set_stream_user_data(session, stream, &Self(self)->calls_[stream]);
          }
          return 0;
        });
    nghttp2_session_callbacks_set_on_header_callback(
        callbacks.get(),
        [](nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name, std::size_t name_length,
           const std::uint8_t* value, std::size_t value_length, std::uint8_t, void* self) -> int {
          Call* const call = Self(self)->Find(frame->hd.stream_id);
          const bool taken = call == nullptr || call->TakeHeader(Text(name, name_length), Text(value, value_length));
          return taken ? 0 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        });
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(
        callbacks.get(),
        [](nghttp2_session*, std::uint8_t, std::int32_t stream, const std::uint8_t* data, std::size_t length,
           void* self) -> int {
          Self(self)->OnData(stream, {data, length});
          return 0;
        });
    nghttp2_session_callbacks_set_on_frame_recv_callback(
        callbacks.get(), [](nghttp2_session*, const nghttp2_frame* frame, void* self) -> int {
          const bool headers = frame->hd.type == NGHTTP2_HEADERS;
          const bool ends = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
          if (!headers && !(frame->hd.type == NGHTTP2_DATA && ends)) return 0;
          Call* const call = Self(self)->Find(frame->hd.stream_id);
          if (call == nullptr) return 0;
          call->half_closed |= ends;
          if (headers && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
            Self(self)->OnHeadersEnd(frame->hd.stream_id, call);
          }
          if (ends) Self(self)->OnHalfClose(frame->hd.stream_id, call);
          return 0;
        });
    nghttp2_session_callbacks_set_on_frame_send_callback(
        callbacks.get(), [](nghttp2_session* session, const nghttp2_frame* frame, void* self) -> int {
          if (frame->hd.type != NGHTTP2_HEADERS || (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0) return 0;
          // A client whose call is over need not send the rest of it.
          const Call* const call = Self(self)->Find(frame->hd.stream_id);
          if (call != nullptr && !call->half_closed) {
            nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_NO_ERROR);
          }
          return 0;
        });
    nghttp2_session_callbacks_set_on_stream_close_callback(
        callbacks.get(), [](nghttp2_session*, std::int32_t stream, std::uint32_t, void* self) -> int {
          Self(self)->OnClosed(stream);
          return 0;
        });
    return callbacks;
  }();
  return shared;
}

EchoConnection::EchoConnection(int fd, Memory* memory, Deadlines* deadlines, const Settings& settings)
    : Connection(fd, memory), deadlines_(deadlines), settings_(settings), now_(Deadlines::Clock::now()) {
  Start(NewSession(this));
}

EchoConnection::~EchoConnection() {
  for (const auto& [stream, call] : calls_) {
    if (call.deadline) deadlines_->Remove({*call.deadline, this, stream});
  }
}

bool EchoConnection::Turn(Deadlines::Clock::time_point now) {
  debt_ = std::max(0.0, debt_ - std::chrono::duration<double>(now - now_).count() * kForgivenPerSecond);
  now_ = now;
  const bool goes_on = Proceed();
  for (const std::int32_t stream : timed_) {
    Call* const call = Find(stream);
    if (call == nullptr || call->finished) continue;
    call->deadline = now + *call->timeout;
    deadlines_->Add({*call->deadline, this, stream});
  }
  timed_.clear();
  return goes_on;
}

void EchoConnection::Drain() {
  nghttp2_submit_goaway(session(), NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(session()),
                        NGHTTP2_NO_ERROR, nullptr, 0);
}

void EchoConnection::CountFrame() {
  if (++debt_ > kMaxDebt && settings_.ends_floods) {
    nghttp2_session_terminate_session(session(), NGHTTP2_ENHANCE_YOUR_CALM);
  }
}

Call* EchoConnection::Find(std::int32_t stream) {
  return static_cast<Call*>(nghttp2_session_get_stream_user_data(session(), stream));
}

void EchoConnection::OnHeadersEnd(std::int32_t stream, Call* call) {
  if (!call->is_grpc) {
    const nghttp2_nv headers[] = {Header(":status", "415")};
    call->finished = true;
    nghttp2_submit_response(session(), stream, headers, std::size(headers), nullptr);
  } else if (call->method == Call::Method::kUnknown) {
    Finish(stream, call, Code::kUnimplemented, "no such method; there are Softmax and SoftmaxStream");
  } else if (!call->encoding.empty() && call->encoding != "identity") {
    Finish(stream, call, Code::kUnimplemented, "grpc-encoding '" + call->encoding + "': only identity is taken");
  } else if (call->timeout) {
    timed_.push_back(stream);
  }
}

void EchoConnection::OnData(std::int32_t stream, std::span<const std::uint8_t> bytes) {
  // Other calls of the connection do not wait for this one's room.
  nghttp2_session_consume_connection(session(), bytes.size());
  if (bytes.size() >= kEarningBytes) debt_ -= static_cast<double>(bytes.size() / kEarningBytes);
  Call* const call = Find(stream);
  if (call == nullptr || call->finished) return;
  const int messages = call->scanner.messages();
  const std::size_t whole = call->scanner.Scan(bytes);
  if (call->scanner.largest() > Call::kMaxMessageBytes || held_ + bytes.size() > kMaxHeldBytes) {
    return Finish(stream, call, Code::kResourceExhausted, "a message, or all of the connection, is too large");
  }
  if (call->scanner.compressed()) return Finish(stream, call, Code::kUnimplemented, "a compressed message");
  held_ += bytes.size();
  call->unread += bytes.size();
  const std::size_t sent = call->scanner.bytes() - bytes.size() - call->bytes.bytes();
  Keep(bytes, &call->bytes);
  if (call->method == Call::Method::kStream && call->scanner.messages() > messages) {
    if (settings_.copy != nullptr) settings_.copy->Copy(bytes);
    debt_ -= kEarnedByAnswer * (call->scanner.messages() - messages);
    call->ready = whole - sent;
    Send(stream, call);
  }
  OpenWindow(stream, call);
}

void EchoConnection::OnHalfClose(std::int32_t stream, Call* call) {
  if (call->finished || call->method == Call::Method::kNever) return;
  if (call->scanner.within_message()) return Finish(stream, call, Code::kInternal, "a message is cut short");
  if (call->method == Call::Method::kUnary) {
    if (call->scanner.messages() != 1) return Finish(stream, call, Code::kInternal, "not one message");
    if (settings_.copy != nullptr) {
      for (const Slice& slice : call->bytes.slices()) settings_.copy->Copy(slice.bytes());
    }
    call->ready = call->bytes.bytes();
  }
  if (call->asked_status.empty()) {
    debt_ -= kEarnedByAnswer;
    Finish(stream, call, Code::kOk);
  } else {
    int code = 0;
    const char* const end = call->asked_status.data() + call->asked_status.size();
    const char* const text = std::from_chars(call->asked_status.data(), end, code).ptr;
    call->ready = 0;
    Finish(stream, call, static_cast<Code>(code), std::string(text == end ? text : text + 1, end));
  }
}

void EchoConnection::OnClosed(std::int32_t stream) {
  const auto found = calls_.find(stream);
  if (found == calls_.end()) return;
  held_ -= found->second.bytes.bytes();
  if (found->second.deadline) deadlines_->Remove({*found->second.deadline, this, stream});
  calls_.erase(found);
}

void EchoConnection::Expire(std::int32_t stream) {
  Call* const call = Find(stream);
  if (call == nullptr) return;
  call->deadline.reset();
  Finish(stream, call, Code::kDeadlineExceeded, "the deadline is over");
}

void EchoConnection::Finish(std::int32_t stream, Call* call, Code code, std::string_view text) {
  if (call->finished) return;
  call->finished = true;
  call->status = std::to_string(static_cast<int>(code));
  call->text = PercentEncode(text);
  Send(stream, call);
}

void EchoConnection::Send(std::int32_t stream, Call* call) {
  if (call->answering) {
    if (call->waiting) nghttp2_session_resume_data(session(), stream);
    call->waiting = false;
    return;
  }
  call->answering = true;
  nghttp2_nv headers[5] = {Header(":status", "200"), Header("content-type", "application/grpc")};
  std::size_t count = 2;
  if (!call->echo_initial.empty()) headers[count++] = Header("x-grpc-test-echo-initial", call->echo_initial);
  if (call->finished && call->ready == 0) {  // the status is all that there is
    headers[count++] = Header("grpc-status", call->status);
    if (!call->text.empty()) headers[count++] = Header("grpc-message", call->text);
    nghttp2_submit_response(session(), stream, headers, count, nullptr);
    return;
  }
  nghttp2_data_provider answer;
  answer.source.ptr = call;
  answer.read_callback = [](nghttp2_session*, std::int32_t id, std::uint8_t*, std::size_t most, std::uint32_t* flags,
                            nghttp2_data_source* source, void* self) -> ssize_t {
    return Self(self)->ReadAnswer(id, static_cast<Call*>(source->ptr), most, flags);
  };
  nghttp2_submit_response(session(), stream, headers, count, &answer);
}

ssize_t EchoConnection::ReadAnswer(std::int32_t stream, Call* call, std::size_t most, std::uint32_t* flags) {
  const std::size_t size = std::min(most, call->ready);
  if (size == 0 && !call->finished) {
    call->waiting = true;
    return NGHTTP2_ERR_DEFERRED;
  }
  *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
  call->ready -= size;
  if (call->ready == 0 && call->finished) {
    *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    SubmitTrailers(stream, *call);
  }
  return static_cast<ssize_t>(size);
}

void EchoConnection::SubmitTrailers(std::int32_t stream, const Call& call) {
  nghttp2_nv trailers[3] = {Header("grpc-status", call.status)};
  std::size_t count = 1;
  if (!call.text.empty()) trailers[count++] = Header("grpc-message", call.text);
  if (!call.echo_trailing.empty()) trailers[count++] = Header("x-grpc-test-echo-trailing-bin", call.echo_trailing);
  nghttp2_submit_trailer(session(), stream, trailers, count);
}

void EchoConnection::TakeMessage(std::int32_t stream, nghttp2_data_source* source, std::size_t length,
                                 SliceQueue* output) {
  Call* const call = static_cast<Call*>(source->ptr);
  output->Move(&call->bytes, length, &memory()->small());
  held_ -= length;
  OpenWindow(stream, call);
}

void EchoConnection::OpenWindow(std::int32_t stream, Call* call) {
  if (call->unread == 0 || call->half_closed || call->ready > kMaxUnsentBytes) return;
  nghttp2_session_consume_stream(session(), stream, call->unread);
  call->unread = 0;
}

}  // namespace softmax::bench

#include "lab/bench/echo_calls.h"

#include <grpc/slice_buffer.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/async_unary_call.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <deque>

#include "server/rpc/queue/call.h"
#include "server/rpc/queue/message_view.h"
#include "server/rpc/queue/raw_call.h"

namespace softmax::bench {
namespace {

using server::Tag;

// Messages that a stream may have read and not yet sent back, as many requests as the service keeps of one stream.
constexpr std::size_t kMaxUnsent = 256;

template <typename Message>
void CopyMessage(Message* message, RotatingBuffer* copy) {
  if (copy == nullptr) return;
  server::MessageView view(message);
  for (const std::span<const std::uint8_t> slice : view.slices()) copy->Copy(slice);
}

// Answers its one message once, and offers the server the next call before it does.
class OneEcho : public Tag {
 public:
  explicit OneEcho(const EchoQueue& queue) : queue_(queue) {}

  void Proceed(bool ok) final {
    if (answered_ || !ok) {
      delete this;
      return;
    }
    ArmUnaryEcho(queue_);
    answered_ = true;
    Answer();
  }

 protected:
  virtual void Answer() = 0;

  const EchoQueue& queue_;

 private:
  bool answered_ = false;
};

class UnaryEcho final : public OneEcho {
 public:
  explicit UnaryEcho(const EchoQueue& queue) : OneEcho(queue), responder_(&context_) {
    queue_.service->RequestSoftmax(&context_, &message_, &responder_, queue_.queue, queue_.queue,
                                   static_cast<Tag*>(this));
  }

 private:
  void Answer() override {
    if (!message_.Valid()) {
      responder_.FinishWithError(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "no message"),
                                 static_cast<Tag*>(this));
      return;
    }
    CopyMessage(&message_, queue_.copy);
    if (queue_.answer_bytes > 0) {
      const grpc::Slice answer(grpc_slice_malloc(queue_.answer_bytes), grpc::Slice::STEAL_REF);
      message_ = grpc::ByteBuffer(&answer, 1);
    }
    responder_.Finish(message_, grpc::Status::OK, static_cast<Tag*>(this));
  }

  grpc::ServerContext context_;
  grpc::ByteBuffer message_;
  grpc::ServerAsyncResponseWriter<grpc::ByteBuffer> responder_;
};

class RawEcho final : public OneEcho {
 public:
  explicit RawEcho(const EchoQueue& queue) : OneEcho(queue), call_(this) {
    call_.Request(queue_.server, queue_.methods->unary(), queue_.queue);
  }

 private:
  void Answer() override {
    if (call_.message() == nullptr) {
      call_.FinishWithError(absl::InvalidArgumentError("no message"), /*retry_after_ms=*/0);
      return;
    }
    CopyMessage(call_.message(), queue_.copy);
    grpc_slice_buffer answer;
    grpc_slice_buffer_init(&answer);
    const grpc_slice_buffer& received = call_.message()->data.raw.slice_buffer;
    if (queue_.answer_bytes > 0) {
      grpc_slice_buffer_add(&answer, grpc_slice_malloc(queue_.answer_bytes));
    } else {
      for (std::size_t i = 0; i < received.count; ++i) {
        grpc_slice_buffer_add(&answer, grpc_slice_ref(received.slices[i]));
      }
    }
    call_.Finish(&answer);
    grpc_slice_buffer_destroy(&answer);
  }

  server::RawCall call_;
};

// Reads and writes at the same time: the next message is read while the last one is sent back.
class StreamEcho {
 public:
  explicit StreamEcho(const EchoQueue& queue) : queue_(queue), stream_(&context_) {
    Tag* const started = &started_;
    if (queue_.methods != nullptr) {
      queue_.methods->RequestStream(&context_, &stream_, queue_.queue, started);
    } else {
      queue_.service->RequestSoftmaxStream(&context_, &stream_, queue_.queue, queue_.queue, started);
    }
  }

 private:
  // gRPC allows one operation of each kind at a time: each kind is a tag.
  class Operation final : public Tag {
   public:
    Operation(StreamEcho* call, void (StreamEcho::*done)(bool)) : call_(call), done_(done) {}
    void Proceed(bool ok) override { (call_->*done_)(ok); }

   private:
    StreamEcho* const call_;
    void (StreamEcho::*const done_)(bool);
  };

  void OnStarted(bool ok) {
    if (!ok) {
      delete this;
      return;
    }
    ArmStreamEcho(queue_);
    ReadIfRoom();
  }

  void ReadIfRoom() {
    if (reading_ || ended_ || unsent_.size() >= kMaxUnsent) return;
    reading_ = true;
    stream_.Read(&incoming_, static_cast<Tag*>(&read_));
  }

  void OnRead(bool ok) {
    reading_ = false;
    if (ok) {
      CopyMessage(&incoming_, queue_.copy);
      unsent_.emplace_back();
      unsent_.back().Swap(&incoming_);
    } else {
      ended_ = true;
    }
    Proceed();
  }

  void OnWritten(bool ok) {
    writing_ = false;
    if (ok) {
      unsent_.pop_front();
    } else {
      unsent_.clear();
      ended_ = true;
    }
    Proceed();
  }

  void Proceed() {
    ReadIfRoom();
    if (!writing_ && !unsent_.empty()) {
      writing_ = true;
      grpc::WriteOptions options;
      if (unsent_.size() > 1) options.set_buffer_hint();  // one write to the socket takes several
      stream_.Write(unsent_.front(), options, static_cast<Tag*>(&written_));
    }
    if (ended_ && !reading_ && !writing_) stream_.Finish(grpc::Status::OK, static_cast<Tag*>(&finished_));
  }

  void OnFinished(bool /*ok*/) { delete this; }

  const EchoQueue& queue_;
  grpc::ServerContext context_;
  grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> stream_;
  grpc::ByteBuffer incoming_;
  std::deque<grpc::ByteBuffer> unsent_;  // the first is being written while writing_
  bool reading_ = false;
  bool writing_ = false;
  bool ended_ = false;  // the client half-closed, or the call broke
  Operation started_{this, &StreamEcho::OnStarted};
  Operation read_{this, &StreamEcho::OnRead};
  Operation written_{this, &StreamEcho::OnWritten};
  Operation finished_{this, &StreamEcho::OnFinished};
};

}  // namespace

void ArmUnaryEcho(const EchoQueue& queue) {
  if (queue.methods != nullptr) {
    new RawEcho(queue);
  } else {
    new UnaryEcho(queue);
  }
}

void ArmStreamEcho(const EchoQueue& queue) { new StreamEcho(queue); }

}  // namespace softmax::bench

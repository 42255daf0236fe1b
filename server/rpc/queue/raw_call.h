#pragma once

#include <absl/status/status.h>
#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/impl/codegen/completion_queue_tag.h>
#include <grpcpp/server.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "server/rpc/queue/call.h"
#include "server/rpc/security/client_metadata.h"

namespace softmax::server {

// gRPC 1.51 hands a compressed message over as identity when grpc-encoding names nothing that it knows, or nothing at
// all. Marks the call's last message as compressed in an unknown way if its sender says that it is compressed.
void MarkIfCompressed(grpc_call* call, grpc_byte_buffer* message);

// One unary call of raw bytes, by gRPC's C interface. The C++ one waits for a call's end by an operation of its own
// beside the one that answers: another way through all filters and another event, a seventh of the instructions of a
// small call (docs/decisions/transport.md, "Which gRPC interface?"). Here the answer's operation waits for both.
//
// Named as in grpc::ServerContext where it does the same. For its queue's thread.
class RawCall {
 public:
  // `owner` hears of the two events: that the call is there, and that it has ended.
  explicit RawCall(Tag* owner) : event_(owner) {}
  ~RawCall();
  RawCall(const RawCall&) = delete;
  RawCall& operator=(const RawCall&) = delete;

  // Offers the server one more call of the method to match.
  void Request(grpc::Server* server, void* method, grpc::ServerCompletionQueue* queue);

  // From here on: a call that is there.

  // Null: the call came without one.
  const grpc_byte_buffer* message() const { return message_; }
  std::uint64_t message_bytes() const { return message_ == nullptr ? 0 : message_->data.raw.slice_buffer.length; }
  // As above; there is a message.
  void MarkIfCompressed() { server::MarkIfCompressed(call_, message_); }
  // Gives the received bytes back to the transport's quota.
  void ClearMessage();

  gpr_timespec raw_deadline() const { return deadline_; }
  std::string peer() const;
  // Both refer to the call's memory.
  ClientMetadata client_metadata() const;
  // The value of a key that came once; else empty.
  std::string_view OnlyValue(std::string_view key) const;

  // After the second event: whether the client took the call back, or its connection ended.
  bool cancelled() const { return cancelled_ != 0; }

  // Takes the slices.
  void Finish(grpc_slice_buffer* answer);
  // `retry_after_ms`: 0 says nothing of it.
  void FinishWithError(const absl::Status& status, std::uint32_t retry_after_ms);
  // Gives the answer up: the transport drops what it still can.
  void Cancel();

 private:
  class Event final : public grpc::internal::CompletionQueueTag {
   public:
    explicit Event(Tag* owner) : owner_(owner) {}
    bool FinalizeResult(void** tag, bool* /*ok*/) override {
      *tag = owner_;
      return true;
    }

   private:
    Tag* const owner_;
  };

  void Start(const grpc_op* operations, std::size_t count);

  Event event_;
  grpc_call* call_ = nullptr;
  grpc_byte_buffer* message_ = nullptr;  // the request's, then the answer's
  grpc_metadata_array metadata_{};
  gpr_timespec deadline_{};
  int cancelled_ = 0;
};

}  // namespace softmax::server

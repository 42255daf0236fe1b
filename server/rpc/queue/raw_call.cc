#include "server/rpc/queue/raw_call.h"

#include <grpc/slice.h>
#include <grpc/slice_buffer.h>
#include <grpc/support/alloc.h>
#include <grpc/support/log.h>

#include "server/rpc/queue/status.h"

// gRPC's own, in none of the headers that it installs. Nothing else tells of the flag.
std::uint32_t grpc_call_test_only_get_message_flags(grpc_call* call);

namespace softmax::server {
namespace {

constexpr std::uint32_t kCompressed = 0x80000000u;  // gRPC's GRPC_WRITE_INTERNAL_COMPRESS

grpc::string_ref TextOf(const grpc_slice& slice) {
  return {reinterpret_cast<const char*>(GRPC_SLICE_START_PTR(slice)), GRPC_SLICE_LENGTH(slice)};
}

}  // namespace

void MarkIfCompressed(grpc_call* call, grpc_byte_buffer* message) {
  grpc_compression_algorithm& compression = message->data.raw.compression;
  if (compression != GRPC_COMPRESS_NONE || (grpc_call_test_only_get_message_flags(call) & kCompressed) == 0) return;
  compression = GRPC_COMPRESS_ALGORITHMS_COUNT;
}

RawCall::~RawCall() {
  if (message_ != nullptr) grpc_byte_buffer_destroy(message_);
  grpc_metadata_array_destroy(&metadata_);
  if (call_ != nullptr) grpc_call_unref(call_);
}

void RawCall::Request(grpc::Server* server, void* method, grpc::ServerCompletionQueue* queue) {
  grpc_metadata_array_init(&metadata_);
  const grpc_call_error error =
      grpc_server_request_registered_call(server->c_server(), method, &call_, &deadline_, &metadata_, &message_,
                                          queue->cq(), queue->cq(), static_cast<void*>(&event_));
  GPR_ASSERT(error == GRPC_CALL_OK);
}

void RawCall::ClearMessage() {
  if (message_ != nullptr) grpc_slice_buffer_reset_and_unref(&message_->data.raw.slice_buffer);
}

std::string RawCall::peer() const {
  char* const peer = grpc_call_get_peer(call_);
  std::string text(peer);
  gpr_free(peer);
  return text;
}

ClientMetadata RawCall::client_metadata() const {
  ClientMetadata metadata;
  for (std::size_t i = 0; i < metadata_.count; ++i) {
    metadata.emplace(TextOf(metadata_.metadata[i].key), TextOf(metadata_.metadata[i].value));
  }
  return metadata;
}

std::string_view RawCall::OnlyValue(std::string_view key) const {
  const grpc_slice* found = nullptr;
  for (std::size_t i = 0; i < metadata_.count; ++i) {
    const grpc::string_ref text = TextOf(metadata_.metadata[i].key);
    if (std::string_view(text.data(), text.size()) != key) continue;
    if (found != nullptr) return {};
    found = &metadata_.metadata[i].value;
  }
  if (found == nullptr) return {};
  const grpc::string_ref value = TextOf(*found);
  return {value.data(), value.size()};
}

void RawCall::Start(const grpc_op* operations, std::size_t count) {
  const grpc_call_error error = grpc_call_start_batch(call_, operations, count, static_cast<void*>(&event_), nullptr);
  GPR_ASSERT(error == GRPC_CALL_OK);
}

void RawCall::Finish(grpc_slice_buffer* answer) {
  ClearMessage();
  grpc_slice_buffer_swap(&message_->data.raw.slice_buffer, answer);
  grpc_op operations[4] = {};
  operations[0].op = GRPC_OP_SEND_INITIAL_METADATA;
  operations[1].op = GRPC_OP_SEND_MESSAGE;
  operations[1].data.send_message.send_message = message_;
  operations[2].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
  operations[2].data.send_status_from_server.status = GRPC_STATUS_OK;
  operations[3].op = GRPC_OP_RECV_CLOSE_ON_SERVER;
  operations[3].data.recv_close_on_server.cancelled = &cancelled_;
  Start(operations, 4);
}

void RawCall::FinishWithError(const absl::Status& status, std::uint32_t retry_after_ms) {
  StatusOperation sent(status, retry_after_ms);
  grpc_op operations[3] = {};
  operations[0].op = GRPC_OP_SEND_INITIAL_METADATA;
  operations[1] = sent.operation();
  operations[2].op = GRPC_OP_RECV_CLOSE_ON_SERVER;
  operations[2].data.recv_close_on_server.cancelled = &cancelled_;
  Start(operations, 3);
}

void RawCall::Cancel() {
  grpc_call_cancel_with_status(call_, GRPC_STATUS_CANCELLED, "given up by the server", nullptr);
}

}  // namespace softmax::server

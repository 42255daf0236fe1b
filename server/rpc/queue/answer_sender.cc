#include "server/rpc/queue/answer_sender.h"

#include <absl/container/inlined_vector.h>
#include <grpc/slice.h>
#include <grpcpp/support/slice.h>

namespace softmax::server {
namespace {

// On any gRPC thread, perhaps inside the transport: only bookkeeping, no gRPC call.
void ReleaseHeld(void* held) { Connection::Release(static_cast<HeldAnswer*>(held)); }

}  // namespace

bool AnswerSender::ShouldReference(std::uint64_t bytes, const Connection* connection) const {
  if (bytes <= kCopyBytes) return false;
  // Low water: an eighth of the arena. Below it an unread answer costs others their room.
  if (arena_.slabs_total() - arena_.slabs_used() < arena_.slabs_total() / 8) return false;
  // What small requests had is free again when the waiting one has its turn, and not when their answers are read.
  if (backlog_.memory_is_short()) return false;
  if (connection == nullptr) return false;
  // The first is always by reference: a share smaller than one answer must not forbid all.
  const std::uint64_t unread = connection->unread_bytes() + connection->queued_bytes();
  return unread == 0 || unread + bytes <= connections_.options().max_unread_bytes;
}

void AnswerSender::FlushPending() {
  if (pending_.empty()) return;
  grpc_slice_buffer_add(&slices_, grpc_slice_from_copied_buffer(pending_.data(), pending_.size()));
  pending_.clear();
}

void AnswerSender::Append(std::string_view header, const AnswerParts& parts, const AnswerPlaces& places,
                          const SpanRef* span, const std::shared_ptr<Connection>& connection, TimePoint now) {
  std::size_t begin = 0;
  for (std::size_t i = 0; i < parts.count; ++i) {
    const AnswerParts::Part& part = parts.part[i];
    pending_.append(header.substr(begin, part.header_end - begin));
    begin = part.header_end;
    AppendPart(AddressOf(part, places), part.bytes, span, connection, now);
  }
  pending_.append(header.substr(begin));
}

void AnswerSender::AppendPart(const std::byte* output, std::uint64_t bytes, const SpanRef* span,
                              const std::shared_ptr<Connection>& connection, TimePoint now) {
  if (!ShouldReference(bytes, connection.get())) {
    pending_.append(reinterpret_cast<const char*>(output), bytes);
    recorder_.PayloadCopiedOut(bytes);
    return;
  }
  FlushPending();
  HeldAnswer* const held = connection->Hold(HeldAnswer{
      .span = *span, .bytes = bytes, .sent = now, .held_bytes = &connections_.held_bytes(), .connection = connection});
  grpc_slice_buffer_add(&slices_,
                        grpc_slice_new_with_user_data(const_cast<std::byte*>(output), bytes, &ReleaseHeld, held));
}

grpc_slice_buffer* AnswerSender::Message() {
  FlushPending();
  return &slices_;
}

grpc::ByteBuffer AnswerSender::Take() {
  FlushPending();
  absl::InlinedVector<grpc::Slice, 16> slices;
  while (slices_.count > 0) slices.emplace_back(grpc_slice_buffer_take_first(&slices_), grpc::Slice::STEAL_REF);
  if (slices.empty()) slices.emplace_back();
  return grpc::ByteBuffer(slices.data(), slices.size());
}

}  // namespace softmax::server

#include "server/rpc/queue/answer_sender.h"

#include <absl/container/inlined_vector.h>
#include <grpc/slice.h>
#include <grpcpp/support/slice.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace softmax::server {
namespace {

// On any gRPC thread, perhaps inside the transport: only bookkeeping, no gRPC call.
void ReleaseHeld(void* held) { Connection::Release(static_cast<HeldAnswer*>(held)); }

}  // namespace

PayloadCopy::PayloadCopy(const AnswerParts& parts, const AnswerPlaces& places) : parts_(parts), from_(places) {
  auto memory = std::make_unique_for_overwrite<std::byte[]>(parts.bytes());
  to_ = memory.get();
  memory_ = std::move(memory);
}

bool PayloadCopy::Step(std::uint64_t most) {
  while (part_ < parts_.count && most > 0) {
    AnswerParts::Part& part = parts_.part[part_];
    const std::uint64_t bytes = std::min(most, part.bytes - done_);
    std::memcpy(to_ + at_, AnswerSender::AddressOf(part, from_) + done_, bytes);
    most -= bytes;
    done_ += bytes;
    at_ += bytes;
    if (done_ < part.bytes) break;
    part.of_summary = false;
    part.offset = at_ - part.bytes;
    done_ = 0;
    ++part_;
  }
  return part_ == parts_.count;
}

AnswerPlaces PayloadCopy::places() const { return {.output = to_, .summary = nullptr}; }

bool AnswerSender::ShouldReference(std::uint64_t bytes, const Connection* connection) const {
  if (bytes <= kCopyBytes) return false;
  // Low water: an eighth of the arena. Below it an unread answer costs others their room.
  if (arena_.slabs_total() - arena_.slabs_used() < arena_.slabs_total() / 8) return false;
  // What small requests had is free again when the waiting one has its turn, and not when their answers are read.
  if (backlog_.memory_is_short()) return false;
  if (connection == nullptr) return false;
  // The first is always by reference: a share smaller than one answer must not forbid all.
  const std::uint64_t unread = connection->unread_bytes() + connection->share().queued_bytes;
  return unread == 0 || unread + bytes <= connections_.options().max_unread_bytes;
}

void AnswerSender::AppendHeld(const void* data, HeldAnswer answer, const std::shared_ptr<Connection>& connection) {
  const std::uint64_t bytes = answer.bytes;
  answer.connection = connection;
  HeldAnswer* const held = connection->Hold(std::move(answer));
  if (data == nullptr) data = held->text.data();  // it has moved with its answer
  grpc_slice_buffer_add(&slices_, grpc_slice_new_with_user_data(const_cast<void*>(data), bytes, &ReleaseHeld, held));
}

void AnswerSender::FlushPending(const std::shared_ptr<Connection>& connection, TimePoint now) {
  if (pending_.empty()) return;
  if (pending_.size() <= kCopyBytes || connection == nullptr) {
    grpc_slice_buffer_add(&slices_, grpc_slice_from_copied_buffer(pending_.data(), pending_.size()));
    pending_.clear();
    return;
  }
  HeldAnswer text{.bytes = pending_.size(), .sent = now, .budget = &connections_.unread_budget()};
  text.text = std::exchange(pending_, {});
  AppendHeld(nullptr, std::move(text), connection);
}

void AnswerSender::Append(std::string_view header, const AnswerParts& parts, const AnswerPlaces& places,
                          const AnswerMemory& memory, const std::shared_ptr<Connection>& connection, TimePoint now) {
  std::size_t begin = 0;
  if (header.size() > kCopyBytes) pending_.reserve(pending_.size() + header.size());
  for (std::size_t i = 0; i < parts.count; ++i) {
    const AnswerParts::Part& part = parts.part[i];
    pending_.append(header.substr(begin, part.header_end - begin));
    begin = part.header_end;
    AppendPart(AddressOf(part, places), part.bytes, memory, connection, now);
  }
  pending_.append(header.substr(begin));
}

void AnswerSender::AppendPart(const std::byte* output, std::uint64_t bytes, const AnswerMemory& memory,
                              const std::shared_ptr<Connection>& connection, TimePoint now) {
  if (memory.copy != nullptr && bytes > kCopyBytes && connection != nullptr) {
    FlushPending(connection, now);
    AppendHeld(output, {.copy = memory.copy, .bytes = bytes, .sent = now, .budget = &connections_.unread_budget()},
               connection);
  } else if (memory.copy == nullptr && ShouldReference(bytes, connection.get())) {
    FlushPending(connection, now);
    AppendHeld(output, {.span = *memory.span, .bytes = bytes, .sent = now, .held_bytes = &connections_.held_bytes()},
               connection);
  } else {
    pending_.append(reinterpret_cast<const char*>(output), bytes);
    recorder_.Add(Counter::kCopiedOut, bytes);
  }
}

grpc_slice_buffer* AnswerSender::Message(const std::shared_ptr<Connection>& connection, TimePoint now) {
  FlushPending(connection, now);
  return &slices_;
}

grpc::ByteBuffer AnswerSender::Take(const std::shared_ptr<Connection>& connection, TimePoint now) {
  FlushPending(connection, now);
  absl::InlinedVector<grpc::Slice, 16> slices;
  while (slices_.count > 0) slices.emplace_back(grpc_slice_buffer_take_first(&slices_), grpc::Slice::STEAL_REF);
  if (slices.empty()) slices.emplace_back();
  return grpc::ByteBuffer(slices.data(), slices.size());
}

}  // namespace softmax::server

#pragma once

#include <grpc/slice_buffer.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <memory>
#include <string>

#include "common/wire/encode.h"
#include "server/batching/arena.h"
#include "server/batching/backlog.h"
#include "server/batching/pending_request.h"
#include "server/metrics/metrics.h"
#include "server/rpc/accept/connections.h"

namespace softmax::server {

// Where an answer's payload lies: in the arena, or in a copy that frees the arena of it.
struct AnswerMemory {
  const SpanRef* span = nullptr;  // borrowed
  std::shared_ptr<const std::byte[]> copy = nullptr;
};

// Copies an answer's payload out of the arena, a step at a time, so that its span comes free.
class PayloadCopy {
 public:
  PayloadCopy(const AnswerParts& parts, const AnswerPlaces& places);
  // Copies some; whether that was the last of it.
  bool Step(std::uint64_t most = UINT64_MAX);
  // Once all is copied: where the parts are then, and what they lie in.
  const AnswerParts& parts() const { return parts_; }
  AnswerPlaces places() const;
  const std::shared_ptr<const std::byte[]>& memory() const { return memory_; }

 private:
  AnswerParts parts_;
  const AnswerPlaces from_;
  std::byte* to_;
  std::shared_ptr<const std::byte[]> memory_;
  std::size_t part_ = 0;    // that is being copied
  std::uint64_t done_ = 0;  // of it
  std::uint64_t at_ = 0;    // in memory_
};

// Turns headers and outputs into one outgoing message. An output leaves by reference (no copy; gRPC holds its span
// until the socket took it) when it is worth it, its connection holds less than its share, and nobody is in need of the
// arena's room; otherwise it is copied, and its span is free at once. Whatever gRPC holds of an answer, copies too, is
// accounted to its connection until the socket took it. Thread-compatible: one per queue thread.
class AnswerSender {
 public:
  // Below this a copy is cheaper than another slice's reference count and vector element, and a message that is no
  // longer is not accounted: a connection has few of them, as many as it may have calls.
  static constexpr std::uint64_t kCopyBytes = 1024;

  AnswerSender(Arena& arena, Backlog& backlog, Connections& connections, Recorder& recorder)
      : arena_(arena), backlog_(backlog), connections_(connections), recorder_(recorder) {
    grpc_slice_buffer_init(&slices_);
  }
  ~AnswerSender() { grpc_slice_buffer_destroy(&slices_); }
  AnswerSender(const AnswerSender&) = delete;
  AnswerSender& operator=(const AnswerSender&) = delete;

  // Whether an output of this size can leave by reference at all, so that the connection is worth looking up.
  static bool MayReference(std::uint64_t bytes) { return bytes > kCopyBytes; }

  // Whether an output of `bytes` may stay in the arena until the connection's peer has read it. `connection` may
  // be null.
  bool ShouldReference(std::uint64_t bytes, const Connection* connection) const;

  // Where a part of an answer's payload is.
  static const std::byte* AddressOf(const AnswerParts::Part& part, const AnswerPlaces& places) {
    return (part.of_summary ? places.summary : places.output) + part.offset;
  }
  // Appends an answer: `header`, with the parts of the payload in their places. `connection` may be null; all that a
  // message has is of one connection.
  void Append(std::string_view header, const AnswerParts& parts, const AnswerPlaces& places, const AnswerMemory& memory,
              const std::shared_ptr<Connection>& connection, TimePoint now);

  std::uint64_t size() const { return slices_.length + pending_.size(); }
  // The message so far, until the next Append; whoever takes its slices starts a new one.
  grpc_slice_buffer* Message(const std::shared_ptr<Connection>& connection, TimePoint now);
  // The same; starts a new one. Never without a slice: an invalid buffer aborts the process.
  grpc::ByteBuffer Take(const std::shared_ptr<Connection>& connection, TimePoint now);

 private:
  void FlushPending(const std::shared_ptr<Connection>& connection, TimePoint now);
  void AppendPart(const std::byte* data, std::uint64_t bytes, const AnswerMemory& memory,
                  const std::shared_ptr<Connection>& connection, TimePoint now);
  // The slice of bytes that `answer` keeps, with the connection until the socket took them.
  void AppendHeld(const void* data, HeldAnswer answer, const std::shared_ptr<Connection>& connection);

  Arena& arena_;
  Backlog& backlog_;
  Connections& connections_;
  Recorder& recorder_;
  std::string pending_;  // copied bytes not yet in a slice
  grpc_slice_buffer slices_;
};

}  // namespace softmax::server

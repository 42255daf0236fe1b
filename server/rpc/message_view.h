#pragma once

#include <absl/container/inlined_vector.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include "server/batching/work.h"
#include "server/rpc/wire.h"

namespace softmax::server {

// A received message's slices without copying or referencing them. Valid as long as the buffer.
class MessageView : private grpc::ProtoBufferReader {
 public:
  // `buffer` is Valid().
  explicit MessageView(grpc::ByteBuffer* buffer) : grpc::ProtoBufferReader(buffer) {
    const grpc_byte_buffer& raw = *reader()->buffer_in;
    compression_ = raw.data.raw.compression;
    slices_.reserve(raw.data.raw.slice_buffer.count);
    for (std::size_t i = 0; i < raw.data.raw.slice_buffer.count; ++i) {
      const grpc_slice& slice = raw.data.raw.slice_buffer.slices[i];
      slices_.emplace_back(GRPC_SLICE_START_PTR(slice), GRPC_SLICE_LENGTH(slice));
    }
  }

  Slices slices() const { return slices_; }
  // Decompression is off on this server: anything but GRPC_COMPRESS_NONE is still compressed.
  grpc_compression_algorithm compression() const { return compression_; }

 private:
  grpc_compression_algorithm compression_;
  absl::InlinedVector<std::span<const std::uint8_t>, 8> slices_;
};

// Where `size` bytes from `offset` of the message on lie; valid as long as the buffer is.
inline void ListPieces(grpc::ByteBuffer* buffer, std::uint64_t offset, std::uint64_t size, InputPieces* pieces) {
  pieces->clear();
  const MessageView view(buffer);
  VisitSlices(view.slices(), offset, size, [pieces](const std::uint8_t* data, std::uint64_t bytes) {
    pieces->push_back({reinterpret_cast<const std::byte*>(data), bytes});
  });
}

}  // namespace softmax::server

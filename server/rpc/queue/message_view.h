#pragma once

#include <absl/container/inlined_vector.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include "common/wire/slices.h"
#include "server/batching/pending_request.h"

namespace softmax::server {

// A received message's slices without copying or referencing them. Valid as long as the buffer.
class MessageView {
 public:
  explicit MessageView(const grpc_byte_buffer* buffer) : compression_(buffer->data.raw.compression) {
    const grpc_slice_buffer& slices = buffer->data.raw.slice_buffer;
    slices_.reserve(slices.count);
    for (std::size_t i = 0; i < slices.count; ++i) {
      slices_.emplace_back(GRPC_SLICE_START_PTR(slices.slices[i]), GRPC_SLICE_LENGTH(slices.slices[i]));
    }
  }
  // `buffer` is Valid().
  explicit MessageView(grpc::ByteBuffer* buffer) : MessageView(Raw(buffer)) {}
  static grpc_byte_buffer* Raw(grpc::ByteBuffer* buffer) { return Reader(buffer).raw(); }

  Slices slices() const { return slices_; }
  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const auto& slice : slices_) sum += slice.size();
    return sum;
  }
  // Decompression is off on this server: anything but GRPC_COMPRESS_NONE is still compressed.
  grpc_compression_algorithm compression() const { return compression_; }

 private:
  // What gRPC's C++ interface has no other way to.
  struct Reader : grpc::ProtoBufferReader {
    using ProtoBufferReader::ProtoBufferReader;
    grpc_byte_buffer* raw() { return reader()->buffer_in; }
  };

  grpc_compression_algorithm compression_;
  absl::InlinedVector<std::span<const std::uint8_t>, 8> slices_;
};

// Where `size` bytes from `offset` of the message on lie; valid as long as the message is.
inline void ListPieces(const MessageView& view, std::uint64_t offset, std::uint64_t size, InputPieces* pieces) {
  pieces->clear();
  VisitSlices(view.slices(), offset, size, [pieces](const std::uint8_t* data, std::uint64_t bytes) {
    pieces->push_back({reinterpret_cast<const std::byte*>(data), bytes});
  });
}

}  // namespace softmax::server

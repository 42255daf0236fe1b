#include "server/rpc/queue/compressed_flag.h"

#include <cstdint>

// gRPC's own, in none of the headers that it installs. Nothing else tells of the flag.
std::uint32_t grpc_call_test_only_get_message_flags(grpc_call* call);

namespace softmax::server {
namespace {

constexpr std::uint32_t kCompressed = 0x80000000u;  // gRPC's GRPC_WRITE_INTERNAL_COMPRESS

}  // namespace

void MarkIfCompressed(grpc_call* call, grpc_byte_buffer* message) {
  grpc_compression_algorithm& compression = message->data.raw.compression;
  if (compression != GRPC_COMPRESS_NONE || (grpc_call_test_only_get_message_flags(call) & kCompressed) == 0) return;
  compression = GRPC_COMPRESS_ALGORITHMS_COUNT;
}

}  // namespace softmax::server

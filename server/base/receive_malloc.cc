// The C library's malloc, but that blocks of the size that gRPC receives messages into come from the pool that a device
// can read (server/base/receive_pool.h). Linked into the server's program only, and not beside a sanitizer,
// which has a malloc of its own; without it, or with the pool empty, tensors are copied.
#include <cstddef>
#include <cstring>

#include "server/base/receive_pool.h"

extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
void __libc_free(void* memory);
}

using softmax::server::ReceivePool;

extern "C" void* malloc(std::size_t bytes) {
  if (bytes - ReceivePool::kSmallest <= ReceivePool::kLargest - ReceivePool::kSmallest) {
    if (void* const block = ReceivePool::TryTake(bytes)) return block;
  }
  return __libc_malloc(bytes);
}

extern "C" void free(void* memory) {
  if (ReceivePool::Contains(memory)) return ReceivePool::Give(memory);
  __libc_free(memory);
}

extern "C" void* realloc(void* memory, std::size_t bytes) {
  if (!ReceivePool::Contains(memory)) return __libc_realloc(memory, bytes);
  if (bytes <= ReceivePool::kLargest && bytes > 0) return memory;
  void* const larger = bytes == 0 ? nullptr : __libc_malloc(bytes);
  if (larger == nullptr && bytes > 0) return nullptr;
  if (larger != nullptr) std::memcpy(larger, memory, ReceivePool::kLargest);
  ReceivePool::Give(memory);
  return larger;
}

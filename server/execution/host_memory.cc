#include "server/execution/host_memory.h"

#include <sys/mman.h>

namespace softmax::server {

std::unique_ptr<HostMemory> HostMemory::Allocate(std::size_t bytes) {
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  madvise(data, bytes, MADV_HUGEPAGE);
  return std::unique_ptr<HostMemory>(new HostMemory(static_cast<std::byte*>(data), bytes));
}

HostMemory::~HostMemory() { munmap(data_, bytes_); }

}  // namespace softmax::server

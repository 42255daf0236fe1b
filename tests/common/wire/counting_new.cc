#include "tests/common/wire/counting_new.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<std::size_t> allocations{0};
std::atomic<std::size_t> allocated_bytes{0};
}  // namespace

// In a file of its own, so that no caller sees that these are malloc and free. The other forms would call the first by
// themselves; AddressSanitizer's own do not.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  ++allocations;
  allocated_bytes += size;
  return std::malloc(size == 0 ? 1 : size);
}
void* operator new(std::size_t size) {
  void* const memory = operator new(size, std::nothrow);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new[](std::size_t size) { return operator new(size); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return operator new(size, std::nothrow); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace softmax::testing {

HeapUse HeapUseSoFar() { return {allocations, allocated_bytes}; }

}  // namespace softmax::testing

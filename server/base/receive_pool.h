#pragma once

#include <cstddef>

namespace softmax::server {

// Memory that the transport receives messages into and that a device can read, so that a tensor need not be copied to
// where the device reaches it. gRPC takes the memory for a read from malloc, in blocks of one size:
// receive_malloc.cc gives it blocks of this pool. One pool a process, installed before the transport's threads start.
//
// All calls are thread-safe and none of them allocates.
class ReceivePool {
 public:
  // What gRPC 1.51 asks for: 64 KiB and a reference count before it. Blocks begin on cache lines, and not all of them
  // at the same place of a page.
  static constexpr std::size_t kSmallest = (64u << 10) + 1;
  static constexpr std::size_t kLargest = (64u << 10) + 64;

  // Takes `memory` over. False: it is too small for a block, or another pool is in use.
  static bool Install(std::byte* memory, std::size_t bytes);
  // No block is given out any more. True: none is in use, and the memory may go. False: some are, the memory has to
  // stay, and no other pool is installed as long as this one is not empty.
  [[nodiscard]] static bool Remove();

  // Whether the byte lies in the pool.
  static bool Contains(const void* address);

  // The calling thread is one of those that read most messages: it keeps the blocks that it used last for itself. Ends
  // with EndReceiving, on the same thread. (Others read as well: while an answer does not fit into its socket, gRPC has
  // a thread of its own that waits for that connection.)
  static void BeginReceiving();
  static void EndReceiving();

  // A block, or null: not the size, or none is left.
  static void* TryTake(std::size_t bytes);
  // Any thread. Contains(block).
  static void Give(void* block);

  static std::size_t blocks_total();
  static std::size_t blocks_used();
};

}  // namespace softmax::server

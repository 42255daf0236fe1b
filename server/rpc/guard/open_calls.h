#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "server/rpc/guard/cut_message.h"

namespace softmax::server {

// The calls of one connection whose client may still send: where in its messages each is. One thread at a time.
class OpenCalls {
 public:
  struct Limits {
    std::uint64_t tensor_message_bytes = UINT64_MAX;   // of a method whose messages bring tensors
    std::uint64_t control_message_bytes = UINT64_MAX;  // of any other
  };

  explicit OpenCalls(const Limits& limits) : limits_(limits) {}

  // `stream` is larger than those before; `weight`: as how many calls it counts.
  void Begin(std::uint32_t stream, bool brings_tensors, std::uint32_t weight = 1);
  // A piece of what the stream's DATA frames carry. A message that claims more than its method takes is cut in place
  // (cut_message.h). False: it cannot be, since gRPC has seen a part of its length.
  bool Take(std::uint32_t stream, std::span<char> bytes);
  // The client says no more, or nobody listens. A stream that is not open is fine.
  void End(std::uint32_t stream);

  std::size_t size() const { return calls_.size(); }
  // Those whose first message is not there whole, by their weight.
  std::uint32_t waiting() const { return waiting_; }

 private:
  // Of a message: a flag, and 4 bytes of length.
  static constexpr std::uint8_t kPrefixBytes = 5;

  struct Call {
    std::uint32_t stream;
    std::uint32_t weight;
    bool brings_tensors;
    bool waits = true;
    std::uint8_t prefix_bytes = 0;  // of this message's that have come
    std::uint32_t claimed = 0;      // by them
    std::uint32_t left = 0;         // of the message
    bool is_cut = false;            // this message
    bool was_cut = false;           // the call ends: what comes still, nobody reads
  };

  std::vector<Call>::iterator Find(std::uint32_t stream);
  bool TakePrefix(Call* call, std::span<char>* bytes);

  Limits limits_;
  std::vector<Call> calls_;  // in the order of their streams
  std::uint32_t waiting_ = 0;
};

}  // namespace softmax::server

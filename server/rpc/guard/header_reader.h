#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace softmax::server {

// Tells from a connection's header blocks (HPACK, RFC 7541) which calls bring tensors, and how many fields they have.
// It decodes nothing: of the dynamic table it keeps what kind of field each of the last insertions was, and a path is
// compared as it was sent, Huffman-coded or not. What it does not understand brings no tensors.
class HeaderReader {
 public:
  struct Headers {
    bool brings_tensors = false;  // by the path of a method whose messages do (tensor_methods.h)
    std::uint32_t fields = 0;
  };

  // Blocks in the order in which they arrive, each whole, without padding and priority.
  Headers Take(std::string_view block);
  // A block was skipped: no later one is understood.
  void Lose() { lost_ = true; }

 private:
  enum class Field : std::uint8_t { kOther, kTensorPath, kOtherPath };
  // Those of gRPC's table of 4 KiB, whose entries count 32 bytes and more. Older ones are gone in any case.
  static constexpr std::uint32_t kEntries = 128;

  // Longer blocks are read each time.
  static constexpr std::size_t kMostKnown = 64;

  Headers Read(std::string_view block);
  std::optional<Field> FieldAt(std::uint32_t index) const;
  std::optional<Field> TakeLiteral(std::string_view* rest, int prefix_bits) const;

  std::array<Field, kEntries> entries_{};
  std::uint32_t inserted_ = 0;
  bool lost_ = false;
  // The last block that was read and inserted nothing: its answer holds until something is.
  std::string known_block_;
  std::uint32_t known_at_ = 0;
  Headers known_;
};

}  // namespace softmax::server

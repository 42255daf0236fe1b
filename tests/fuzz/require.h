#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

namespace softmax::testing {

// A fuzz target's assertion: libFuzzer keeps the input of a run that aborts.
inline void Require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

// A refusal is something a person can read: not empty, and not longer than a few lines.
inline void RequireReason(std::string_view reason, std::size_t longest) {
  Require(!reason.empty(), "a refusal has a reason");
  Require(reason.size() <= longest, "a reason is of readable length");
}

// The input in an allocation of exactly its size, so that AddressSanitizer sees a read past its end.
class ExactCopy {
 public:
  ExactCopy(const std::uint8_t* data, std::size_t size) : bytes_(new char[size]), size_(size) {
    if (size > 0) std::memcpy(bytes_.get(), data, size);
  }
  std::string_view text() const { return {bytes_.get(), size_}; }

 private:
  std::unique_ptr<char[]> bytes_;
  std::size_t size_;
};

}  // namespace softmax::testing

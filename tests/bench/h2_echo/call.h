// One call of gRPC's protocol: what its headers ask for, and its messages on their way in and out.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tests/bench/h2_echo/memory.h"

namespace softmax::bench {

// gRPC's codes that are used here.
enum class Code { kOk = 0, kDeadlineExceeded = 4, kResourceExhausted = 8, kUnimplemented = 12, kInternal = 13 };

// Messages in a stream of bytes: one byte for "compressed", four for the length, the bytes.
class MessageScanner {
 public:
  // Goes over bytes that came. How many of all bytes so far belong to whole messages.
  std::size_t Scan(std::span<const std::uint8_t> bytes);

  std::size_t bytes() const { return seen_; }  // of all
  int messages() const { return messages_; }   // whole ones
  bool within_message() const { return head_bytes_ > 0; }
  bool compressed() const { return compressed_; }
  std::uint32_t largest() const { return largest_; }

 private:
  std::size_t seen_ = 0;
  std::size_t whole_ = 0;
  std::uint32_t length_ = 0;  // of the present message
  std::uint32_t left_ = 0;    // of its bytes
  std::uint32_t largest_ = 0;
  int head_bytes_ = 0;
  int messages_ = 0;
  bool compressed_ = false;
};

struct Call {
  enum class Method { kUnknown, kUnary, kStream, kNever };

  static constexpr std::size_t kMaxHeaderBytes = 16 << 10;
  static constexpr std::uint32_t kMaxMessageBytes = 65 << 20;

  // False: too many headers.
  bool TakeHeader(std::string_view name, std::string_view value);

  Method method = Method::kUnknown;
  bool is_grpc = false;
  std::optional<std::chrono::microseconds> timeout;
  std::string encoding;
  // Metadata that the public interoperability tests have sent back, as headers and as trailers.
  std::string echo_initial;
  std::string echo_trailing;
  std::string asked_status;  // "CODE TEXT", to end with

  MessageScanner scanner;
  SliceQueue bytes;        // that came and did not leave; an echo's messages leave as they came
  std::size_t ready = 0;   // of them, to send
  std::size_t unread = 0;  // of them, not yet acknowledged to the sender's windows
  bool half_closed = false;
  bool answering = false;  // its headers went, or will
  bool waiting = false;    // nghttp2 asked for more than was ready
  bool finished = false;   // nothing more becomes ready: the status follows
  std::string status;      // the code as gRPC's trailer has it
  std::string text;
  std::size_t header_bytes = 0;
  std::optional<std::chrono::steady_clock::time_point> deadline;
};

// "100m" and the like; as gRPC has it, at most eight digits. At most a hundred years. Nothing: malformed.
std::optional<std::chrono::microseconds> ParseTimeout(std::string_view text);

// As gRPC's messages travel in headers: percent-encoded.
std::string PercentEncode(std::string_view text);

}  // namespace softmax::bench

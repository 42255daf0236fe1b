#pragma once

#include <cstdint>
#include <string>

// What clients write by hand that misbehave.
namespace softmax::testing {

inline constexpr char kHttp2Preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

enum FrameType { kData, kHeaders, kPriority, kReset, kSettings, kPushPromise, kPing, kGoAway, kWindow, kContinuation };
inline constexpr int kEndStream = 1;
inline constexpr int kAck = 1;
inline constexpr int kEndHeaders = 4;
inline constexpr int kPadded = 8;

inline std::string BigEndian(std::uint32_t value, int bytes) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) text.push_back(static_cast<char>(value >> (8 * i)));
  return text;
}

inline std::string Http2Frame(int type, int flags, std::uint32_t stream, const std::string& body = "") {
  return BigEndian(static_cast<std::uint32_t>(body.size()), 3) + static_cast<char>(type) + static_cast<char>(flags) +
         BigEndian(stream, 4) + body;
}

inline std::string Literal(const std::string& text) { return std::string(1, static_cast<char>(text.size())) + text; }

// A call's headers in HPACK without a table: indexed static fields (POST, http) and literals.
inline std::string CallHeaders(const std::string& path) {
  return "\x83\x86\x04" + Literal(path) + "\x01" + Literal("localhost") + "\x0f\x10" + Literal("application/grpc") +
         std::string(1, '\0') + Literal("te") + Literal("trailers");
}

}  // namespace softmax::testing

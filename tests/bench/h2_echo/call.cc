#include "tests/bench/h2_echo/call.h"

#include <charconv>

namespace softmax::bench {
namespace {

constexpr int kHeadBytes = 5;

}  // namespace

std::size_t MessageScanner::Scan(std::span<const std::uint8_t> bytes) {
  while (!bytes.empty()) {
    if (head_bytes_ < kHeadBytes) {
      if (head_bytes_ == 0) {
        compressed_ |= bytes[0] != 0;
        length_ = 0;
      } else {
        length_ = length_ << 8 | bytes[0];
      }
      ++head_bytes_;
      ++seen_;
      bytes = bytes.subspan(1);
      left_ = length_;
    } else {
      const std::size_t part = std::min<std::size_t>(left_, bytes.size());
      left_ -= static_cast<std::uint32_t>(part);
      seen_ += part;
      bytes = bytes.subspan(part);
    }
    if (head_bytes_ == kHeadBytes) {
      largest_ = std::max(largest_, length_);
      if (left_ == 0) {
        head_bytes_ = 0;
        ++messages_;
        whole_ = seen_;
      }
    }
  }
  return whole_;
}

bool Call::TakeHeader(std::string_view name, std::string_view value) {
  constexpr std::size_t kEntryBytes = 32;  // as HTTP/2 counts them
  header_bytes += name.size() + value.size() + kEntryBytes;
  if (header_bytes > kMaxHeaderBytes) return false;
  if (name == ":path") {
    if (value == "/softmax.v1.SoftmaxService/Softmax") method = Method::kUnary;
    if (value == "/softmax.v1.SoftmaxService/SoftmaxStream") method = Method::kStream;
    if (value == "/softmax.v1.SoftmaxService/Never") method = Method::kNever;
  } else if (name == "content-type") {
    is_grpc = value.starts_with("application/grpc");
  } else if (name == "grpc-timeout") {
    timeout = ParseTimeout(value);
  } else if (name == "grpc-encoding") {
    encoding = value;
  } else if (name == "x-grpc-test-echo-initial") {
    echo_initial = value;
  } else if (name == "x-grpc-test-echo-trailing-bin") {
    echo_trailing = value;
  } else if (name == "x-test-status") {
    asked_status = value;
  }
  return true;
}

std::optional<std::chrono::microseconds> ParseTimeout(std::string_view text) {
  constexpr std::size_t kMostDigits = 8;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto digits = static_cast<std::size_t>(end - text.data());
  if (error != std::errc() || value < 0 || digits > kMostDigits || digits + 1 != text.size()) return std::nullopt;
  using std::chrono::microseconds;
  const std::string_view units = "HMSmun";
  constexpr microseconds kUnits[] = {std::chrono::hours(1),        std::chrono::minutes(1), std::chrono::seconds(1),
                                     std::chrono::milliseconds(1), microseconds(1),         microseconds(0)};
  const std::size_t unit = units.find(*end);
  if (unit == std::string_view::npos) return std::nullopt;
  constexpr microseconds kForEver = std::chrono::hours(24 * 365 * 100);  // a clock's nanoseconds have room for it
  return *end == 'n' ? microseconds(value / 1000) : std::min(value * kUnits[unit], kForEver);
}

std::string PercentEncode(std::string_view text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= ' ' && byte <= '~' && byte != '%') {
      encoded += c;
    } else {
      encoded += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return encoded;
}

}  // namespace softmax::bench

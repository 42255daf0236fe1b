#include "server/rpc/guard/frame_meter.h"

#include <algorithm>
#include <chrono>

namespace softmax::server {
namespace {

// RFC 9113, section 6.
constexpr std::uint8_t kData = 0;
constexpr std::uint8_t kHeaders = 1;
constexpr std::uint8_t kReset = 3;
constexpr std::uint8_t kSettings = 4;
constexpr std::uint8_t kPing = 6;
constexpr std::uint8_t kContinuation = 9;
constexpr std::uint8_t kAck = 0x1;
constexpr std::uint8_t kEndHeaders = 0x4;
constexpr std::uint8_t kPadded = 0x8;

// Time forgives in steps, each worth some calls.
constexpr Nanoseconds kForgiveAfter = std::chrono::milliseconds(5);

void Reduce(std::uint64_t* debt, std::uint64_t by) { *debt -= std::min(*debt, by); }

}  // namespace

FrameMeter::Verdict FrameMeter::Take(std::string_view bytes) {
  while (!bytes.empty()) {
    if (skip_ > 0) {
      const std::size_t skipped = std::min<std::uint64_t>(skip_, bytes.size());
      skip_ -= skipped;
      bytes.remove_prefix(skipped);
      continue;
    }
    const std::size_t taken = std::min(header_.size() - header_bytes_, bytes.size());
    std::copy_n(bytes.begin(), taken, header_.begin() + static_cast<std::ptrdiff_t>(header_bytes_));
    header_bytes_ += taken;
    bytes.remove_prefix(taken);
    if (header_bytes_ < header_.size()) break;
    header_bytes_ = 0;
    if (const Verdict verdict = TakeHeader(); verdict != Verdict::kFine) return verdict;
  }
  return Verdict::kFine;
}

FrameMeter::Verdict FrameMeter::TakeHeader() {
  const std::uint32_t length = header_[0] << 16 | header_[1] << 8 | header_[2];
  const std::uint8_t type = header_[3];
  const std::uint8_t flags = header_[4];
  const std::uint32_t stream = (header_[5] & 0x7fu) << 24 | header_[6] << 16 | header_[7] << 8 | header_[8];
  skip_ = length;
  switch (type) {
    case kData:
      if ((flags & kPadded) == 0) {
        if (length >= kSmallData) return Verdict::kFine;
        if (length >= kLeastRequest && ++small_requests_ % kRequestsPerFrame != 0) return Verdict::kFine;
      }
      ++frames_;
      break;
    case kHeaders:
      block_bytes_ = length;
      block_frames_ = 1;
      if (stream > last_stream_) {
        last_stream_ = stream;
        ++calls_;
      } else {
        ++frames_;
      }
      break;
    case kContinuation:
      block_bytes_ += length;
      ++block_frames_;
      ++frames_;
      break;
    case kReset:
      ++calls_;
      break;
    case kSettings:
      if ((flags & kAck) != 0) acknowledged_settings_ = true;
      frames_ += (flags & kAck) != 0 ? 1 : kFramesPerReply;
      break;
    case kPing:
      frames_ += (flags & kAck) != 0 ? 1 : kFramesPerReply;
      break;
    default:
      ++frames_;
  }
  if (block_bytes_ > kHeaderBytes || block_frames_ > kHeaderFrames) return Verdict::kHeaders;
  if ((type == kHeaders || type == kContinuation) && (flags & kEndHeaders) != 0) block_bytes_ = 0;
  // The clock is looked at by those who seem to owe much.
  if (calls_ <= streams_ + kSpareCalls && frames_ <= kSpareFrames) return Verdict::kFine;
  return Judge(SteadyClock::now());
}

FrameMeter::Verdict FrameMeter::Judge(TimePoint now) {
  const std::uint64_t calls = earnings_->calls.load(std::memory_order_relaxed);
  const std::uint64_t frames = earnings_->frames.load(std::memory_order_relaxed);
  Reduce(&calls_, calls - earned_calls_);
  Reduce(&frames_, frames - earned_frames_);
  earned_calls_ = calls;
  earned_frames_ = frames;
  if (const Nanoseconds passed = now - forgiven_; passed >= kForgiveAfter) {
    const double seconds = std::chrono::duration<double>(passed).count();
    if (acknowledged_settings_) Reduce(&calls_, static_cast<std::uint64_t>(seconds * kCallsPerSecond));
    Reduce(&frames_, static_cast<std::uint64_t>(seconds * kFramesPerSecond));
    forgiven_ = now;
  }
  if (calls_ > streams_ + kSpareCalls) return Verdict::kCalls;
  const std::int64_t unread = std::max<std::int64_t>(0, earnings_->unread.load(std::memory_order_relaxed));
  return frames_ > kSpareFrames + static_cast<std::uint64_t>(unread) / kBytesPerFrame ? Verdict::kFrames
                                                                                      : Verdict::kFine;
}

}  // namespace softmax::server

#include "server/rpc/guard/frame_meter.h"

#include <algorithm>
#include <chrono>

namespace softmax::server {
namespace {

// Of a HEADERS frame that has the flag.
constexpr std::size_t kPriorityBytes = 5;

// Time forgives in steps, each worth some calls.
constexpr Nanoseconds kForgiveAfter = std::chrono::milliseconds(5);

void Reduce(std::uint64_t* debt, std::uint64_t by) { *debt -= std::min(*debt, by); }

}  // namespace

FrameMeter::Verdict FrameMeter::Take(std::span<char> bytes) {
  while (!bytes.empty()) {
    Verdict verdict = Verdict::kFine;
    if (skip_ > 0) {
      const std::span<char> piece = bytes.first(std::min<std::uint64_t>(skip_, bytes.size()));
      skip_ -= piece.size();
      bytes = bytes.subspan(piece.size());
      verdict = TakePayload(piece);
    } else {
      if (!heads_.Take(&bytes, &frame_)) break;
      verdict = TakeHeader();
      if (verdict == Verdict::kFine && skip_ == 0) verdict = TakePayload({});
    }
    if (verdict != Verdict::kFine) return verdict;
  }
  return Verdict::kFine;
}

// The frame's last piece is the one after which there is nothing to skip.
FrameMeter::Verdict FrameMeter::TakePayload(std::span<char> piece) {
  if (frame_.type == FrameHead::kData && frame_.stream != 0) {
    if (!piece.empty()) {
      took_messages_ = true;
      if (!open_calls_.Take(frame_.stream, piece)) return Verdict::kMessages;
    }
    if (skip_ == 0 && (frame_.flags & FrameHead::kEndStream) != 0) open_calls_.End(frame_.stream);
  } else if (frame_.type == FrameHead::kHeaders || frame_.type == FrameHead::kContinuation) {
    TakeBlock({piece.data(), piece.size()});
    if (open_calls_.size() > streams_ + kSpareCalls) return Verdict::kCalls;
  }
  return Verdict::kFine;
}

void FrameMeter::TakeBlock(std::string_view piece) {
  if (skip_ > 0 || (frame_.flags & FrameHead::kEndHeaders) == 0 || !block_.empty()) {
    block_.append(piece);
    if (skip_ > 0 || (frame_.flags & FrameHead::kEndHeaders) == 0) return;
    piece = block_;
  }
  if ((block_head_.flags & FrameHead::kPriority) != 0) piece.remove_prefix(std::min(kPriorityBytes, piece.size()));
  // gRPC knows no padding of headers.
  if ((block_head_.flags & FrameHead::kPadded) != 0) headers_.Lose();
  const auto [brings_tensors, fields] = headers_.Take(piece);
  const std::uint32_t more = fields / kFieldsPerCall;
  calls_ += more;
  block_.clear();
  if ((block_head_.flags & FrameHead::kEndStream) != 0) {
    open_calls_.End(block_head_.stream);
  } else if (block_opens_) {
    open_calls_.Begin(block_head_.stream, brings_tensors, 1 + more);
  }
  block_opens_ = false;
}

FrameMeter::Verdict FrameMeter::TakeHeader() {
  const std::uint32_t length = frame_.length;
  const std::uint8_t type = frame_.type;
  const std::uint8_t flags = frame_.flags;
  const std::uint32_t stream = frame_.stream;
  skip_ = length;
  switch (type) {
    case FrameHead::kData:
      if ((flags & FrameHead::kPadded) == 0) {
        if (length >= kSmallData) return Verdict::kFine;
        if (length >= kLeastRequest && ++small_requests_ % kRequestsPerFrame != 0) return Verdict::kFine;
      }
      ++frames_;
      break;
    case FrameHead::kHeaders:
      block_bytes_ = length;
      block_frames_ = 1;
      block_head_ = frame_;
      block_opens_ = stream > last_stream_ && stream % 2 == 1;
      if (stream > last_stream_) {
        last_stream_ = stream;
        ++calls_;
      } else {
        ++frames_;
      }
      break;
    case FrameHead::kContinuation:
      block_bytes_ += length;
      ++block_frames_;
      ++frames_;
      break;
    case FrameHead::kReset:
      open_calls_.End(stream);
      ++calls_;
      break;
    case FrameHead::kSettings:
      if ((flags & FrameHead::kAck) != 0) acknowledged_settings_ = true;
      frames_ += (flags & FrameHead::kAck) != 0 ? 1 : kFramesPerReply;
      break;
    case FrameHead::kPing:
      frames_ += (flags & FrameHead::kAck) != 0 ? 1 : kFramesPerReply;
      break;
    default:
      ++frames_;
  }
  if (block_bytes_ > kHeaderBytes || block_frames_ > kHeaderFrames) return Verdict::kHeaders;
  if ((type == FrameHead::kHeaders || type == FrameHead::kContinuation) && (flags & FrameHead::kEndHeaders) != 0)
    block_bytes_ = 0;
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

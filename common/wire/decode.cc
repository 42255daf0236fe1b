#include "common/wire/decode.h"

#include <absl/strings/str_cat.h>

#include <utility>

#include "common/wire/bounds.h"
#include "common/wire/contract.h"
#include "common/wire/fault.h"
#include "common/wire/tags.h"
#include "common/wire/walk.h"
#include "common/wire/whole_message.h"

namespace softmax {
namespace {

// Decodes the request up to the cursor's limit. False: malformed, or beyond a bound; then out->status says so.
bool DecodeToLimit(WireCursor* cursor, int depth, const WireLimits& limits, DecodedRequest* out) {
  RawRequest raw;
  cursor->LimitFields(kMaxFields);
  const bool well_formed = WalkRequest(cursor, depth, &raw);
  out->has_id = raw.has_id;
  out->id = raw.id;
  out->status = well_formed ? ApplyContract(raw, limits, out) : absl::InvalidArgumentError(DescribeFault(*cursor, raw));
  return well_formed;
}

absl::Status TooManyRequests(std::uint64_t most) {
  return absl::InvalidArgumentError(absl::StrCat("requests: has more than ", most, " in one message; must be at most ",
                                                 most, " (max_requests_per_stream_message)"));
}

// Counts the requests of a stream message, so that the limit is known to hold before any of them
// costs memory, and checks what lies between them.
absl::Status CountRequests(WireCursor cursor, const WireLimits& limits, std::uint64_t* count) {
  *count = 0;
  cursor.LimitFields(kMaxFields);
  while (!cursor.AtLimit()) {
    std::uint32_t tag;
    std::uint64_t length;
    const bool good = cursor.ReadTag(&tag) && (tag == kStreamElement ? cursor.ReadLength(&length) && cursor.Skip(length)
                                                                     : cursor.SkipField(tag, kWireDepth));
    if (!good) return absl::InvalidArgumentError(absl::StrCat("requests: ", DescribeFault(cursor)));
    if (tag != kStreamElement) continue;
    cursor.GiveFieldBack();
    if (*count == limits.max_requests_per_stream_message) return TooManyRequests(*count);
    ++*count;
  }
  return absl::OkStatus();
}

}  // namespace

void DecodeRequest(Slices slices, const WireLimits& limits, DecodedRequest* out) {
  *out = DecodedRequest{};
  WireCursor cursor(slices);
  cursor.LimitSteps(limits.max_steps);
  const std::uint64_t bytes = cursor.remaining();
  DecodeToLimit(&cursor, kWireDepth, limits, out);
  out->encoded_bytes = bytes;
  if (cursor.fault() == WireFault::kOutOfSteps) {
    *out = DecodedRequest{};
    out->status = OutOfSteps();
    out->beyond_budget = true;
    return;
  }
  if (out->status.ok()) out->status = CheckMessage(bytes, limits);
  if (!out->status.ok()) out->status = OrCompressed(slices, std::move(out->status));
}

absl::Status StreamRequestReader::Begin(Slices slices, const WireLimits& limits) {
  slices_ = slices;
  cursor_ = WireCursor(slices);
  left_ = count_ = 0;
  whole_ = CheckMessage(cursor_.remaining(), limits);
  std::uint64_t count;
  if (absl::Status status = CountRequests(cursor_, limits, &count); !status.ok()) return OrCompressed(slices, status);
  // Compressed bytes may happen to be a message of unknown fields; one that asks for nothing deserves the question.
  if (count == 0) return whole_.ok() ? OrCompressed(slices, whole_) : whole_;
  left_ = count_ = count;
  return absl::OkStatus();
}

absl::Status StreamRequestReader::Next(const WireLimits& limits, DecodedRequest* out) {
  *out = DecodedRequest{};
  absl::Status status = Read(limits, out);
  if (!status.ok()) {
    left_ = 0;
    return OrCompressed(slices_, std::move(status));
  }
  if (out->beyond_budget) return status;
  --left_;
  if (out->status.ok()) out->status = whole_;
  return status;
}

absl::Status StreamRequestReader::Read(const WireLimits& limits, DecodedRequest* out) {
  std::uint32_t tag;
  std::uint64_t length;
  cursor_.LiftLimits();
  WireCursor cursor = cursor_;
  // Begin has walked this: only the inside of a request can still be malformed.
  do {
    if (!cursor.ReadTag(&tag) || (tag != kStreamElement && !cursor.SkipField(tag, kWireDepth))) {
      return absl::InternalError("requests: cannot be read twice");
    }
  } while (tag != kStreamElement);
  if (!cursor.ReadLength(&length)) return absl::InternalError("requests: cannot be read twice");
  const std::uint64_t outer = cursor.Narrow(length);
  const WireCursor begin = cursor;
  cursor.LimitSteps(limits.max_steps);
  const bool good = DecodeToLimit(&cursor, kWireDepth - 1, limits, out);
  out->encoded_bytes = length;
  if (cursor.fault() == WireFault::kOutOfSteps) {
    *out = DecodedRequest{};
    out->status = OutOfSteps();
    out->beyond_budget = true;
    return absl::OkStatus();
  }
  if (!good && !out->has_id) {
    return absl::InvalidArgumentError(
        absl::StrCat("requests[", count_ - left_, "]: ", out->status.message(), "; no id came before that"));
  }
  // A malformed request is skipped by its length, if it got as far as its id.
  cursor_ = begin;
  cursor_.LiftLimits();
  cursor_.SkipToLimit();
  cursor_.Widen(outer);
  return absl::OkStatus();
}

absl::Status DecodeStreamRequest(Slices slices, const WireLimits& limits, std::vector<DecodedRequest>* out,
                                 bool* beyond_budget) {
  out->clear();
  if (beyond_budget != nullptr) *beyond_budget = false;
  StreamRequestReader reader;
  absl::Status status = reader.Begin(slices, limits);
  out->reserve(reader.left());
  while (status.ok() && reader.left() > 0) {
    status = reader.Next(limits, &out->emplace_back());
    if (!status.ok() || !out->back().beyond_budget) continue;
    if (beyond_budget != nullptr) *beyond_budget = true;
    status = out->back().status;
  }
  if (!status.ok()) out->clear();
  return status;
}

}  // namespace softmax

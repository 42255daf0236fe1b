#include <absl/strings/str_cat.h>

#include <utility>

#include "server/wire/bounds.h"
#include "server/wire/contract.h"
#include "server/wire/tags.h"
#include "server/wire/walk.h"
#include "server/wire/whole_message.h"
#include "server/wire/wire.h"

namespace softmax::server {
namespace {

absl::Status BeyondBudget(bool* beyond_budget) {
  *beyond_budget = true;
  return OutOfSteps();
}

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
absl::Status CountRequests(WireCursor cursor, const WireLimits& limits, std::uint64_t* count, bool* beyond_budget) {
  *count = 0;
  cursor.LimitFields(kMaxFields);
  while (!cursor.AtLimit()) {
    std::uint32_t tag;
    std::uint64_t length;
    const bool good = cursor.ReadTag(&tag) && (tag == kStreamElement ? cursor.ReadLength(&length) && cursor.Skip(length)
                                                                     : cursor.SkipField(tag, kWireDepth));
    if (cursor.fault() == WireFault::kOutOfSteps) return BeyondBudget(beyond_budget);
    if (!good) return absl::InvalidArgumentError(absl::StrCat("requests: ", DescribeFault(cursor)));
    if (tag != kStreamElement) continue;
    cursor.GiveFieldBack();
    if (*count == limits.max_requests_per_stream_message) return TooManyRequests(*count);
    ++*count;
  }
  return absl::OkStatus();
}

// A malformed request is skipped by its length, if it got as far as its id.
absl::Status DecodeElement(WireCursor* cursor, const WireLimits& limits, std::size_t index, DecodedRequest* out,
                           bool* beyond_budget) {
  const WireCursor begin = *cursor;
  if (DecodeToLimit(cursor, kWireDepth - 1, limits, out)) return absl::OkStatus();
  if (cursor->fault() == WireFault::kOutOfSteps) return BeyondBudget(beyond_budget);
  if (!out->has_id) {
    return absl::InvalidArgumentError(
        absl::StrCat("requests[", index, "]: ", out->status.message(), "; no id came before that"));
  }
  const std::uint64_t steps_left = cursor->steps_left();
  *cursor = begin;
  cursor->LimitSteps(steps_left);
  cursor->SkipToLimit();
  return absl::OkStatus();
}

absl::Status DecodeElements(WireCursor cursor, const WireLimits& limits, std::vector<DecodedRequest>* out,
                            bool* beyond_budget) {
  while (!cursor.AtLimit()) {
    std::uint32_t tag;
    std::uint64_t length;
    // CountRequests has walked this: only the inside of a request can still be malformed.
    cursor.LimitFields(kMaxFields);
    if (!cursor.ReadTag(&tag) || (tag != kStreamElement && !cursor.SkipField(tag, kWireDepth))) {
      if (cursor.fault() == WireFault::kOutOfSteps) return BeyondBudget(beyond_budget);
      return absl::InternalError("requests: cannot be read twice");
    }
    if (tag != kStreamElement) continue;
    if (!cursor.ReadLength(&length)) return absl::InternalError("requests: cannot be read twice");
    const std::uint64_t outer = cursor.Narrow(length);
    const std::size_t index = out->size();
    absl::Status status = DecodeElement(&cursor, limits, index, &out->emplace_back(), beyond_budget);
    if (!status.ok()) return status;
    cursor.Widen(outer);
  }
  return absl::OkStatus();
}

absl::Status DecodeStream(Slices slices, const WireLimits& limits, std::vector<DecodedRequest>* out,
                          bool* beyond_budget) {
  WireCursor cursor(slices);
  cursor.LimitSteps(limits.max_steps);
  std::uint64_t count;
  if (absl::Status status = CountRequests(cursor, limits, &count, beyond_budget); !status.ok()) return status;
  out->reserve(count);
  return DecodeElements(cursor, limits, out, beyond_budget);
}

}  // namespace

void DecodeRequest(Slices slices, const WireLimits& limits, DecodedRequest* out) {
  *out = DecodedRequest{};
  WireCursor cursor(slices);
  cursor.LimitSteps(limits.max_steps);
  const std::uint64_t bytes = cursor.remaining();
  DecodeToLimit(&cursor, kWireDepth, limits, out);
  if (cursor.fault() == WireFault::kOutOfSteps) {
    *out = DecodedRequest{};
    out->status = BeyondBudget(&out->beyond_budget);
    return;
  }
  if (out->status.ok()) out->status = CheckMessage(bytes, limits);
  if (!out->status.ok()) out->status = OrCompressed(slices, std::move(out->status));
}

absl::Status DecodeStreamRequest(Slices slices, const WireLimits& limits, std::vector<DecodedRequest>* out,
                                 bool* beyond_budget) {
  out->clear();
  bool is_beyond = false;
  absl::Status status = DecodeStream(slices, limits, out, &is_beyond);
  if (beyond_budget != nullptr) *beyond_budget = is_beyond;
  if (is_beyond) {
    out->clear();
    return status;
  }
  absl::Status whole = CheckMessage(WireCursor(slices).remaining(), limits);
  if (status.ok() && !whole.ok()) {
    if (out->empty()) return whole;
    for (DecodedRequest& request : *out) {
      if (request.status.ok()) request.status = whole;
    }
  }
  // Compressed bytes may happen to be a message of unknown fields; one that asks for nothing
  // deserves the question.
  if (status.ok() && !out->empty()) return status;
  if (!status.ok()) out->clear();
  return OrCompressed(slices, std::move(status));
}

}  // namespace softmax::server

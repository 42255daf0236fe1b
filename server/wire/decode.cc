#include <absl/strings/str_cat.h>

#include <utility>

#include "server/wire/contract.h"
#include "server/wire/tags.h"
#include "server/wire/walk.h"
#include "server/wire/whole_message.h"
#include "server/wire/wire.h"

namespace softmax::server {
namespace {

// Decodes the request up to the cursor's limit. False: malformed; then out->status says so.
bool DecodeToLimit(WireCursor* cursor, int depth, const WireLimits& limits, DecodedRequest* out) {
  RawRequest raw;
  const bool well_formed = WalkRequest(cursor, depth, &raw);
  out->has_id = raw.has_id;
  out->id = raw.id;
  out->status = well_formed ? ApplyContract(raw, limits, out) : absl::InvalidArgumentError(DescribeFault(*cursor, raw));
  return well_formed;
}

// Counts the requests of a stream message, so that the limit is known to hold before any of them
// costs memory, and checks what lies between them.
absl::Status CountRequests(WireCursor cursor, std::uint64_t* count) {
  *count = 0;
  while (!cursor.AtLimit()) {
    std::uint32_t tag;
    std::uint64_t length;
    const bool good = cursor.ReadTag(&tag) && (tag == kStreamElement ? cursor.ReadLength(&length) && cursor.Skip(length)
                                                                     : cursor.SkipField(tag, kWireDepth));
    if (!good) return absl::InvalidArgumentError(absl::StrCat("requests: ", DescribeFault(cursor)));
    *count += tag == kStreamElement;
  }
  return absl::OkStatus();
}

// A malformed request is skipped by its length, if it got as far as its id.
absl::Status DecodeElement(WireCursor* cursor, const WireLimits& limits, std::size_t index, DecodedRequest* out) {
  const WireCursor begin = *cursor;
  if (DecodeToLimit(cursor, kWireDepth - 1, limits, out)) return absl::OkStatus();
  if (!out->has_id) {
    return absl::InvalidArgumentError(
        absl::StrCat("requests[", index, "]: ", out->status.message(), "; no id came before that"));
  }
  *cursor = begin;
  cursor->SkipToLimit();
  return absl::OkStatus();
}

absl::Status DecodeElements(WireCursor cursor, const WireLimits& limits, std::vector<DecodedRequest>* out) {
  while (!cursor.AtLimit()) {
    std::uint32_t tag;
    std::uint64_t length;
    // CountRequests has walked this: only the inside of a request can still be malformed.
    if (!cursor.ReadTag(&tag)) return absl::InternalError("requests: cannot be read twice");
    if (tag != kStreamElement) {
      cursor.SkipField(tag, kWireDepth);
      continue;
    }
    if (!cursor.ReadLength(&length)) return absl::InternalError("requests: cannot be read twice");
    const std::uint64_t outer = cursor.Narrow(length);
    const std::size_t index = out->size();
    absl::Status status = DecodeElement(&cursor, limits, index, &out->emplace_back());
    if (!status.ok()) return status;
    cursor.Widen(outer);
  }
  return absl::OkStatus();
}

absl::Status DecodeStream(Slices slices, const WireLimits& limits, std::vector<DecodedRequest>* out) {
  const WireCursor cursor(slices);
  std::uint64_t count;
  if (absl::Status status = CountRequests(cursor, &count); !status.ok()) return status;
  if (count > limits.max_requests_per_stream_message) {
    return absl::InvalidArgumentError(absl::StrCat("requests: has ", count, " in one message; must be at most ",
                                                   limits.max_requests_per_stream_message,
                                                   " (max_requests_per_stream_message)"));
  }
  out->reserve(count);
  return DecodeElements(cursor, limits, out);
}

}  // namespace

void DecodeRequest(Slices slices, const WireLimits& limits, DecodedRequest* out) {
  *out = DecodedRequest{};
  WireCursor cursor(slices);
  const std::uint64_t bytes = cursor.remaining();
  DecodeToLimit(&cursor, kWireDepth, limits, out);
  if (out->status.ok()) out->status = CheckMessage(bytes, limits);
  if (!out->status.ok()) out->status = OrCompressed(slices, std::move(out->status));
}

absl::Status DecodeStreamRequest(Slices slices, const WireLimits& limits, std::vector<DecodedRequest>* out) {
  out->clear();
  absl::Status status = DecodeStream(slices, limits, out);
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

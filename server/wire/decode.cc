#include <absl/strings/str_cat.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "server/wire/contract.h"
#include "server/wire/tags.h"
#include "server/wire/walk.h"
#include "server/wire/wire.h"

namespace softmax::server {
namespace {

using std::literals::string_view_literals::operator""sv;

struct Magic {
  const char* encoding;
  std::string_view bytes;
};
// How messages of these encodings begin. No client of ours begins one like this, and it is asked only of messages that
// have been refused: most are no tag at all, 78 is field 15 as a varint, which it is in no request, and the rest are
// fields that are not there.
constexpr Magic kMagics[] = {{"gzip", "\x1f\x8b"},         {"deflate", "\x78\x01"},     {"deflate", "\x78\x5e"},
                             {"deflate", "\x78\x9c"},      {"deflate", "\x78\xda"},     {"zstd", "\x28\xb5\x2f\xfd"},
                             {"snappy", "\xff\x06\x00"sv}, {"lz4", "\x04\x22\x4d\x18"}, {"bzip2", "BZh"}};

// The encoding that a message's first bytes speak of, or nullptr. gRPC hands compressed bytes on when decompression is
// off, and says nothing of an encoding that it does not know.
const char* CompressionSeen(Slices slices) {
  std::uint8_t first[4];
  WireCursor cursor(slices);
  const std::uint64_t size = std::min<std::uint64_t>(cursor.remaining(), sizeof(first));
  cursor.Read(size, first);
  const std::string_view begin(reinterpret_cast<const char*>(first), size);
  for (const Magic& magic : kMagics) {
    if (begin.starts_with(magic.bytes)) return magic.encoding;
  }
  return nullptr;
}

// RESOURCE_EXHAUSTED: a good request, in a message with much beside it.
absl::Status CheckMessage(std::uint64_t bytes, const WireLimits& limits) {
  if (bytes <= limits.max_message_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("message: has ", bytes, " bytes; must be at most ", limits.max_message_bytes));
}

// What to say of a message that was refused for `status`: the reason, unless it is compressed.
[[gnu::cold]] absl::Status OrCompressed(Slices slices, absl::Status status) {
  const char* encoding = CompressionSeen(slices);
  if (encoding == nullptr) return status;
  return absl::UnimplementedError(absl::StrCat("grpc-encoding: looks like ", encoding, "; only identity is accepted"));
}

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

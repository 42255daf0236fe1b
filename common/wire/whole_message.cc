#include "common/wire/whole_message.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <string_view>

#include "common/base/safe_text.h"
#include "common/wire/cursor.h"

namespace softmax {
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

}  // namespace

std::string Quoted(std::string_view text) {
  constexpr std::size_t kExcerpt = 60;
  return absl::StrCat("\"", SafeText(text, TextFor::kPeople, kExcerpt), "\"");
}

absl::Status CheckMessage(std::uint64_t bytes, const WireLimits& limits) {
  if (bytes <= limits.max_message_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("message: has ", bytes, " bytes; must be at most ", limits.max_message_bytes));
}

absl::Status OutOfSteps() {
  return absl::InternalError("message: takes more steps than its thread may do at one go, and was given to no other");
}

absl::Status OrCompressed(Slices slices, absl::Status status) {
  const char* encoding = CompressionSeen(slices);
  if (encoding == nullptr) return status;
  return absl::UnimplementedError(absl::StrCat("grpc-encoding: looks like ", encoding, "; ", kOnlyIdentity));
}

}  // namespace softmax

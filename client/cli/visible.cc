#include "client/cli/visible.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iterator>

namespace softmax::client {
namespace {

struct Range {
  std::uint32_t first;
  std::uint32_t last;
};

// Spaces that look like others, what has no width, and what turns the direction of the text around it.
constexpr Range kInvisible[] = {
    {0x80, 0xa0},        // C1 controls, no-break space
    {0xad, 0xad},        // soft hyphen
    {0x61c, 0x61c},      // Arabic letter mark
    {0x115f, 0x1160},    // Hangul fillers
    {0x1680, 0x1680},    // Ogham space
    {0x180e, 0x180e},    // Mongolian vowel separator
    {0x2000, 0x200f},    // spaces, joiners, marks of direction
    {0x2028, 0x202f},    // line and paragraph separators, embeddings
    {0x205f, 0x206f},    // spaces, isolates
    {0x3000, 0x3000},    // ideographic space
    {0x3164, 0x3164},    // Hangul filler
    {0xd800, 0xf8ff},    // surrogates, private use
    {0xfe00, 0xfe0f},    // variation selectors
    {0xfeff, 0xfeff},    // byte-order mark
    {0xfff0, 0xffff},    // annotations, no characters
    {0xe0000, 0x10ffff}  // tags, private use
};

struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 0;  // 0: no UTF-8
};

Character First(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t bytes = lead >= 0xc2 && lead < 0xe0 ? 2 : lead >= 0xe0 && lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
  if (lead < 0xc2 || bytes == 0 || text.size() < bytes) return {};
  std::uint32_t code = lead & (0xffu >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3f);
  }
  const bool too_long = (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000);
  return too_long || code > 0x10ffff ? Character() : Character{code, bytes};
}

void AppendNumber(const char* format, std::uint32_t number, std::string* out) {
  char text[16];
  std::snprintf(text, sizeof(text), format, number);
  *out += text;
}

void AppendByte(char c, std::string* out) {
  switch (c) {
    case '\n':
      *out += "\\n";
      return;
    case '\r':
      *out += "\\r";
      return;
    case '\t':
      *out += "\\t";
      return;
    default:
      AppendNumber("\\x%02x", static_cast<unsigned char>(c), out);
  }
}

}  // namespace

std::string Visible(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const Character first = First(text);
    const bool invisible = std::any_of(std::begin(kInvisible), std::end(kInvisible), [&](const Range& range) {
      return range.first <= first.code && first.code <= range.last;
    });
    if (first.bytes == 0 || first.code < 0x20 || first.code == 0x7f) {
      AppendByte(text.front(), &out);
    } else if (invisible) {
      AppendNumber("<U+%04X>", first.code, &out);
    } else {
      out += text.substr(0, first.bytes);
    }
    text.remove_prefix(std::max<std::size_t>(first.bytes, 1));
  }
  return out;
}

void Say(std::string_view message) { std::fprintf(stderr, "softmax-client: %s\n", Visible(message).c_str()); }

}  // namespace softmax::client

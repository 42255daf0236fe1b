#include "server/base/safe_text.h"

#include <cstdint>
#include <cstdio>

namespace softmax::server {
namespace {

// How many bytes the UTF-8 character at the front of `text` has; 0 when there is no valid one.
std::size_t CharacterLength(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const std::size_t length = first < 0x80                    ? 1
                             : first >= 0xc2 && first < 0xe0 ? 2
                             : first >= 0xe0 && first < 0xf0 ? 3
                             : first >= 0xf0 && first < 0xf5 ? 4
                                                             : 0;
  if (length > text.size()) {
    return 0;
  }
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) {
      return 0;
    }
  }
  // Over-long forms, surrogates and what lies beyond U+10FFFF.
  const bool bad = length > 2 && ((first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) >= 0xa0) ||
                                  (first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) >= 0x90));
  return bad ? 0 : length;
}

// Of a valid character of up to 3 bytes; those of 4 are harmless.
std::uint32_t CodePoint(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return byte(0);
  if (character.size() == 2) return (byte(0) & 0x1fu) << 6 | (byte(1) & 0x3fu);
  return (byte(0) & 0x0fu) << 12 | (byte(1) & 0x3fu) << 6 | (byte(2) & 0x3fu);
}

bool IsHarmful(std::uint32_t c) {
  const bool control = c < 0x20 || (c >= 0x7f && c <= 0x9f);
  const bool line_end = c == 0x2028 || c == 0x2029;
  const bool direction =
      c == 0x061c || c == 0x200e || c == 0x200f || (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
  const bool without_width = c == 0x200b || c == 0x2060 || c == 0xfeff;
  return control || line_end || direction || without_width;
}

void AppendEscape(std::uint32_t c, std::string* out) {
  if (c == '\n' || c == '\r' || c == '\t') {
    *out += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    return;
  }
  char escape[8];
  std::snprintf(escape, sizeof(escape), "\\u%04x", c & 0xffffu);
  *out += escape;
}

}  // namespace

std::string SafeText(std::string_view text, TextFor reader, std::size_t most_bytes) {
  const bool json = reader == TextFor::kJson;
  std::string out;
  const std::size_t all = text.size();
  while (!text.empty()) {
    const std::size_t length = CharacterLength(text);
    if (all - text.size() + length > most_bytes) {
      return out + "... (" + std::to_string(text.size()) + " bytes more)";
    }
    const auto first = static_cast<unsigned char>(text.front());
    if (length == 0) {
      AppendEscape(json ? 0xfffd : first, &out);
    } else if (length < 4 && IsHarmful(CodePoint(text.substr(0, length)))) {
      AppendEscape(CodePoint(text.substr(0, length)), &out);
    } else {
      if (json && (first == '"' || first == '\\')) out += '\\';
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

}  // namespace softmax::server

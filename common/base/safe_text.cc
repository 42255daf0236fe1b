#include "common/base/safe_text.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iterator>

namespace softmax {
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

// Of a valid character.
std::uint32_t CodePoint(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return byte(0);
  std::uint32_t code = byte(0) & (0xffu >> (character.size() + 1));
  for (std::size_t i = 1; i < character.size(); ++i) code = code << 6 | (byte(i) & 0x3fu);
  return code;
}

struct CodePoints {
  std::uint32_t first;
  std::uint32_t last;
};

// Controls, spaces that look like others, what has no width, and what turns the direction of the text around it.
constexpr CodePoints kHarmful[] = {
    {0, 0x1f},           // controls
    {0x7f, 0xa0},        // C1 controls, no-break space
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
    {0xe000, 0xf8ff},    // private use
    {0xfe00, 0xfe0f},    // variation selectors
    {0xfeff, 0xfeff},    // byte-order mark
    {0xfff0, 0xffff},    // annotations, no characters
    {0xe0000, 0x10ffff}  // tags, private use
};

bool IsHarmful(std::uint32_t c) {
  return std::any_of(std::begin(kHarmful), std::end(kHarmful),
                     [c](const CodePoints& range) { return range.first <= c && c <= range.last; });
}

void Append(const char* format, std::uint32_t number, std::string* out) {
  char escape[16];
  std::snprintf(escape, sizeof(escape), format, number);
  *out += escape;
}

void AppendEscape(std::uint32_t c, bool json, std::string* out) {
  if (c == '\n' || c == '\r' || c == '\t') {
    *out += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
  } else if (c < 0x10000) {
    Append("\\u%04x", c, out);
  } else if (json) {
    Append("\\u%04x", 0xd800 + ((c - 0x10000) >> 10), out);
    Append("\\u%04x", 0xdc00 + (c & 0x3ff), out);
  } else {
    Append("\\U%08x", c, out);
  }
}

}  // namespace

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = CharacterLength(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string SafeText(std::string_view text, TextFor reader, std::size_t most_bytes) {
  const bool json = reader == TextFor::kJson;
  std::string out;
  while (!text.empty()) {
    const std::size_t length = CharacterLength(text);
    const std::size_t before = out.size();
    const auto first = static_cast<unsigned char>(text.front());
    if (length == 0) {
      Append(json ? "\\u%04x" : "\\x%02x", json ? 0xfffd : first, &out);
    } else if (const std::uint32_t code = CodePoint(text.substr(0, length)); IsHarmful(code)) {
      AppendEscape(code, json, &out);
    } else {
      if (json && (first == '"' || first == '\\')) out += '\\';
      out += text.substr(0, length);
    }
    if (out.size() > most_bytes) {
      out.resize(before);
      return out + "... (" + std::to_string(text.size()) + " bytes more)";
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

std::string SafeError(std::string_view text) {
  std::string safe = SafeText(text, TextFor::kPeople, std::string_view::npos);
  if (safe.size() <= kMostErrorBytes) return safe;
  const auto is_inside = [&](std::size_t at) { return (static_cast<unsigned char>(safe[at]) & 0xc0) == 0x80; };
  std::size_t front = kMostErrorBytes / 2;
  std::size_t back = safe.size() - kMostErrorBytes / 2;
  while (is_inside(front)) --front;
  while (is_inside(back)) ++back;
  return safe.substr(0, front) + "... (" + std::to_string(back - front) + " bytes more) ..." + safe.substr(back);
}

}  // namespace softmax

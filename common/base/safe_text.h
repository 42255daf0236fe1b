#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace softmax {

// Whether all of it is UTF-8: no over-long forms, no surrogates. As protobuf has it for strings.
bool IsUtf8(std::string_view text);

enum class TextFor { kPeople, kJson };  // kJson: what stands between the quotation marks of a string

// Text of a stranger, made fit for a log or a terminal: one line, in which nothing is invisible or turns the rest
// around. Control characters (C1 and NEL too), the line ends and unusual spaces of Unicode, marks of writing direction
// and what has no width come out as \n, \r, \t, \u1234 or \U00012345, a byte that is no UTF-8 as \x12. At most
// `most_bytes` come out, escapes counted as they are written; the rest is only counted: "... (14000 bytes more)".
std::string SafeText(std::string_view text, TextFor reader, std::size_t most_bytes);

// An error's text, made fit for a terminal as above. It may repeat a whole value of a stranger before it says what is
// wrong with it, so that of a longer one than kMostErrorBytes both ends come out, and between them how much is not
// shown.
inline constexpr std::size_t kMostErrorBytes = 1500;
std::string SafeError(std::string_view text);

}  // namespace softmax

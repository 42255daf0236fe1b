#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace softmax::server {

// Whether all of it is UTF-8: no over-long forms, no surrogates. As protobuf has it for strings.
bool IsUtf8(std::string_view text);

enum class TextFor { kPeople, kJson };  // kJson: what stands between the quotation marks of a string

// Text of a stranger, made fit for a log or a terminal: one line, in which nothing is invisible or turns the rest
// around. Control characters (C1 and NEL too), the line ends and unusual spaces of Unicode, marks of writing direction
// and what has no width come out as \n, \r, \t, \u1234 or \U00012345, a byte that is no UTF-8 as \x12. At most
// `most_bytes` come out, escapes counted as they are written; the rest is only counted: "... (14000 bytes more)".
std::string SafeText(std::string_view text, TextFor reader, std::size_t most_bytes);

}  // namespace softmax::server

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace softmax {

// Reads a text file that a user named, whole, into `text`: without a byte-order mark, and with "\n" at the end of each
// line where it had "\r\n" or "\r". Returns what is wrong with it, or an empty string. A folder, a pipe, a terminal or
// a device is refused and never waited for; so are UTF-16 and other text with zero bytes, and more than `most_bytes`.
std::string ReadTextFile(const std::string& path, std::size_t most_bytes, std::string* text);

// Reads what is left of an open file, or of a pipe until its writer closes it. Returns what went wrong.
std::string ReadToEnd(int fd, std::size_t most_bytes, std::string* bytes);

// Takes a byte-order mark off. Returns why this is no UTF-8 text, if that is plain to see.
std::string TakeMark(std::string_view* bytes);

}  // namespace softmax

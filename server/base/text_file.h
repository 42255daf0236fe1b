#pragma once

#include <cstddef>
#include <string>

namespace softmax::server {

// Reads a text file that a user named, whole, into `text`: without a byte-order mark, and with "\n" at the end of each
// line where it had "\r\n" or "\r". Returns what is wrong with it, or an empty string. A folder, a pipe, a terminal or
// a device is refused and never waited for; so are UTF-16 and other text with zero bytes, and more than `most_bytes`.
std::string ReadTextFile(const std::string& path, std::size_t most_bytes, std::string* text);

}  // namespace softmax::server

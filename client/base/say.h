#pragma once

#include <string>
#include <string_view>

namespace softmax::client {

// Text of strangers (a file, a server) for one line of a terminal or a log: what is no plain text is escaped.
std::string Visible(std::string_view text);

// One line on standard error, visible and of bounded length (common/base/safe_text.h), behind the program's name.
void Say(std::string_view message);

}  // namespace softmax::client

#pragma once

#include <string>
#include <string_view>

namespace softmax::client {

// Text of strangers (a file, a server) for one line of a terminal or a log: control characters, broken UTF-8 and
// characters that cannot be seen are named, as \n, \x1b or <U+FEFF>.
std::string Visible(std::string_view text);

// One line on standard error, visible, behind the program's name.
void Say(std::string_view message);

}  // namespace softmax::client

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace softmax {

// The text of --help with lines of at most `columns`: what is broken goes on below the text of its flag, or below the
// beginning of its line. 0, or too few to be a terminal: as it is.
std::string WrapHelp(std::string_view text, std::size_t columns);

// Of the terminal that standard output is; 0: it is none, as for programs that read the text.
std::size_t TerminalColumns();

}  // namespace softmax

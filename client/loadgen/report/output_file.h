#pragma once

#include <string>

namespace softmax::client {

// Why `path` cannot be written when the time comes; empty: it can. "-" is standard output.
std::string OutputProblem(const std::string& path);

// Puts `text` in place of the file `path`, or to standard output for "-": written beside it and renamed when it is
// whole, so that what was there stays until then. A device or a pipe is written as it is. Returns what went wrong.
std::string ReplaceFile(const std::string& path, const std::string& text);

// Writes `text` behind what the file has. Returns what went wrong.
std::string AppendToFile(const std::string& path, const std::string& text);

}  // namespace softmax::client

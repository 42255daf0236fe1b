#pragma once

#include <string>

namespace softmax::client {

// What --version prints: the program, its version and the commit it was built from.
std::string VersionText();

}  // namespace softmax::client

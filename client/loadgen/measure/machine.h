#pragma once

#include <string>

namespace softmax::client {

// The machine that a report is of; empty: not known.
struct MachineName {
  std::string host;
  std::string processor;  // "Intel(R) Xeon(R) Platinum 8480+"
  unsigned cores = 0;
  std::string system;  // "Linux 6.1.0"
};
MachineName ThisMachine();

}  // namespace softmax::client

#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>

// Included by the changed copy of the product only: which of the changes compiled into it a process runs with.
namespace softmax::mutation {

inline constexpr int kMost = 8192;

// Whether this process runs as mutant `id`, which MUTANT in its environment says. Where MUTANTS_ASKED names a file,
// each id is added to it when it is first asked for: what a test never asks for it cannot notice. Not constexpr: a
// constant expression is no choice of a process, and a mutant inside one fails to compile.
inline bool Mutant(int id) {
  static const int chosen = [] {
    const char* const text = std::getenv("MUTANT");
    return text == nullptr ? -1 : std::atoi(text);
  }();
  static const char* const asked_path = std::getenv("MUTANTS_ASKED");
  if (asked_path != nullptr) {
    static std::atomic<bool> asked[kMost];
    if (!asked[id].exchange(true, std::memory_order_relaxed)) {
      const int file = ::open(asked_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
      const std::string line = std::to_string(id) + "\n";
      [[maybe_unused]] const auto written = ::write(file, line.data(), line.size());
      ::close(file);
      if (file < 0) asked[id] = false;  // a test has taken all descriptors: another time
    }
  }
  return chosen == id;
}

}  // namespace softmax::mutation

using softmax::mutation::Mutant;

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/malformed.h"
#include "tests/support/wire_builder.h"

namespace {

// One case of `kStep`, as the message of fuzz_wire: two of three are one message in three slices, the third puts it on
// a stream and is a seed of fuzz_stream, too.
int Write(const std::string& target, const std::string& folder) {
  constexpr std::size_t kLargest = 300;  // bytes; larger seeds only slow the fuzzer down
  constexpr std::size_t kStep = 11;      // neighbours differ little
  const std::vector<softmax::testing::MalformedCase> cases = softmax::testing::MalformedCases();
  int number = 0, written = 0;
  for (std::size_t i = 0; i < cases.size(); i += kStep) {
    const std::string& bytes = cases[i].bytes;
    if (bytes.size() > kLargest) continue;
    const bool streams = number % 3 == 2;
    std::string seed = "\x20\x05\x0b" + bytes;
    if (streams) {
      seed = "\x21\x05\x1f" + softmax::testing::Block(1, softmax::testing::Scalar(1, 9) + bytes) +
             softmax::testing::Block(1, bytes);
    }
    const std::string name = folder + "/seed_" + std::to_string(number++);
    if (target == "stream" && !streams) continue;
    std::ofstream(name, std::ios::binary) << seed;
    ++written;
  }
  return written;
}

}  // namespace

// Writes the made seeds of a fuzz target: `fuzz_make_corpus TARGET FOLDER`. The folder stays empty for targets that
// have none.
int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: fuzz_make_corpus TARGET FOLDER\n");
    return 2;
  }
  const std::string target = argv[1], folder = argv[2];
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  if ((target == "wire" || target == "stream") && Write(target, folder) == 0) {
    std::fprintf(stderr, "fuzz_make_corpus: no seeds\n");
    return 1;
  }
  return 0;
}

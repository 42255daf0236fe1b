#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/malformed.h"
#include "tests/support/wire_builder.h"

// Writes the seeds of fuzz_wire: `fuzz_wire_make_corpus DIRECTORY`. Run it again when the contract
// gains a field, and check the files in. Two of three seeds are one message in three slices, the
// third puts it on a stream.
int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: fuzz_wire_make_corpus DIRECTORY\n");
    return 2;
  }
  constexpr std::size_t kLargest = 300;  // bytes; larger seeds only slow the fuzzer down
  constexpr std::size_t kStep = 11;      // every so manieth case: neighbours differ little
  std::filesystem::create_directories(argv[1]);
  const std::vector<softmax::testing::MalformedCase> cases = softmax::testing::MalformedCases();
  int written = 0;
  for (std::size_t i = 0; i < cases.size(); i += kStep) {
    const std::string& bytes = cases[i].bytes;
    if (bytes.size() > kLargest) continue;
    std::string seed = "\x20\x05\x0b" + bytes;
    if (written % 3 == 2) {
      seed = "\x21\x05\x1f" + softmax::testing::Block(1, softmax::testing::Scalar(1, 9) + bytes) +
             softmax::testing::Block(1, bytes);
    }
    char name[32];
    std::snprintf(name, sizeof(name), "/seed_%03d", written++);
    std::ofstream(argv[1] + std::string(name), std::ios::binary) << seed;
  }
  std::printf("%d seeds\n", written);
  return 0;
}

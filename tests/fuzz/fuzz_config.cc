// libFuzzer over the server's config file. A configuration that is taken is printed, and what is printed means the
// same.
#include <sys/mman.h>
#include <unistd.h>

#include <iterator>
#include <string>

#include "server/config/config.h"
#include "tests/fuzz/require.h"

namespace softmax::server {
namespace {

using softmax::testing::Require;

// A file in memory: ParseConfig reads a path.
class MemoryFile {
 public:
  MemoryFile() : fd_(memfd_create("config", 0)), path_("/proc/self/fd/" + std::to_string(fd_)) {
    Require(fd_ >= 0, "memfd_create");
  }

  ParseResult Parse(std::string_view text) {
    Require(ftruncate(fd_, 0) == 0, "ftruncate");
    Require(pwrite(fd_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()), "pwrite");
    const char* const argv[] = {"softmax-server", "--config", path_.c_str()};
    return ParseConfig(std::size(argv), argv);
  }

 private:
  const int fd_;
  const std::string path_;
};

void Check(std::string_view text) {
  static MemoryFile file;
  const ParseResult result = file.Parse(text);
  if (!result.run) {
    Require(result.exit_code == 2 && !result.error.empty(), "a refusal has a reason and exit code 2");
    return;
  }
  Require(!result.config.unsafe_testing && result.config.fault == "none", "no file opens the doors for tests");
  const std::string printed = PrintConfig(result.config);
  const ParseResult again = file.Parse(printed);
  Require(again.run, "a printed configuration is taken");
  Require(PrintConfig(again.config) == printed, "and means the same");
}

}  // namespace
}  // namespace softmax::server

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  softmax::server::Check({reinterpret_cast<const char*>(data), size});
  return 0;
}

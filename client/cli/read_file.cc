#include "client/cli/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "client/cli/visible.h"

namespace softmax::client {
namespace {

absl::Status Wrong(const std::string& path, const std::string& why) {
  return absl::InvalidArgumentError(NameOfInput(path) + ": " + why);
}

// Empty: it can be read to its end.
std::string WhyUnreadable(int file) {
  struct stat info = {};
  if (fstat(file, &info) != 0) return std::strerror(errno);
  if (S_ISDIR(info.st_mode)) return "is a folder, not a file";
  const bool device = S_ISBLK(info.st_mode) || S_ISCHR(info.st_mode);
  return device && isatty(file) == 0 ? "is a device, not a file" : "";
}

absl::StatusOr<std::string> ReadAll(int file, const std::string& path, std::size_t most_bytes) {
  std::string bytes;
  char block[1 << 16];
  for (;;) {
    const ssize_t size = read(file, block, sizeof(block));
    if (size == 0) return bytes;
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return Wrong(path, std::strerror(errno));
    if (bytes.size() + static_cast<std::size_t>(size) > most_bytes) {
      return Wrong(path, "has more than " + std::to_string(most_bytes) + " bytes, the most that are read");
    }
    bytes.append(block, static_cast<std::size_t>(size));
  }
}

}  // namespace

std::string NameOfInput(const std::string& path) { return path == "-" ? "standard input" : Visible(path); }

absl::StatusOr<std::string> ReadFile(const std::string& path, std::size_t most_bytes) {
  const bool standard = path == "-";
  const int file = standard ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (file < 0) return Wrong(path, std::strerror(errno));
  const std::string why = WhyUnreadable(file);
  auto bytes = why.empty() ? ReadAll(file, path, most_bytes) : Wrong(path, why);
  if (!standard) close(file);
  return bytes;
}

}  // namespace softmax::client

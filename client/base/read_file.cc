#include "client/base/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "client/base/say.h"
#include "common/base/text_file.h"

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

}  // namespace

std::string NameOfInput(const std::string& path) { return path == "-" ? "standard input" : Visible(path); }

absl::StatusOr<std::string> ReadFile(const std::string& path, std::size_t most_bytes) {
  const bool standard = path == "-";
  const int file = standard ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (file < 0) return Wrong(path, std::strerror(errno));
  std::string bytes;
  std::string why = WhyUnreadable(file);
  if (why.empty()) why = ReadToEnd(file, most_bytes, &bytes);
  if (!standard) close(file);
  if (!why.empty()) return Wrong(path, why);
  return bytes;
}

}  // namespace softmax::client

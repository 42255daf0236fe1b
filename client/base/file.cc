#include "client/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>

#include "client/base/program.h"
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

constexpr mode_t kModeOfNew = 0666;  // less the umask

std::string NameOf(const std::string& path) { return path == "-" ? "standard output" : Visible(path); }

absl::Status Failed(const std::string& path, std::size_t bytes, int error) {
  const std::string what = NameOf(path) + ": " + std::strerror(error);
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  return full ? absl::ResourceExhaustedError(what + ", for " + std::to_string(bytes) + " bytes")
              : absl::UnknownError(what);
}

// What is there now; nothing: nothing is.
std::optional<struct stat> Existing(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return std::nullopt;
  return info;
}

// Closes the file. 0, or the errno of what failed.
int WriteAndClose(int file, std::string_view bytes) {
  int error = 0;
  while (error == 0 && !bytes.empty()) {
    const ssize_t size = write(file, bytes.data(), bytes.size());
    if (size >= 0) bytes.remove_prefix(static_cast<std::size_t>(size));
    if (size < 0 && errno != EINTR) error = errno;
  }
  const int closed = close(file) == 0 ? 0 : errno;
  return error != 0 ? error : closed;
}

absl::Status Print(std::string_view bytes) {
  const bool good = std::fwrite(bytes.data(), 1, bytes.size(), stdout) == bytes.size() && std::fflush(stdout) == 0;
  return good ? absl::OkStatus() : Failed("-", bytes.size(), errno);
}

// A link stays one: what it points to is replaced.
std::string Resolved(const std::string& path) {
  std::error_code failed;
  const std::filesystem::path target = std::filesystem::weakly_canonical(path, failed);
  return failed ? path : target.string();
}

int Replace(const std::string& target, const std::optional<struct stat>& old, std::string_view bytes) {
  const std::string beside = target + ".part" + std::to_string(getpid());
  const int file = open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kModeOfNew);
  if (file < 0) return errno;
  if (old) fchmod(file, old->st_mode & 07777);
  int error = WriteAndClose(file, bytes);
  if (error == 0 && rename(beside.c_str(), target.c_str()) != 0) error = errno;
  if (error != 0) unlink(beside.c_str());
  return error;
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

absl::Status CheckWritable(const std::string& path) {
  if (path == "-") return absl::OkStatus();
  const auto wrong = [&](const std::string& why) { return absl::InvalidArgumentError(NameOf(path) + ": " + why); };
  const auto old = Existing(path);
  if (old && S_ISDIR(old->st_mode)) return wrong("is a folder, not a file");
  if (old && access(path.c_str(), W_OK) != 0) return wrong(std::strerror(errno));
  if (old && !S_ISREG(old->st_mode)) return absl::OkStatus();
  const std::string parent = std::filesystem::path(Resolved(path)).parent_path().string();
  const std::string folder = parent.empty() ? "." : parent;
  if (access(folder.c_str(), W_OK | X_OK) == 0) return absl::OkStatus();
  return wrong("its folder " + Visible(folder) + ": " + std::strerror(errno));
}

absl::Status AppendToFile(const std::string& path, std::string_view bytes) {
  if (path == "-") return Print(bytes);
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kModeOfNew);
  const int error = file < 0 ? errno : WriteAndClose(file, bytes);
  return error == 0 ? absl::OkStatus() : Failed(path, bytes.size(), error);
}

absl::Status WriteFile(const std::string& path, std::string_view bytes) {
  if (path == "-") return Print(bytes);
  const auto old = Existing(path);
  int error = 0;
  if (old && !S_ISREG(old->st_mode)) {
    const int file = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    error = file < 0 ? errno : WriteAndClose(file, bytes);
  } else {
    error = Replace(Resolved(path), old, bytes);
  }
  return error == 0 ? absl::OkStatus() : Failed(path, bytes.size(), error);
}

}  // namespace softmax::client

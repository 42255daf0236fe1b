#include "server/rpc/security/secret_file.h"

#include <absl/strings/str_cat.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "server/base/file_mode.h"

namespace softmax::server {
namespace {

constexpr std::size_t kMaxBytes = 1u << 20;
constexpr std::int64_t kNanosPerSecond = 1'000'000'000;

}  // namespace

absl::StatusOr<std::string> ReadSecretFile(const std::string& path, Readers readers) {
  const auto failure = [&](const std::string& why) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", why));
  };
  // Non-blocking: a pipe in the file's place must not hang the server.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return failure(std::strerror(errno));
  struct stat info {};
  if (fstat(fd, &info) != 0) info.st_mode = 0777;
  if (const std::string problem = OthersProblem(path, info.st_mode); readers == Readers::kOwners && !problem.empty()) {
    close(fd);
    return failure(problem);
  }
  std::string text;
  char buffer[16384];
  ssize_t got = 0;
  while (text.size() <= kMaxBytes && (got = read(fd, buffer, sizeof(buffer))) > 0) {
    text.append(buffer, static_cast<std::size_t>(got));
  }
  const int error = errno;
  close(fd);
  if (got < 0) return failure(std::strerror(error));
  if (text.size() > kMaxBytes) return failure("is larger than 1 MiB");
  return text;
}

FileChanges::Stamp FileChanges::StampOf(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return {};
  return {info.st_dev, info.st_ino, info.st_size, info.st_ctim.tv_sec * kNanosPerSecond + info.st_ctim.tv_nsec,
          info.st_mtim.tv_sec * kNanosPerSecond + info.st_mtim.tv_nsec};
}

bool FileChanges::Look() {
  std::vector<Stamp> now;
  now.reserve(paths_.size());
  for (const std::string& path : paths_) now.push_back(StampOf(path));
  if (now == seen_) return false;
  seen_ = std::move(now);
  return true;
}

}  // namespace softmax::server

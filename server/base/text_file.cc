#include "server/base/text_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace softmax::server {
namespace {

constexpr char kSaveAsUtf8[] = "; save it as UTF-8";

std::string Errno() { return std::string("cannot be read: ") + std::strerror(errno); }

std::string WhatItIs(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

std::string ReadAll(int fd, std::size_t most_bytes, std::string* text) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return Errno();
  if (!S_ISREG(info.st_mode)) return "cannot be read: it is " + WhatItIs(info.st_mode) + ", not a file";
  text->clear();
  // Read to its end: files of /proc and of some network file systems say that they have no bytes.
  char block[1 << 16];
  for (;;) {
    const ssize_t size = read(fd, block, sizeof(block));
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return Errno();
    if (size == 0) return "";
    text->append(block, static_cast<std::size_t>(size));
    if (text->size() > most_bytes) return "has more than " + std::to_string(most_bytes) + " bytes";
  }
}

void UnifyLineEnds(std::string* text) {
  std::size_t to = 0;
  for (std::size_t from = 0; from < text->size(); ++from) {
    const char c = (*text)[from];
    if (c == '\r' && from + 1 < text->size() && (*text)[from + 1] == '\n') continue;
    (*text)[to++] = c == '\r' ? '\n' : c;
  }
  text->resize(to);
}

}  // namespace

std::string ReadTextFile(const std::string& path, std::size_t most_bytes, std::string* text) {
  // O_NONBLOCK: opening a pipe that nobody writes to would wait.
  const int fd = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) return Errno();
  std::string problem = ReadAll(fd, most_bytes, text);
  close(fd);
  if (!problem.empty()) return problem;
  if (text->starts_with("\xff\xfe") || text->starts_with("\xfe\xff")) return std::string("is UTF-16") + kSaveAsUtf8;
  if (text->find('\0') != std::string::npos) {
    return std::string("has zero bytes, as UTF-16 and binary files have") + kSaveAsUtf8;
  }
  if (text->starts_with("\xef\xbb\xbf")) text->erase(0, 3);
  UnifyLineEnds(text);
  return "";
}

}  // namespace softmax::server

#include "common/base/text_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace softmax {
namespace {

std::string Errno() { return std::string("cannot be read: ") + std::strerror(errno); }

std::string WhatItIs(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

// Empty: a file that can be read to its end.
std::string WhyNoFile(int fd) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return Errno();
  return S_ISREG(info.st_mode) ? "" : "cannot be read: it is " + WhatItIs(info.st_mode) + ", not a file";
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

std::string ReadToEnd(int fd, std::size_t most_bytes, std::string* bytes) {
  bytes->clear();
  // Not by its size: files of /proc and of some network file systems say that they have no bytes.
  char block[1 << 16];
  for (;;) {
    const ssize_t size = read(fd, block, sizeof(block));
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return Errno();
    if (size == 0) return "";
    if (bytes->size() + static_cast<std::size_t>(size) > most_bytes) {
      return "has more than " + std::to_string(most_bytes) + " bytes, the most that are read";
    }
    bytes->append(block, static_cast<std::size_t>(size));
  }
}

std::string TakeMark(std::string_view* bytes) {
  if (bytes->starts_with("\xff\xfe") || bytes->starts_with("\xfe\xff")) return "is UTF-16; save it as UTF-8";
  if (bytes->find('\0') != std::string_view::npos) {
    return "has zero bytes, as UTF-16 and binary files have; save it as UTF-8";
  }
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  if (bytes->starts_with(kMark)) bytes->remove_prefix(kMark.size());
  return "";
}

std::string ReadTextFile(const std::string& path, std::size_t most_bytes, std::string* text) {
  // O_NONBLOCK: opening a pipe that nobody writes to would wait.
  const int fd = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) return Errno();
  std::string problem = WhyNoFile(fd);
  if (problem.empty()) problem = ReadToEnd(fd, most_bytes, text);
  close(fd);
  std::string_view rest = *text;
  if (problem.empty()) problem = TakeMark(&rest);
  if (!problem.empty()) return problem;
  text->erase(0, text->size() - rest.size());
  UnifyLineEnds(text);
  return "";
}

}  // namespace softmax

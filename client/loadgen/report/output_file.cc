#include "client/loadgen/report/output_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace softmax::client {
namespace {

// Of the file that a link points to: the link itself stays.
std::string RealPath(const std::string& path) {
  char real[PATH_MAX];
  return realpath(path.c_str(), real) == nullptr ? path : real;
}

std::string FolderOf(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

std::string Write(const std::string& path, const std::string& text, const char* mode) {
  std::FILE* file = path == "-" ? stdout : std::fopen(path.c_str(), mode);
  if (file == nullptr) return std::strerror(errno);
  bool good = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  good = std::fflush(file) == 0 && good;
  std::string problem = good ? "" : std::strerror(errno);
  if (file != stdout && std::fclose(file) != 0 && good) return std::strerror(errno);
  return problem;
}

}  // namespace

std::string OutputProblem(const std::string& path) {
  if (path == "-") return "";
  const std::string real = RealPath(path);
  struct stat info {};
  const bool exists = stat(real.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) return "is a folder";
  if (exists && access(real.c_str(), W_OK) != 0) return std::string("cannot be written: ") + std::strerror(errno);
  const std::string folder = FolderOf(real);
  if ((!exists || S_ISREG(info.st_mode)) && access(folder.c_str(), W_OK | X_OK) != 0) {
    return "cannot be written: folder " + folder + ": " + std::strerror(errno);
  }
  return "";
}

std::string ReplaceFile(const std::string& path, const std::string& text) {
  const std::string real = path == "-" ? path : RealPath(path);
  struct stat info {};
  const bool exists = path != "-" && stat(real.c_str(), &info) == 0;
  if (path == "-" || (exists && !S_ISREG(info.st_mode))) return Write(path, text, "w");
  const std::string beside = real + "." + std::to_string(getpid()) + ".new";
  std::string problem = Write(beside, text, "wx");
  if (problem.empty() && exists && chmod(beside.c_str(), info.st_mode & 07777) != 0) problem = std::strerror(errno);
  if (problem.empty() && std::rename(beside.c_str(), real.c_str()) != 0) problem = std::strerror(errno);
  if (!problem.empty()) std::remove(beside.c_str());
  return problem;
}

std::string AppendToFile(const std::string& path, const std::string& text) { return Write(path, text, "a"); }

}  // namespace softmax::client

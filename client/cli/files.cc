#include "client/cli/files.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "client/cli/npy.h"
#include "client/cli/text.h"

namespace softmax::client {
namespace {

std::string NameOfFile(const std::string& path, const char* standard) { return path == "-" ? standard : path; }

absl::StatusOr<std::string> ReadAll(const std::string& path) {
  std::FILE* file = path == "-" ? stdin : std::fopen(path.c_str(), "rb");
  if (file == nullptr) {
    return absl::InvalidArgumentError(path + ": " + std::strerror(errno));
  }
  std::string bytes;
  char block[1 << 16];
  for (std::size_t size = 0; (size = std::fread(block, 1, sizeof(block), file)) > 0;) {
    bytes.append(block, size);
  }
  const bool failed = std::ferror(file) != 0;
  const std::string reason = failed ? std::strerror(errno) : "";
  if (file != stdin) std::fclose(file);
  if (failed) {
    return absl::InvalidArgumentError(NameOfFile(path, "standard input") + ": " + reason);
  }
  return bytes;
}

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

Format Guess(const std::string& path, std::string_view bytes) {
  if (LooksLikeNpy(bytes) || EndsWith(path, ".npy")) return Format::kNpy;
  if (EndsWith(path, ".csv") || bytes.find(',') != std::string_view::npos) return Format::kCsv;
  return Format::kText;
}

}  // namespace

absl::StatusOr<LoadedArray> LoadArray(const std::string& path, Format format) {
  const auto bytes = ReadAll(path);
  if (!bytes.ok()) return bytes.status();
  if (format == Format::kAuto) format = Guess(path, *bytes);
  auto array = format == Format::kNpy
                   ? ReadNpy(*bytes)
                   : ReadRows(*bytes, format == Format::kCsv ? Separator::kComma : Separator::kSpace);
  if (!array.ok()) {
    return absl::InvalidArgumentError(NameOfFile(path, "standard input") + ": " +
                                      std::string(array.status().message()));
  }
  return LoadedArray{*std::move(array), format};
}

absl::Status SaveArray(const std::string& path, Format format, const Array& array) {
  if (format == Format::kNpy && path == "-" && isatty(STDOUT_FILENO) != 0) {
    return absl::InvalidArgumentError(
        "the answer is binary (.npy) and standard output is a terminal: use --output or --format");
  }
  const std::string bytes = format == Format::kNpy
                                ? WriteNpy(array)
                                : WriteRows(array, format == Format::kCsv ? Separator::kComma : Separator::kSpace);
  std::FILE* file = path == "-" ? stdout : std::fopen(path.c_str(), "wb");
  if (file == nullptr) return absl::InvalidArgumentError(path + ": " + std::strerror(errno));
  bool good = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  good = (file == stdout ? std::fflush(file) : std::fclose(file)) == 0 && good;
  if (good) return absl::OkStatus();
  return absl::UnknownError(NameOfFile(path, "standard output") + ": " + std::strerror(errno));
}

}  // namespace softmax::client

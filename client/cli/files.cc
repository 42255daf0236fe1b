#include "client/cli/files.h"

#include <absl/strings/match.h>
#include <unistd.h>

#include <string_view>

#include "client/base/file.h"
#include "client/base/program.h"
#include "client/cli/formats.h"

namespace softmax::client {
namespace {

// The most that one request can hold; endless inputs end here.
constexpr std::size_t kMostInputBytes = std::size_t{2} << 30;

// Files that look like numbers to nobody, by their first bytes.
struct Foreign {
  std::string_view begins_with;
  const char* advice;
};

constexpr Foreign kForeign[] = {
    {"PK\x03\x04", "is a zip archive, such as .npz; save the one array as .npy (numpy.save)"},
    {"\x1f\x8b", "is compressed with gzip; unpack it first, as in: gunzip -c FILE | softmax-client"},
    {"BZh", "is compressed with bzip2; unpack it first"},
    {"\xfd"
     "7zXZ",
     "is compressed with xz; unpack it first"},
    {"\x28\xb5\x2f\xfd", "is compressed with zstd; unpack it first"},
    {"\x89HDF", "is an HDF5 file; save the one array as .npy (numpy.save)"},
};

bool HasSuffix(const std::string& path, const char* suffix) { return absl::EndsWithIgnoreCase(path, suffix); }

Format Guess(const std::string& path, std::string_view bytes) {
  if (LooksLikeNpy(bytes) || HasSuffix(path, ".npy")) return Format::kNpy;
  if (HasSuffix(path, ".csv") || GuessSeparator(bytes) == Separator::kComma) return Format::kCsv;
  return Format::kText;
}

absl::StatusOr<LoadedArray> Parse(const std::string& path, std::string_view bytes, Format format) {
  for (const Foreign& foreign : kForeign) {
    if (bytes.starts_with(foreign.begins_with)) return absl::InvalidArgumentError(foreign.advice);
  }
  if (format == Format::kAuto) format = Guess(path, bytes);
  auto array = format == Format::kNpy ? ReadNpy(bytes)
                                      : ReadRows(bytes, format == Format::kCsv ? Separator::kComma : Separator::kSpace);
  if (!array.ok()) return array.status();
  return LoadedArray{*std::move(array), format};
}

}  // namespace

absl::StatusOr<LoadedArray> LoadArray(const std::string& path, Format format) {
  const auto bytes = ReadFile(path, kMostInputBytes);
  if (!bytes.ok()) return bytes.status();
  auto loaded = Parse(path, *bytes, format);
  if (loaded.ok()) return loaded;
  return absl::InvalidArgumentError(NameOfInput(path) + ": " + std::string(loaded.status().message()));
}

absl::StatusOr<Format> PlanOutput(const std::string& path, Format input) {
  for (const char* suffix : {".npz", ".gz"}) {
    if (HasSuffix(path, suffix)) {
      return absl::InvalidArgumentError(Visible(path) + ": " + suffix + " is not written; .npy, .csv and .txt are");
    }
  }
  const Format format = HasSuffix(path, ".npy")   ? Format::kNpy
                        : HasSuffix(path, ".csv") ? Format::kCsv
                        : HasSuffix(path, ".txt") ? Format::kText
                                                  : input;
  if (format == Format::kNpy && path == "-" && isatty(STDOUT_FILENO) != 0) {
    return absl::InvalidArgumentError(
        "the answer is binary (.npy) and standard output is a terminal: use --output, with .csv or .txt for text");
  }
  const absl::Status writable = CheckWritable(path);
  return writable.ok() ? absl::StatusOr<Format>(format) : writable;
}

absl::Status SaveArray(const std::string& path, Format format, const Array& array) {
  return WriteFile(path, format == Format::kNpy
                             ? WriteNpy(array)
                             : WriteRows(array, format == Format::kCsv ? Separator::kComma : Separator::kSpace));
}

}  // namespace softmax::client

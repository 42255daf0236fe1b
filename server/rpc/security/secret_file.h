#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace softmax::server {

enum class Readers { kAnybody, kOwners };

// The text of a file of keys, certificates or tokens, at most 1 MiB. INVALID_ARGUMENT: "PATH: why"; with kOwners, that
// others than its user and group may read or write it, too.
absl::StatusOr<std::string> ReadSecretFile(const std::string& path, Readers readers);

// Tells whether one of some files is another one than at the last look: by number, size and time, behind links, so that
// a replaced link (as Kubernetes does it) counts as well.
class FileChanges {
 public:
  explicit FileChanges(std::vector<std::string> paths) : paths_(std::move(paths)) {}
  // True at the first look, too. A file that is not there counts as one that is different from all that were.
  bool Look();

 private:
  struct Stamp {
    std::uint64_t device = 0, inode = 0;
    std::int64_t size = -1, changed_ns = 0, written_ns = 0;
    bool operator==(const Stamp&) const = default;
  };
  static Stamp StampOf(const std::string& path);

  const std::vector<std::string> paths_;
  std::vector<Stamp> seen_;
};

}  // namespace softmax::server

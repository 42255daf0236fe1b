#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/mutex.h"

namespace softmax::server {

// A part of a file of a client's, which tensors are read from and written to. Never mapped: whatever the client does to
// its file meanwhile, a read or a write fails or brings other bytes, and nothing else. Thread-safe.
class SharedFile {
 public:
  // Takes the descriptor.
  SharedFile(int descriptor, std::string key, std::uint64_t offset, std::uint64_t bytes)
      : descriptor_(descriptor), key_(std::move(key)), offset_(offset), bytes_(bytes) {}
  ~SharedFile();
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  const std::string& key() const { return key_; }
  std::uint64_t offset() const { return offset_; }
  std::uint64_t bytes() const { return bytes_; }
  bool Contains(std::uint64_t offset, std::uint64_t bytes) const {
    return offset <= bytes_ && bytes <= bytes_ - offset;
  }

  // `offset` from the part's begin. False: the file does not have the bytes any more, or the system refused.
  bool Read(std::uint64_t offset, std::uint64_t bytes, std::byte* destination) const;
  bool Write(std::uint64_t offset, std::uint64_t bytes, const std::byte* source) const;

 private:
  const int descriptor_;
  const std::string key_;
  const std::uint64_t offset_;
  const std::uint64_t bytes_;
};

// The files that clients of the Open Inference Protocol have registered under names (SystemSharedMemoryRegister), of
// one folder. Thread-safe.
class SharedFiles {
 public:
  static constexpr std::size_t kMostRegions = 1024;
  static constexpr std::size_t kMostNameBytes = 1024;

  // INVALID_ARGUMENT: not a folder in memory (tmpfs), in which no file can make a read wait for a disk.
  static absl::StatusOr<std::unique_ptr<SharedFiles>> Open(const std::string& folder);
  ~SharedFiles();

  // The bytes [offset, offset + bytes) of the folder's file `key`, as shm_open names it (with or without a slash in
  // front). INVALID_ARGUMENT, ALREADY_EXISTS (the name), RESOURCE_EXHAUSTED (kMostRegions) with field, value and limit.
  absl::Status Register(const std::string& name, const std::string& key, std::uint64_t offset, std::uint64_t bytes)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Requests that use it go on. Empty: all. A name that is not there is no error.
  void Unregister(const std::string& name) ABSL_LOCKS_EXCLUDED(mu_);

  using Entry = std::pair<std::string, std::shared_ptr<const SharedFile>>;
  std::vector<Entry> List() const ABSL_LOCKS_EXCLUDED(mu_);
  // Null: there is none.
  std::shared_ptr<const SharedFile> Find(const std::string& name) const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  SharedFiles(std::string path, int folder) : path_(std::move(path)), folder_(folder) {}
  absl::StatusOr<std::shared_ptr<const SharedFile>> OpenFile(const std::string& key, std::uint64_t offset,
                                                             std::uint64_t bytes) const;

  const std::string path_;
  const int folder_;

  mutable Mutex mu_;
  std::map<std::string, std::shared_ptr<const SharedFile>> files_ ABSL_GUARDED_BY(mu_);
};

}  // namespace softmax::server

#include "server/rpc/oip/shared_files.h"

#include <absl/strings/str_cat.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/wire/whole_message.h"

namespace softmax::server {
namespace {

// Does it until all of it is done; false: the system refused, or there are no bytes.
template <typename Call, typename Byte>
bool Transfer(Call call, int descriptor, Byte* memory, std::uint64_t bytes, std::uint64_t offset) {
  while (bytes > 0) {
    const ssize_t done = call(descriptor, memory, bytes, static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    memory += done;
    offset += static_cast<std::uint64_t>(done);
    bytes -= static_cast<std::uint64_t>(done);
  }
  return true;
}

}  // namespace

SharedFile::~SharedFile() { (void)close(descriptor_); }

bool SharedFile::Read(std::uint64_t offset, std::uint64_t bytes, std::byte* destination) const {
  return Transfer(pread, descriptor_, destination, bytes, offset_ + offset);
}

bool SharedFile::Write(std::uint64_t offset, std::uint64_t bytes, const std::byte* source) const {
  return Transfer(pwrite, descriptor_, source, bytes, offset_ + offset);
}

absl::StatusOr<std::unique_ptr<SharedFiles>> SharedFiles::Open(const std::string& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return Invalid("oip-shared-memory: cannot open folder ", folder, ": ", std::strerror(errno));
  std::unique_ptr<SharedFiles> files(new SharedFiles(folder, descriptor));
  struct statfs system;
  if (fstatfs(descriptor, &system) != 0 || system.f_type != TMPFS_MAGIC) {
    return Invalid("oip-shared-memory: ", folder, " is not in memory; must be a folder of a tmpfs, such as /dev/shm");
  }
  return files;
}

SharedFiles::~SharedFiles() { (void)close(folder_); }

absl::StatusOr<std::shared_ptr<const SharedFile>> SharedFiles::OpenFile(const std::string& key, std::uint64_t offset,
                                                                        std::uint64_t bytes) const {
  const std::string file = !key.empty() && key.front() == '/' ? key.substr(1) : key;
  if (file.empty() || file == "." || file == ".." || file.find('/') != std::string::npos ||
      file.find('\0') != std::string::npos) {
    return Invalid("key: is ", Quoted(key), "; must be the name of a file in ", path_);
  }
  // Without waiting: it may be a pipe.
  const int descriptor = openat(folder_, file.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0) {
    return Invalid("key: cannot open ", Quoted(key), " in ", path_, " for reading and writing: ", std::strerror(errno));
  }
  auto opened = std::make_shared<const SharedFile>(descriptor, key, offset, bytes);
  struct stat about;
  if (fstat(descriptor, &about) != 0 || !S_ISREG(about.st_mode)) return Invalid("key: ", Quoted(key), " is no file");
  const auto size = static_cast<std::uint64_t>(about.st_size);
  if (offset > size || bytes > size - offset) {
    return Invalid("byte_size: is ", bytes, " from offset ", offset, " on; the file ", Quoted(key), " has ", size,
                   " bytes in all");
  }
  return opened;
}

absl::Status SharedFiles::Register(const std::string& name, const std::string& key, std::uint64_t offset,
                                   std::uint64_t bytes) {
  if (name.empty() || name.size() > kMostNameBytes) {
    return Invalid("name: has ", name.size(), " bytes; must have from 1 to ", kMostNameBytes);
  }
  if (bytes == 0) return Invalid("byte_size: is 0; must be at least 1");
  absl::StatusOr<std::shared_ptr<const SharedFile>> opened = OpenFile(key, offset, bytes);
  if (!opened.ok()) return opened.status();
  const MutexLock lock(mu_);
  if (files_.contains(name)) {
    return absl::AlreadyExistsError(
        absl::StrCat("name: ", Quoted(name), " is registered already; unregister it first"));
  }
  if (files_.size() == kMostRegions) {
    return absl::ResourceExhaustedError(
        absl::StrCat("name: ", kMostRegions, " regions are registered, the most there may be; unregister some"));
  }
  files_.emplace(name, std::move(*opened));
  return absl::OkStatus();
}

void SharedFiles::Unregister(const std::string& name) {
  const MutexLock lock(mu_);
  if (name.empty()) {
    files_.clear();
  } else {
    files_.erase(name);
  }
}

std::vector<SharedFiles::Entry> SharedFiles::List() const {
  const MutexLock lock(mu_);
  return {files_.begin(), files_.end()};
}

std::shared_ptr<const SharedFile> SharedFiles::Find(const std::string& name) const {
  const MutexLock lock(mu_);
  const auto found = files_.find(name);
  return found == files_.end() ? nullptr : found->second;
}

}  // namespace softmax::server

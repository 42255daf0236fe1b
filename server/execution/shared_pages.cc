#include "server/execution/shared_pages.h"

#include <absl/strings/str_cat.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace softmax::server {
namespace {

// Linux 6.3 and 5.14 know them; the build's headers may not.
constexpr unsigned kNoExec = 0x0008;  // MFD_NOEXEC_SEAL
constexpr int kPopulateWrite = 23;    // MADV_POPULATE_WRITE

int CreateFile() {
  const int fd = memfd_create("softmax-region", MFD_CLOEXEC | MFD_ALLOW_SEALING | kNoExec);
  return fd >= 0 || errno != EINVAL ? fd : memfd_create("softmax-region", MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

// 0, or why there is not as much memory.
int HavePages(int fd, void* data, std::uint64_t bytes) {
  madvise(data, bytes, MADV_HUGEPAGE);
  if (madvise(data, bytes, kPopulateWrite) == 0) return 0;
  return errno == EINVAL ? posix_fallocate(fd, 0, static_cast<off_t>(bytes)) : errno;
}

absl::Status Failure(const char* call, int error) {
  return absl::ResourceExhaustedError(absl::StrCat(call, ": ", std::strerror(error)));
}

}  // namespace

absl::StatusOr<SharedMemory> MakeSharedPages(std::uint64_t bytes) {
  const int fd = CreateFile();
  if (fd < 0) return Failure("memfd_create", errno);
  const auto fail = [fd](const char* call, int error) {
    close(fd);
    return Failure(call, error);
  };
  if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) return fail("ftruncate", errno);
  // Sealing itself is sealed, too: nobody adds a seal against writing.
  if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) return fail("F_ADD_SEALS", errno);
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return fail("mmap", errno);
  if (const int error = HavePages(fd, data, bytes); error != 0) {
    munmap(data, bytes);
    return fail("allocating its pages", error);
  }
  return SharedMemory{static_cast<std::byte*>(data), fd, [data, bytes] {
                        // The pages go whoever still maps them: they are charged to this process, and whoever
                        // touches the file from now on has pages of his own.
                        madvise(data, bytes, MADV_REMOVE);
                        munmap(data, bytes);
                      }};
}

}  // namespace softmax::server

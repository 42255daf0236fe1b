#include "server/execution/host_memory.h"

#include <absl/strings/str_cat.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

namespace softmax::server {
namespace {

// A version 1 control group without a limit has a number near 2^63.
constexpr std::uint64_t kUnlimited = std::uint64_t{1} << 62;

std::optional<std::uint64_t> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  if (!(file >> value) || value >= kUnlimited) return std::nullopt;
  return value;
}

std::string Size(std::uint64_t bytes) { return absl::StrCat(bytes, " bytes (", bytes >> 20, " MiB)"); }

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

std::unique_ptr<HostMemory> HostMemory::Allocate(std::size_t bytes) {
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  madvise(data, bytes, MADV_HUGEPAGE);
  return std::unique_ptr<HostMemory>(new HostMemory(static_cast<std::byte*>(data), bytes));
}

HostMemory::~HostMemory() { munmap(data_, bytes_); }

MemoryLimits ReadMemoryLimits(const std::string& root) {
  MemoryLimits limits;
  std::ifstream meminfo(root + "/proc/meminfo");
  std::string name, unit;
  for (std::uint64_t kib = 0; meminfo >> name >> kib && std::getline(meminfo, unit);) {
    if (name == "MemTotal:") limits.total = kib << 10;
    if (name == "MemAvailable:") limits.available = kib << 10;
  }
  limits.control_group = ReadNumber(root + "/sys/fs/cgroup/memory.max");
  if (!limits.control_group) limits.control_group = ReadNumber(root + "/sys/fs/cgroup/memory/memory.limit_in_bytes");
  rlimit space{};
  if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) limits.address_space = space.rlim_cur;
  return limits;
}

absl::Status MemoryShortage(const std::string& flag, const std::string& attempt, std::uint64_t bytes,
                            const std::string& reason, const MemoryLimits& limits) {
  std::string text = absl::StrCat(flag, ": ", attempt, " ", Size(bytes), " of memory");
  if (!reason.empty()) absl::StrAppend(&text, ": ", reason);
  if (limits.available && limits.total) {
    absl::StrAppend(&text, "; of the machine's ", *limits.total >> 20, " MiB ", *limits.available >> 20,
                    " are available");
  }
  if (limits.control_group) absl::StrAppend(&text, "; the container may have ", *limits.control_group >> 20, " MiB");
  if (limits.address_space) absl::StrAppend(&text, "; RLIMIT_AS allows ", *limits.address_space >> 20, " MiB");
  absl::StrAppend(&text, ". Set a smaller --", flag, ", or give the process more memory");
  return absl::ResourceExhaustedError(text);
}

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

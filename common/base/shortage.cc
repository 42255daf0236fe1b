#include "common/base/shortage.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <new>
#include <vector>

namespace softmax {
namespace {

// Empty: there is no such limit.
std::string LimitText(const char* what, int resource, const char* flag) {
  rlimit limit{};
  if (getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "";
  return std::string("; ") + what + " " + std::to_string(limit.rlim_cur) + " (ulimit " + flag + ")";
}

// Of the container, or of the service that systemd started.
std::string ControlGroupLimit() {
  std::string folder;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (line.starts_with("0::")) folder = line.substr(3);
  }
  for (const std::string& path : {"/sys/fs/cgroup" + folder + "/pids.max", std::string("/sys/fs/cgroup/pids.max"),
                                  std::string("/sys/fs/cgroup/pids/pids.max")}) {
    std::string most;
    if (std::ifstream(path) >> most && most != "max") return "; its control group may have " + most + " (pids.max)";
  }
  return "";
}

std::string Shortage(std::size_t asked, std::size_t had, const char* what, int error) {
  return std::to_string(asked) + " " + what + " are needed and only " + std::to_string(had) +
         " can be had: " + std::strerror(error);
}

void* WaitAtGate(void* gate) {
  const std::lock_guard pass(*static_cast<std::mutex*>(gate));
  return nullptr;
}

const char* g_program = "";

// Needs no memory itself.
[[noreturn]] void OnNoMemory() {
  char line[256];
  rlimit space{};
  getrlimit(RLIMIT_AS, &space);
  long pages = 0;
  if (std::FILE* const statm = std::fopen("/proc/self/statm", "re")) {
    if (std::fscanf(statm, "%ld", &pages) != 1) pages = 0;
    // Not closed: the process ends.
  }
  const long mib = pages / ((1 << 20) / sysconf(_SC_PAGESIZE));
  int size = 0;
  if (space.rlim_cur == RLIM_INFINITY) {
    size = std::snprintf(line, sizeof(line), "%s: no more memory can be had; it has %ld MiB of addresses\n", g_program,
                         mib);
  } else {
    size = std::snprintf(line, sizeof(line),
                         "%s: no more memory can be had; it has %ld of the %llu MiB of addresses that ulimit -v "
                         "allows\n",
                         g_program, mib, static_cast<unsigned long long>(space.rlim_cur >> 20));
  }
  if (size > 0) (void)!write(STDERR_FILENO, line, static_cast<std::size_t>(size));
  std::_Exit(kExitUnavailable);
}

}  // namespace

std::string ThreadShortage(std::size_t count) {
  std::mutex gate;
  std::vector<pthread_t> threads;
  threads.reserve(count);
  int error = 0;
  {
    const std::lock_guard closed(gate);
    while (threads.size() < count && error == 0) {
      pthread_t thread{};
      error = pthread_create(&thread, nullptr, WaitAtGate, &gate);
      if (error == 0) threads.push_back(thread);
    }
  }
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  if (error == 0) return "";
  return Shortage(count, threads.size(), "threads", error) +
         LimitText("processes and threads of this user:", RLIMIT_NPROC, "-u") + ControlGroupLimit() +
         LimitText("bytes of addresses:", RLIMIT_AS, "-v");
}

std::string DescriptorShortage(std::size_t count) {
  std::vector<int> files;
  files.reserve(count);
  int error = 0;
  while (files.size() < count && error == 0) {
    const int file = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    error = file < 0 ? errno : 0;
    if (file >= 0) files.push_back(file);
  }
  for (const int file : files) close(file);
  if (error == 0) return "";
  return Shortage(count, files.size(), "file descriptors", error) +
         LimitText("descriptors of a process:", RLIMIT_NOFILE, "-n");
}

// gRPC 1.51: one pool with a thread for each configured core, timers (two), two executors that may grow.
std::size_t GrpcThreads() {
  const long cores = std::clamp(sysconf(_SC_NPROCESSORS_CONF), 2L, 32L);
  return static_cast<std::size_t>(cores) + 8;
}

void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

void ExitWithoutMemory(const char* program) {
  g_program = program;
  std::set_new_handler(OnNoMemory);
}

bool OutputArrived(const char* program) {
  // Of a write before, when the buffer was full.
  const int before = errno != 0 ? errno : EIO;
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return true;
  std::fprintf(stderr, "%s: standard output: %s\n", program, std::strerror(errno != 0 ? errno : before));
  return false;
}

}  // namespace softmax

// Preloaded into a server (LD_PRELOAD), this library steps its wall clock: every reading of CLOCK_REALTIME, gRPC's and
// the C++ library's, is off by the seconds that stand in the file of CLOCK_STEP_FILE (8 bytes, which a test
// changes while the server runs). The kernel's clock is the whole machine's and stays as it is, so waits until a time
// of the wall clock are set back by as much.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdint>
#include <cstdlib>

namespace {

std::int64_t Offset() {
  static const volatile std::int64_t* const shared = [] {
    static const std::int64_t none = 0;
    const char* const path = std::getenv("CLOCK_STEP_FILE");
    const int fd = path == nullptr ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return &none;
    void* const memory = mmap(nullptr, sizeof(std::int64_t), PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    return memory == MAP_FAILED ? &none : static_cast<const std::int64_t*>(memory);
  }();
  return *shared;
}

template <typename Function>
Function* Next(const char* name, const char* version) {
  return reinterpret_cast<Function*>(dlvsym(RTLD_NEXT, name, version));
}

timespec SetBack(const timespec& time) {
  timespec real = time;
  real.tv_sec -= Offset();
  return real;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  static auto* const next = reinterpret_cast<int (*)(clockid_t, timespec*)>(dlsym(RTLD_NEXT, "clock_gettime"));
  const int result = next(clock, now);
  if (result == 0 && clock == CLOCK_REALTIME) now->tv_sec += Offset();
  return result;
}

int gettimeofday(timeval* now, void* /*zone*/) noexcept {
  timespec precise{};
  clock_gettime(CLOCK_REALTIME, &precise);
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* out) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != nullptr) *out = now.tv_sec;
  return now.tv_sec;
}

int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* until) {
  static auto* const next =
      Next<int(pthread_cond_t*, pthread_mutex_t*, const timespec*)>("pthread_cond_timedwait", "GLIBC_2.3.2");
  // Which clock a condition variable waits by is its own; one that uses the monotonic clock has times below a year.
  constexpr std::int64_t kYear = 365 * 24 * 3600;
  const timespec real = until->tv_sec > 20 * kYear ? SetBack(*until) : *until;
  return next(condition, mutex, &real);
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  static auto* const next =
      Next<int(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*)>("pthread_cond_clockwait", "GLIBC_2.34");
  const timespec real = clock == CLOCK_REALTIME ? SetBack(*until) : *until;
  return next(condition, mutex, clock, &real);
}

// abseil waits by futex.
long syscall(long number, ...) noexcept {
  va_list list;
  va_start(list, number);
  long arguments[6];
  for (long& argument : arguments) argument = va_arg(list, long);
  va_end(list);
  timespec real{};
  if (number == SYS_futex && (arguments[1] & FUTEX_CLOCK_REALTIME) != 0 && arguments[3] != 0) {
    real = SetBack(*reinterpret_cast<const timespec*>(arguments[3]));
    arguments[3] = reinterpret_cast<long>(&real);
  }
  static auto* const next =
      reinterpret_cast<long (*)(long, long, long, long, long, long, long)>(dlsym(RTLD_NEXT, "syscall"));
  return next(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
}

}  // extern "C"

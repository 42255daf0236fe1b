#include "server/base/log_writer.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

namespace softmax::server {
namespace {

constexpr std::chrono::milliseconds kPatience(1000);
constexpr int kDeadlySignals[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};

// What the writer that called FlushBeforeDeath has not written yet, for a signal's handler.
std::atomic<std::size_t> g_unwritten{0};

// The thread that writes is another one and goes on meanwhile.
void AwaitWriter(int signal) {
  const timespec pause{0, 10'000'000};
  for (int i = 0; i < 100 && g_unwritten.load() > 0; ++i) nanosleep(&pause, nullptr);
  // SA_RESETHAND has put back what ends the process.
  raise(signal);
}

// What cannot be written is left: there is nobody to tell.
void WriteAll(int fd, const std::string& text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const ssize_t size = write(fd, text.data() + at, text.size() - at);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return;
    at += static_cast<std::size_t>(size);
  }
}

}  // namespace

struct LogWriter::Queue {
  int fd;
  std::size_t most_bytes;
  std::function<std::string(std::uint64_t)> lost_line;
  std::mutex mu;
  std::condition_variable changed;
  std::deque<std::string> lines;
  std::size_t bytes = 0;   // of `lines`
  std::uint64_t lost = 0;  // lines that gave way since it was last said
  bool writing = false;    // a line that was taken from `lines`
  bool ending = false;
  bool ended = false;
  bool before_death = false;  // g_unwritten is of this one

  void Tell() const {
    if (before_death) g_unwritten.store(bytes + (writing ? 1 : 0));
  }
};

LogWriter::LogWriter(int fd, std::size_t most_bytes, std::function<std::string(std::uint64_t)> lost_line)
    : queue_(std::make_shared<Queue>()) {
  queue_->fd = fd;
  queue_->most_bytes = most_bytes;
  queue_->lost_line = std::move(lost_line);
  // The program's signals are for the threads that wait for them.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    // Never joined: it may hang in a write for ever.
    std::thread([queue = queue_] { Run(queue); }).detach();
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

LogWriter::~LogWriter() {
  Flush();
  std::unique_lock lock(queue_->mu);
  queue_->ending = true;
  if (std::exchange(queue_->before_death, false)) g_unwritten.store(0);
  queue_->changed.notify_all();
  if (!queue_->writing) queue_->changed.wait_for(lock, kPatience, [&] { return queue_->ended; });
}

void LogWriter::Add(std::string line) {
  const std::lock_guard lock(queue_->mu);
  Queue& queue = *queue_;
  queue.bytes += line.size();
  queue.lines.push_back(std::move(line));
  while (queue.bytes > queue.most_bytes && queue.lines.size() > 1) {
    queue.bytes -= queue.lines.front().size();
    queue.lines.pop_front();
    ++queue.lost;
  }
  queue.Tell();
  queue.changed.notify_all();
}

void LogWriter::Flush() {
  std::unique_lock lock(queue_->mu);
  queue_->changed.wait_for(lock, kPatience, [&] { return queue_->lines.empty() && !queue_->writing; });
}

void LogWriter::FlushBeforeDeath() {
  {
    const std::lock_guard lock(queue_->mu);
    queue_->before_death = true;
    queue_->Tell();
  }
  for (const int signal : kDeadlySignals) {
    struct sigaction now {};
    // A sanitizer or a debugger that is there already knows better.
    if (sigaction(signal, nullptr, &now) != 0 || now.sa_handler != SIG_DFL) continue;
    struct sigaction ours {};
    ours.sa_handler = &AwaitWriter;
    ours.sa_flags = SA_RESETHAND | SA_NODEFER;
    sigaction(signal, &ours, nullptr);
  }
}

void LogWriter::Run(const std::shared_ptr<Queue>& shared) {
  Queue& queue = *shared;
  std::unique_lock lock(queue.mu);
  for (;;) {
    queue.changed.wait(lock, [&] { return !queue.lines.empty() || queue.ending; });
    if (queue.lines.empty()) break;
    std::string text = std::move(queue.lines.front());
    queue.lines.pop_front();
    queue.bytes -= text.size();
    if (queue.lost > 0) text.insert(0, queue.lost_line(std::exchange(queue.lost, 0)));
    queue.writing = true;
    lock.unlock();
    WriteAll(queue.fd, text);
    lock.lock();
    queue.writing = false;
    queue.Tell();
    queue.changed.notify_all();
  }
  queue.ended = true;
  queue.changed.notify_all();
}

}  // namespace softmax::server

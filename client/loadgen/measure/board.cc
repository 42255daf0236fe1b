#include "client/loadgen/measure/board.h"

#include <sys/mman.h>
#include <time.h>

#include <chrono>
#include <cstdio>
#include <new>

namespace softmax::client {
namespace {

// Lays out `count` objects behind what is there already, each area on its own cache line.
template <typename T>
std::size_t Reserve(std::size_t* size, std::size_t count) {
  const std::size_t at = (*size + 63) / 64 * 64;
  *size = at + count * sizeof(T);
  return at;
}

}  // namespace

void FirstText::Set(const char* text) {
  if (taken_.exchange(true, std::memory_order_relaxed)) return;
  std::snprintf(text_, sizeof(text_), "%s", text);
  ready_.store(true, std::memory_order_release);
}

std::unique_ptr<Board> Board::Create(int processes, int threads, std::size_t classes, std::size_t addresses) {
  const auto thread_count = static_cast<std::size_t>(processes) * static_cast<std::size_t>(threads);
  std::size_t size = 0;
  const std::size_t control_at = Reserve<Control>(&size, 1);
  const std::size_t processes_at = Reserve<ProcessTally>(&size, static_cast<std::size_t>(processes));
  const std::size_t threads_at = Reserve<ThreadTally>(&size, thread_count);
  const std::size_t classes_at = Reserve<ClassTally>(&size, thread_count * classes);
  const std::size_t addresses_at = Reserve<AddressTally>(&size, thread_count * addresses);
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;

  // Fresh pages are zero, which is what every type here starts as; atomics of zero bytes are valid
  // on this platform.
  auto* bytes = static_cast<std::byte*>(memory);
  std::unique_ptr<Board> board(new Board());
  board->memory_ = memory;
  board->size_ = size;
  board->threads_per_process_ = threads;
  board->process_count_ = processes;
  board->class_count_ = classes;
  board->address_count_ = addresses;
  board->control_ = reinterpret_cast<Control*>(bytes + control_at);
  board->processes_ = reinterpret_cast<ProcessTally*>(bytes + processes_at);
  board->threads_ = reinterpret_cast<ThreadTally*>(bytes + threads_at);
  board->classes_ = reinterpret_cast<ClassTally*>(bytes + classes_at);
  board->addresses_ = reinterpret_cast<AddressTally*>(bytes + addresses_at);
  return board;
}

Board::~Board() { munmap(memory_, size_); }

std::int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void SleepUntil(std::int64_t ns) {
  const timespec until{ns / 1000000000, ns % 1000000000};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
}

}  // namespace softmax::client

#include "client/loadgen/measure/board.h"

#include <sys/mman.h>
#include <time.h>

#include <algorithm>
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

TimelineReader::TimelineReader(const Board& board) : board_(board), before_(std::make_unique<Histogram>()) {}

TimelinePoint TimelineReader::Read(double t_s) {
  auto now = std::make_unique<Histogram>();
  TimelinePoint totals;
  board_.EachThread([&](const ThreadTally& thread) {
    now->Merge(thread.warmup);
    totals.sent += thread.sent.load(std::memory_order_relaxed);
    totals.answered += thread.answers.load(std::memory_order_relaxed);
    for (const auto& count : thread.errors) totals.errors += count.load(std::memory_order_relaxed);
  });
  for (std::size_t c = 0; c < board_.classes(); ++c) {
    board_.EachOfClass(c, [&](const ClassTally& tally) { now->Merge(tally.latency); });
  }
  TimelinePoint point;
  point.t_s = t_s;
  point.sent = totals.sent - totals_.sent;
  point.answered = totals.answered - totals_.answered;
  point.errors = totals.errors - totals_.errors;
  if (point.answered > 0) {
    point.p50_us = static_cast<double>(now->QuantileSince(before_.get(), 0.5)) / 1e3;
    point.p99_us = static_cast<double>(now->QuantileSince(before_.get(), 0.99)) / 1e3;
  }
  totals_ = totals;
  before_ = std::move(now);
  return point;
}

bool LastAgree(const std::vector<TimelinePoint>& points, double within) {
  constexpr std::ptrdiff_t kWindows = 3;
  if (points.size() < kWindows) return false;
  const auto agree = [&](auto figure) {
    const auto [least, most] = std::minmax_element(points.end() - kWindows, points.end(),
                                                   [&](const auto& a, const auto& b) { return figure(a) < figure(b); });
    return figure(*most) > 0 && figure(*most) - figure(*least) <= within * figure(*most);
  };
  return agree([](const TimelinePoint& p) { return static_cast<double>(p.answered); }) &&
         agree([](const TimelinePoint& p) { return p.answered > 0 ? p.p50_us : 0; });
}

std::int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void SleepUntil(std::int64_t ns) {
  const timespec until{ns / 1000000000, ns % 1000000000};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
}

}  // namespace softmax::client

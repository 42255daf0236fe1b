#include "server/rpc/guard/read_guard.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <unordered_map>

#include "server/base/log.h"
#include "server/base/mutex.h"
#include "server/base/socket_name.h"

namespace softmax::server {

// One descriptor number's. Never freed, since a reader may look at any moment; used again when the number is.
struct alignas(128) ReadGuard::Slot {
  std::atomic<std::uint64_t> generation{0};  // odd: watched
  int fd = -1;
  std::string client_random;  // empty: not encrypted
  std::optional<FrameMeter> meter;
  alignas(64) Earnings earnings;
};

namespace {

constexpr std::size_t kChunk = 1024;
constexpr std::size_t kChunks = 1024;
using Chunk = std::array<std::atomic<ReadGuard::Slot*>, kChunk>;

std::array<std::atomic<Chunk*>, kChunks> chunks{};
std::array<std::atomic<std::uint64_t>, FrameMeter::kVerdicts> ended_for{};
std::atomic<bool> is_enabled{true};

// TLS connections whose decrypted bytes nobody has seen yet, by their client's random number.
struct Unclaimed {
  Mutex mu;
  std::unordered_map<std::string, ReadGuard::Account> accounts ABSL_GUARDED_BY(mu);
};
Unclaimed& GetUnclaimed() {
  static auto* const unclaimed = new Unclaimed;
  return *unclaimed;
}

ReadGuard::Slot* FindSlot(int fd) {
  const auto number = static_cast<std::size_t>(fd);
  if (number >= kChunk * kChunks) return nullptr;
  Chunk* const chunk = chunks[number / kChunk].load(std::memory_order_acquire);
  return chunk == nullptr ? nullptr : (*chunk)[number % kChunk].load(std::memory_order_acquire);
}

// Used by one thread, the one that accepts, or by several for numbers of their own.
ReadGuard::Slot* MakeSlot(int fd) {
  const auto number = static_cast<std::size_t>(fd);
  if (number >= kChunk * kChunks) return nullptr;
  std::atomic<Chunk*>& place = chunks[number / kChunk];
  Chunk* chunk = place.load(std::memory_order_acquire);
  if (chunk == nullptr) {
    auto fresh = std::make_unique<Chunk>();
    if (place.compare_exchange_strong(chunk, fresh.get(), std::memory_order_acq_rel)) chunk = fresh.release();
  }
  std::atomic<ReadGuard::Slot*>& entry = (*chunk)[number % kChunk];
  if (entry.load(std::memory_order_acquire) == nullptr) {
    entry.store(std::make_unique<ReadGuard::Slot>().release(), std::memory_order_release);
  }
  return entry.load(std::memory_order_acquire);
}

const char* Why(FrameMeter::Verdict verdict) {
  switch (verdict) {
    case FrameMeter::Verdict::kFine:
      return "nothing";
    case FrameMeter::Verdict::kCalls:
      return "too many calls begun and not finished, or taken back";
    case FrameMeter::Verdict::kFrames:
      return "too many frames that carry nothing";
    case FrameMeter::Verdict::kHeaders:
      return "a call's headers do not end";
    case FrameMeter::Verdict::kMessages:
      return "large messages for calls that take a few bytes";
  }
  return "unknown";
}

// HTTP/2's last word, for clients that print it: GOAWAY with ENHANCE_YOUR_CALM. As far as the socket takes it.
void SayGoAway(int fd, const char* why) {
  constexpr char kEnhanceYourCalm = 0xb;
  std::string frame("\0\0\0\7\0\0\0\0\0\x7f\xff\xff\xff\0\0\0", 16);
  frame += kEnhanceYourCalm;
  frame += why;
  frame[2] = static_cast<char>(frame.size() - 9);
  send(fd, frame.data(), frame.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace

Earnings* ReadGuard::Account::earnings() const {
  if (slot_ == nullptr || slot_->generation.load(std::memory_order_relaxed) != generation_) return nullptr;
  return &slot_->earnings;
}

void ReadGuard::Account::Earn(std::uint64_t calls, std::uint64_t frames) const {
  Earnings* const earned = earnings();
  if (earned == nullptr) return;
  if (calls > 0) earned->calls.fetch_add(calls, std::memory_order_relaxed);
  earned->frames.fetch_add(frames, std::memory_order_relaxed);
}

void ReadGuard::Account::AnswerSent(std::uint64_t bytes) const {
  if (Earnings* const earned = earnings()) {
    earned->unread.fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
  }
}

void ReadGuard::Account::AnswerTaken(std::uint64_t bytes) const {
  if (Earnings* const earned = earnings()) {
    earned->unread.fetch_sub(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
    earned->frames.fetch_add(bytes / FrameMeter::kBytesPerFrame, std::memory_order_relaxed);
  }
}

ReadGuard::Account ReadGuard::Watch(int fd, std::uint64_t streams, std::string_view client_random) {
  if (!is_enabled.load(std::memory_order_relaxed)) return {};
  Slot* const slot = MakeSlot(fd);
  if (slot == nullptr) return {};
  slot->fd = fd;
  slot->client_random = client_random;
  slot->earnings.calls.store(0, std::memory_order_relaxed);
  slot->earnings.frames.store(0, std::memory_order_relaxed);
  slot->earnings.unread.store(0, std::memory_order_relaxed);
  slot->meter.emplace(streams, slot->earnings, SteadyClock::now());
  const std::uint64_t generation = (slot->generation.load(std::memory_order_relaxed) | 1) + 2;
  slot->generation.store(generation, std::memory_order_release);
  const Account account(slot, generation);
  if (!client_random.empty()) {
    PrepareTls();
    Unclaimed& unclaimed = GetUnclaimed();
    MutexLock lock(unclaimed.mu);
    unclaimed.accounts.insert_or_assign(std::string(client_random), account);
  }
  return account;
}

ReadGuard::Account ReadGuard::Claim(std::string_view client_random) {
  Unclaimed& unclaimed = GetUnclaimed();
  MutexLock lock(unclaimed.mu);
  const auto it = unclaimed.accounts.find(std::string(client_random));
  if (it == unclaimed.accounts.end()) return {};
  const Account account = it->second;
  unclaimed.accounts.erase(it);
  return account;
}

void ReadGuard::Forget(const Account& account) {
  if (account.slot_ == nullptr) return;
  std::uint64_t generation = account.generation_;
  if (!account.slot_->generation.compare_exchange_strong(generation, generation + 1, std::memory_order_relaxed)) return;
  if (!account.slot_->client_random.empty()) (void)Claim(account.slot_->client_random);
}

void ReadGuard::End(int fd, FrameMeter::Verdict reason, bool goes_in_the_clear) {
  const std::uint64_t before = ended_for[static_cast<std::size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
  // Whoever comes back again and again does not fill the log: the first, the second, the fourth and so on are named.
  if ((before & (before + 1)) == 0) {
    LogWarning("ending connection ", PeerName(fd), ": ", Why(reason), " (", before + 1, " so far)");
  }
  if (goes_in_the_clear) SayGoAway(fd, Why(reason));
  shutdown(fd, SHUT_RDWR);
}

std::uint64_t ReadGuard::ended(FrameMeter::Verdict reason) {
  return ended_for[static_cast<std::size_t>(reason)].load(std::memory_order_relaxed);
}

void ReadGuard::SetEnabled(bool enabled) { is_enabled.store(enabled); }

bool ReadGuard::Passes(int fd, const msghdr& message, std::size_t bytes) {
  Slot* const slot = FindSlot(fd);
  const std::uint64_t generation = slot == nullptr ? 0 : slot->generation.load(std::memory_order_acquire);
  if ((generation & 1) == 0 || !slot->client_random.empty()) return true;
  const Account account(slot, generation);
  for (std::size_t i = 0; i < message.msg_iovlen && bytes > 0; ++i) {
    const std::size_t piece = std::min(bytes, message.msg_iov[i].iov_len);
    if (!Passes(account, {static_cast<const char*>(message.msg_iov[i].iov_base), piece})) return false;
    bytes -= piece;
  }
  return true;
}

bool ReadGuard::Passes(const Account& account, std::string_view decrypted) {
  if (account.earnings() == nullptr) return true;
  const FrameMeter::Verdict verdict = account.slot_->meter->Take(decrypted);
  if (verdict == FrameMeter::Verdict::kFine) return true;
  Forget(account);
  End(account.slot_->fd, verdict, account.slot_->client_random.empty());
  return false;
}

}  // namespace softmax::server

// gRPC's only way to read a socket. An end that nothing was read before is an orderly one for it.
extern "C" ssize_t recvmsg(int fd, msghdr* message, int flags) {
  const ssize_t got = syscall(SYS_recvmsg, fd, message, flags);
  if (got <= 0 || flags != 0) return got;
  return softmax::server::ReadGuard::Passes(fd, *message, static_cast<std::size_t>(got)) ? got : 0;
}

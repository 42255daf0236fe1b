#include "server/rpc/guard/read_guard.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "common/base/mutex.h"
#include "server/base/log.h"
#include "server/base/socket_name.h"
#include "server/rpc/guard/frame_head.h"
#include "server/rpc/guard/tls_reads.h"

namespace softmax::server {

// One descriptor number's. Never freed, since a reader may look at any moment; used again when the number is.
struct alignas(128) ReadGuard::Slot {
  // Odd: watched. Even: forgotten, but the socket may be read still; 0: never used.
  std::atomic<std::uint64_t> generation{0};
  int fd = -1;
  ino_t socket = 0;  // tells whether the descriptor is still the one that was watched
  bool is_encrypted = false;
  std::atomic<bool> is_bound{false};  // to a TLS session
  std::atomic<bool> is_ended{false};
  std::atomic<Stage> stage{Stage::kHandshake};
  Mutex meter_mu;  // the connection is read and written by different threads now and then
  std::optional<FrameMeter> meter ABSL_GUARDED_BY(meter_mu);
  SentFrames sent;                         // of whoever sends, which is one at a time
  std::atomic<std::size_t> open_calls{0};  // of the meter
  WaitingCalls::Connection waiting;
  Mutex mu;  // what End needs, which may come when the connection is gone
  std::function<void()> on_end ABSL_GUARDED_BY(mu);
  alignas(64) Earnings earnings;

  // Tells others what the meter knows. False: too many calls wait.
  [[nodiscard]] bool Publish() ABSL_EXCLUSIVE_LOCKS_REQUIRED(meter_mu);
};

namespace {

constexpr std::size_t kChunk = 1024;
constexpr std::size_t kChunks = 1024;
using Chunk = std::array<std::atomic<ReadGuard::Slot*>, kChunk>;

std::array<std::atomic<Chunk*>, kChunks> chunks{};
std::array<std::atomic<std::uint64_t>, FrameMeter::kVerdicts> ended_for{};

struct MessageLimits {
  Mutex mu;
  OpenCalls::Limits limits ABSL_GUARDED_BY(mu);
};
MessageLimits& GetMessageLimits() {
  static auto* const limits = new MessageLimits;
  return *limits;
}

WaitingCalls& GetWaitingCalls() {
  static auto* const calls = new WaitingCalls;
  return *calls;
}

// The number that the kernel has for an open socket. 0: there is none.
ino_t SocketOf(int fd) {
  struct stat info {};
  return fstat(fd, &info) == 0 ? info.st_ino : 0;
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

// Of each Verdict.
constexpr const char* kWhy[FrameMeter::kVerdicts] = {
    "nothing",
    "too many calls begun and not finished, or taken back",
    "too many frames that carry nothing",
    "a call's headers do not end",
    "messages that claim more bytes than their methods take",
    "too many calls wait for their first message; this connection has many of them"};

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

bool ReadGuard::Account::is_current() const {
  if (slot_ == nullptr) return false;
  const std::uint64_t generation = slot_->generation.load(std::memory_order_acquire);
  return generation == generation_ || generation == generation_ + 1;
}

ReadGuard::Stage ReadGuard::Account::stage() const {
  return is_current() ? slot_->stage.load(std::memory_order_relaxed) : Stage::kCalled;
}

bool ReadGuard::Account::ended() const { return is_current() && slot_->is_ended.load(std::memory_order_relaxed); }

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

void ReadGuard::Account::EndsBy(int duplicate) const {
  if (earnings() == nullptr) return;
  GetWaitingCalls().Enter(&slot_->waiting, [account = *this, duplicate, clear = !slot_->is_encrypted] {
    End(account, duplicate, FrameMeter::Verdict::kWaiting, clear);
  });
}

bool ReadGuard::Slot::Publish() {
  open_calls.store(meter->open_calls().size(), std::memory_order_relaxed);
  return GetWaitingCalls().Set(&waiting, meter->open_calls().waiting(), meter->TookMessages());
}

std::optional<ReadGuard::Account> ReadGuard::Watch(int fd, std::uint64_t streams, Bytes bytes,
                                                   std::function<void()> on_end) {
  Slot* const slot = MakeSlot(fd);
  if (slot == nullptr) return std::nullopt;
  GetWaitingCalls().Leave(&slot->waiting);
  OpenCalls::Limits limits;
  {
    MutexLock lock(GetMessageLimits().mu);
    limits = GetMessageLimits().limits;
  }
  {
    MutexLock lock(slot->meter_mu);
    slot->meter.emplace(streams, slot->earnings, SteadyClock::now(), limits);
  }
  slot->sent = SentFrames();
  slot->open_calls.store(0, std::memory_order_relaxed);
  MutexLock lock(slot->mu);
  slot->on_end = std::move(on_end);
  slot->fd = fd;
  slot->socket = SocketOf(fd);
  slot->is_encrypted = bytes == Bytes::kEncrypted;
  slot->is_bound.store(false, std::memory_order_relaxed);
  slot->is_ended.store(false, std::memory_order_relaxed);
  slot->stage.store(Stage::kHandshake, std::memory_order_relaxed);
  slot->earnings.calls.store(0, std::memory_order_relaxed);
  slot->earnings.frames.store(0, std::memory_order_relaxed);
  slot->earnings.unread.store(0, std::memory_order_relaxed);
  if (slot->is_encrypted) PrepareTls();
  const std::uint64_t generation = (slot->generation.load(std::memory_order_relaxed) | 1) + 2;
  slot->generation.store(generation, std::memory_order_release);
  return Account(slot, generation);
}

void ReadGuard::Forget(const Account& account) {
  if (account.slot_ == nullptr) return;
  std::uint64_t generation = account.generation_;
  if (!account.slot_->generation.compare_exchange_strong(generation, generation + 1, std::memory_order_relaxed)) return;
  GetWaitingCalls().Leave(&account.slot_->waiting);
}

void ReadGuard::End(const Account& account, int fd, FrameMeter::Verdict reason, bool goes_in_the_clear) {
  if (account.slot_ != nullptr) {
    MutexLock lock(account.slot_->mu);
    if (account.is_current() && !account.slot_->is_ended.exchange(true) && account.slot_->on_end != nullptr) {
      account.slot_->on_end();
    }
  }
  const auto index = static_cast<std::size_t>(reason);
  const std::uint64_t before = ended_for[index].fetch_add(1, std::memory_order_relaxed);
  // Whoever comes back again and again does not fill the log: the first, the second, the fourth and so on are named.
  if ((before & (before + 1)) == 0) {
    LogWarning("ending connection ", PeerName(fd), ": ", kWhy[index], " (", before + 1, " so far)");
  }
  if (goes_in_the_clear) SayGoAway(fd, kWhy[index]);
  shutdown(fd, SHUT_RDWR);
}

std::uint64_t ReadGuard::ended(FrameMeter::Verdict reason) {
  return ended_for[static_cast<std::size_t>(reason)].load(std::memory_order_relaxed);
}

void ReadGuard::SetLimits(const OpenCalls::Limits& messages, const WaitingCalls::Limits& waiting) {
  GetWaitingCalls().SetLimits(waiting);
  MutexLock lock(GetMessageLimits().mu);
  GetMessageLimits().limits = messages;
}

std::int64_t ReadGuard::waiting_calls() { return GetWaitingCalls().total(); }

void ReadGuard::Sweep(TimePoint now) { GetWaitingCalls().Sweep(now); }

std::optional<ReadGuard::Account> ReadGuard::AccountOf(int fd) {
  Slot* const slot = FindSlot(fd);
  const std::uint64_t generation = slot == nullptr ? 0 : slot->generation.load(std::memory_order_acquire);
  if (generation == 0) return std::nullopt;
  if ((generation & 1) != 0) return Account(slot, generation);
  // The client has ended the connection. What arrived before that passes here still, unless the number is another
  // socket's by now.
  if (SocketOf(fd) != slot->socket) return std::nullopt;
  return Account(slot, generation - 1);
}

bool ReadGuard::Passes(int fd, const msghdr& message, std::size_t bytes) {
  const std::optional<Account> account = AccountOf(fd);
  if (!account.has_value()) return true;
  const Slot& slot = *account->slot_;
  if (slot.is_ended.load(std::memory_order_relaxed)) return false;
  if (slot.is_encrypted) return slot.is_bound.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < message.msg_iovlen && bytes > 0; ++i) {
    const std::size_t piece = std::min(bytes, message.msg_iov[i].iov_len);
    if (!Take(*account, {static_cast<char*>(message.msg_iov[i].iov_base), piece})) return false;
    bytes -= piece;
  }
  return true;
}

bool ReadGuard::Passes(const Account& account, std::span<char> decrypted) {
  return account.is_current() && !account.ended() && Take(account, decrypted);
}

bool ReadGuard::Take(const Account& account, std::span<char> bytes) {
  Slot& slot = *account.slot_;
  FrameMeter::Verdict verdict;
  {
    MutexLock lock(slot.meter_mu);
    verdict = slot.meter->Take(bytes);
    if (!slot.Publish() && verdict == FrameMeter::Verdict::kFine) verdict = FrameMeter::Verdict::kWaiting;
    if (slot.stage.load(std::memory_order_relaxed) != Stage::kCalled && slot.meter->acknowledged_settings()) {
      slot.stage.store(slot.meter->has_called() ? Stage::kCalled : Stage::kUnused, std::memory_order_relaxed);
    }
  }
  if (verdict == FrameMeter::Verdict::kFine) return true;
  End(account, slot.fd, verdict, /*goes_in_the_clear=*/!slot.is_encrypted);
  return false;
}

void ReadGuard::Sent(int fd, const msghdr& message, std::size_t bytes) {
  const std::optional<Account> account = AccountOf(fd);
  if (!account.has_value() || account->slot_->is_encrypted) return;
  for (std::size_t i = 0; i < message.msg_iovlen && bytes > 0; ++i) {
    const std::size_t piece = std::min(bytes, message.msg_iov[i].iov_len);
    Sent(*account, {static_cast<const char*>(message.msg_iov[i].iov_base), piece});
    bytes -= piece;
  }
}

void ReadGuard::Sent(const Account& account, std::string_view plain) {
  if (!account.is_current()) return;
  Slot& slot = *account.slot_;
  while (const std::optional<std::uint32_t> stream = slot.sent.Take(&plain)) {
    // Most often the client had ended its side.
    if (slot.open_calls.load(std::memory_order_relaxed) == 0) continue;
    MutexLock lock(slot.meter_mu);
    slot.meter->Ended(*stream);
    (void)slot.Publish();  // fewer wait
  }
}

void ReadGuard::SetBound(const Account& account) { account.slot_->is_bound.store(true, std::memory_order_relaxed); }

}  // namespace softmax::server

// gRPC's only way to read a socket. An end that nothing was read before is an orderly one for it.
extern "C" ssize_t recvmsg(int fd, msghdr* message, int flags) {
  const ssize_t got = syscall(SYS_recvmsg, fd, message, flags);
  if (got <= 0 || flags != 0) return got;
  return softmax::server::ReadGuard::Passes(fd, *message, static_cast<std::size_t>(got)) ? got : 0;
}

// gRPC's only way to write one.
extern "C" ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  const ssize_t sent = syscall(SYS_sendmsg, fd, message, flags);
  if (sent > 0) softmax::server::ReadGuard::Sent(fd, *message, static_cast<std::size_t>(sent));
  return sent;
}

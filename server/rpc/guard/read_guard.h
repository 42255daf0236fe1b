#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "server/rpc/guard/frame_meter.h"
#include "server/rpc/guard/waiting_calls.h"

namespace softmax::server {

// Stands between gRPC and the sockets that it was handed: a FrameMeter sees every byte before gRPC does, and ends a
// connection that goes too far. gRPC has no place for such a filter; so this library defines recvmsg, by which gRPC
// reads its sockets, and for TLS SSL_read, by which it gets the decrypted bytes, and calls the real ones. Likewise
// sendmsg and SSL_write, to see which calls the server has ended. Descriptors that are not watched pass unseen.
//
// What is watched fails closed: bytes of a TLS connection whose session is not known to be its own do not pass, nor
// does what arrived before its client's end, unmetered, nor anything after its own end.
class ReadGuard {
 public:
  struct Slot;

  // How far a client has come.
  enum class Stage : std::uint8_t {
    kHandshake,  // TLS, or HTTP/2's exchange of SETTINGS, is not finished
    kUnused,     // it has begun no call yet
    kCalled,
  };

  // A connection's end of it, for what the connection earns (any thread). Empty: not watched.
  class Account {
   public:
    Account() = default;

    void CallFinished() const { Earn(1, FrameMeter::kFramesPerCall); }
    // A request of a stream, which has no call of its own.
    void RequestAnswered() const { Earn(0, FrameMeter::kFramesPerCall); }
    void AnswerSent(std::uint64_t bytes) const;  // until AnswerTaken
    void AnswerTaken(std::uint64_t bytes) const;
    // A duplicate of its descriptor, which stays open until Forget: by it the connection can be ended at any moment.
    void EndsBy(int duplicate) const;

    // Any thread, while the descriptor that Watch was given may still be read. kCalled where nothing is watched.
    Stage stage() const;
    // Whether the guard has ended it.
    bool ended() const;

   private:
    friend class ReadGuard;
    Account(Slot* slot, std::uint64_t generation) : slot_(slot), generation_(generation) {}
    void Earn(std::uint64_t calls, std::uint64_t frames) const;
    Earnings* earnings() const;  // null: it was forgotten, or the descriptor's number is another connection's by now
    // Whether the slot is this connection's, which may have been forgotten.
    bool is_current() const;

    Slot* slot_ = nullptr;
    std::uint64_t generation_ = 0;
  };

  enum class Bytes : std::uint8_t { kPlain, kEncrypted };

  // From now on `fd`, of which nothing has been read, is watched until it is closed. `streams`: that the server lets it
  // have open. `on_end`: called when the guard ends it, on any thread. Nothing: its number is too high to be watched,
  // and it must not be served.
  static std::optional<Account> Watch(int fd, std::uint64_t streams, Bytes bytes = Bytes::kPlain,
                                      std::function<void()> on_end = nullptr);
  // The client has ended the connection; it earns nothing any more. gRPC may still read what arrived before.
  static void Forget(const Account& account);

  // For the connections that come: what messages may claim; for all: how many calls may wait for their first.
  static void SetLimits(const OpenCalls::Limits& messages, const WaitingCalls::Limits& waiting);
  // Ends connections whose calls have waited for too long. A few times a second.
  static void Sweep(TimePoint now);

  // Calls that wait for their first message, and those of ended connections that gRPC may not have forgotten.
  static std::int64_t waiting_calls();

  // Connections ended for this reason since the process began.
  static std::uint64_t ended(FrameMeter::Verdict reason);

  // Ends a connection: counts and logs it, says GOAWAY (in the clear only) and shuts the socket, which gRPC then
  // closes. `fd`: the socket, by whatever number.
  static void End(const Account& account, int fd, FrameMeter::Verdict reason, bool goes_in_the_clear);

  // For recvmsg and SSL_read: whether gRPC may see these bytes, which may have changed; else the connection has been
  // ended.
  static bool Passes(int fd, const msghdr& message, std::size_t bytes);
  static bool Passes(const Account& account, std::span<char> decrypted);
  // For sendmsg and SSL_write: what has been sent.
  static void Sent(int fd, const msghdr& message, std::size_t bytes);
  static void Sent(const Account& account, std::string_view plain);

 private:
  // The account of a descriptor that is watched; nothing where it is not.
  static std::optional<Account> AccountOf(int fd);
  static bool Take(const Account& account, std::span<char> bytes);
  // The session is there: encrypted bytes may go to it.
  static void SetBound(const Account& account);

  friend struct TlsSessions;  // tls_reads.cc
};

}  // namespace softmax::server

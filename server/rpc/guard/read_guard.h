#pragma once

#include <sys/socket.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "server/rpc/guard/frame_meter.h"

namespace softmax::server {

// Stands between gRPC and the sockets that it was handed: a FrameMeter sees every byte before gRPC does, and ends a
// connection that goes too far. gRPC has no place for such a filter; so this library defines recvmsg, by which gRPC
// reads its sockets, and for TLS SSL_read, by which it gets the decrypted bytes, and calls the real ones. Descriptors
// that are not watched pass unseen.
class ReadGuard {
 public:
  struct Slot;

  // A connection's end of it, for what the connection earns (any thread). Empty: not watched.
  class Account {
   public:
    Account() = default;

    void CallFinished() const { Earn(1, FrameMeter::kFramesPerCall); }
    // A request of a stream, which has no call of its own.
    void RequestAnswered() const { Earn(0, FrameMeter::kFramesPerCall); }
    void AnswerSent(std::uint64_t bytes) const;  // until AnswerTaken
    void AnswerTaken(std::uint64_t bytes) const;

   private:
    friend class ReadGuard;
    Account(Slot* slot, std::uint64_t generation) : slot_(slot), generation_(generation) {}
    void Earn(std::uint64_t calls, std::uint64_t frames) const;
    Earnings* earnings() const;  // null: the descriptor's number is another connection's by now

    Slot* slot_ = nullptr;
    std::uint64_t generation_ = 0;
  };

  // From now on `fd`, of which nothing has been read, is watched. `streams`: that the server lets it have open.
  // `client_random`: a TLS client's, by which its decrypted bytes are known; empty: the bytes are not encrypted.
  static Account Watch(int fd, std::uint64_t streams, std::string_view client_random = {});
  // The connection has ended.
  static void Forget(const Account& account);

  // Connections ended for this reason since the process began.
  static std::uint64_t ended(FrameMeter::Verdict reason);
  // Test builds show what the guard is for by a server without it.
  static void SetEnabled(bool enabled);

  // Ends a connection: counts and logs it, says GOAWAY (in the clear only) and shuts the socket, which gRPC then
  // closes.
  static void End(int fd, FrameMeter::Verdict reason, bool goes_in_the_clear);

  // For recvmsg and SSL_read: whether gRPC may see these bytes; else the connection has been ended.
  static bool Passes(int fd, const msghdr& message, std::size_t bytes);
  static bool Passes(const Account& account, std::string_view decrypted);
  // Makes the linker take the SSL_read of this library.
  static void PrepareTls();
  // Once for each TLS connection: the account that was opened with this client_random.
  static Account Claim(std::string_view client_random);
};

}  // namespace softmax::server

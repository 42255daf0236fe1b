#pragma once

#include <absl/status/statusor.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "server/rpc/accept/connections.h"
#include "server/rpc/accept/late_greetings.h"
#include "server/rpc/accept/room.h"
#include "server/rpc/accept/silent_sockets.h"
#include "server/rpc/accept/socket_handoff.h"
#include "server/rpc/accept/spare_descriptors.h"

namespace softmax::server {

// The server's own accept loop. gRPC 1.51's ends for ever at the first accept error that is not EAGAIN (a burst of
// connections at the descriptor limit), has no limit on connections, and keeps no handle to end one. This one counts
// and refuses, waits out EMFILE, waits for a connection's first bytes so that silent ones and those that speak
// something else never take a place, and hands each socket to gRPC. When all places are taken, somebody who does not
// use his makes room (Room). Networks whose connections were ended for floods are greeted late (LateGreetings).
class Acceptor {
 public:
  // Where accepted connections go.
  struct Destination {
    std::unique_ptr<SocketHandoff> handoff;
    Connections* connections = nullptr;
    std::uint32_t max_connections = 4096;
    std::uint32_t max_streams = 256;  // that gRPC lets a connection have open
    bool while_draining = false;      // StopListening leaves its listeners open
    // Over a limit, that of descriptors too, the oldest connection makes room, whatever it does, and nobody is greeted
    // late: for probers, who are gone in a moment and may share their address with anybody.
    bool displaces = false;
    // Runs the handing over on the thread of the server that it goes to: gRPC reads a connection's first bytes there
    // and then, which may take as long as the client sends. Null: it runs on the accept thread, for tests.
    std::function<void(std::size_t server, std::function<void()> hand_over)> run;
  };
  struct Place {
    std::string address;          // host:port (port 0: any free one), [v6]:port, or unix:/path
    std::size_t destination = 0;  // index into what Start is given
  };
  struct Options {
    std::vector<Place> places;
    unsigned unix_socket_mode = 0600;
    Nanoseconds greeting_timeout = std::chrono::seconds(10);  // for the first bytes
  };

  // Binds and listens; nothing is accepted before Start. Fails with the address and why ("in use").
  static absl::StatusOr<std::unique_ptr<Acceptor>> Create(const Options& options);
  ~Acceptor();  // Stops.

  // What is listened on, ports resolved, as clients write it; in the order of Options::places.
  const std::vector<std::string>& addresses() const { return bound_; }
  void Start(std::vector<Destination> destinations);
  // Closes the listening sockets of destinations that do not serve while draining; accepted connections live on.
  void StopListening();
  // Ends the watch over the accepted connections as well. Joins.
  void Stop();
  // Connections turned away: over the limit, silent, or speaking something else.
  std::uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

 private:
  struct Listener {
    int fd = -1;
    std::size_t destination = 0;
    std::string unix_path;  // removed at the end
  };
  struct Accepted {
    std::size_t destination;
    std::string peer;
    std::size_t server = 0;    // behind the destination's handoff
    std::uint64_t number = 0;  // in the order of arrival
    std::string network;
    TimePoint since;
    std::weak_ptr<Connection> connection;  // in its Connections
  };

  explicit Acceptor(const Options& options);
  void Run();
  int WaitMs() const;
  void HandleEvent(std::uint64_t what);
  void AcceptReady(const Listener& listener);
  void PauseAccepting(int error, bool all);
  bool FreeDescriptor(std::size_t destination);
  // Accepts nothing for so long; `all`: not even where connections displace others.
  void Rest(Nanoseconds time, bool all);
  void ResumeAccepting();
  void OnAccepted(int fd, std::size_t destination);
  void Greet(int fd);
  void ListenToArrivals();
  std::size_t Taken(const Connections& places) const;
  bool MakeRoom(std::size_t destination, const std::string& newcomer);
  bool Displace(std::size_t destination);
  bool DisplaceForShare(const Destination& to, const std::string& newcomer);
  Room LookAround(const Destination& to, TimePoint now) const;
  // What the connection does with its place; nothing: it has a call under way.
  std::optional<Room::Occupant> OccupantOf(int duplicate, const Accepted& accepted, TimePoint now) const;
  bool Close(const Room::Occupant& occupant, TimePoint now);
  void HandOver(int fd, std::size_t destination, const std::string& network);
  void Forget(int duplicate);
  void CloseListeners(bool all);
  void Refused(const char* why, int fd);

  const Options options_;
  std::vector<std::string> bound_;

  // The accept thread's, after Start.
  std::vector<Destination> destinations_;
  std::vector<Listener> listeners_;
  SilentSockets silent_sockets_;
  std::unordered_map<int, Accepted> accepted_;  // by the connection's duplicate descriptor
  std::uint64_t accepted_number_ = 0;
  SpareDescriptors spares_;  // filled where a destination displaces
  bool keeps_spares_ = false;
  TimePoint complain_of_descriptors_{};
  std::unordered_map<const Connections*, std::optional<Room>> rooms_;
  const std::shared_ptr<LateGreetings> late_ = std::make_shared<LateGreetings>();  // the guard tells it of ends
  bool paused_ = false;
  TimePoint resume_at_;  // when it is
  // Held by each handing over until it is done, by which these are counted.
  std::shared_ptr<const char> handing_over_ = std::make_shared<const char>();
  bool complained_ = false;  // said once that the limit is reached; again after it was not

  int epoll_ = -1;
  int control_ = -1;  // an eventfd: something below changed
  std::atomic<bool> stop_listening_{false};
  std::atomic<bool> listening_{true};
  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> refused_{0};
  std::thread thread_;
};

}  // namespace softmax::server

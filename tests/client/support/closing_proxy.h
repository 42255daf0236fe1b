#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace softmax::client {

// Stands before a server, as a proxy of bytes, and closes connections as HTTP/2 lets a server close them, in the moment
// in which a call comes: what no test could time with a real server's limits.
class ClosingProxy {
 public:
  enum class Way {
    kGoAway,      // the call is beyond the last that is taken: it was not seen
    kRefuse,      // REFUSED_STREAM first, for the same; for the next call GOAWAY
    kGoAwaySeen,  // the call is the last that was taken, and is not answered
  };

  explicit ClosingProxy(const std::string& server);
  ~ClosingProxy();

  const std::string& address() const { return address_; }
  // The next `connections` connections end at their first call.
  void CloseNext(int connections, Way way) {
    way_ = way;
    left_ = connections;
  }
  // That have ended so.
  int closed() const { return closed_; }

 private:
  void Accept();
  void Serve(int client);
  void Close(int client);
  void Forward(int client) const;

  const std::string server_;
  std::string address_;
  int listener_ = -1;
  std::atomic<bool> stopping_ = false;
  std::atomic<Way> way_ = Way::kGoAway;
  std::atomic<int> left_ = 0;
  std::atomic<int> closed_ = 0;
  std::mutex mu_;
  std::vector<std::thread> connections_;  // guarded by mu_
  std::thread acceptor_;                  // last: runs from the end of construction
};

}  // namespace softmax::client

#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace softmax::testing {

// A name server on a free UDP port of this machine, for targets such as dns://127.0.0.1:PORT/softmax.test:50051.
// Thread-safe.
class NameServer {
 public:
  NameServer();
  ~NameServer();

  // "127.0.0.1:PORT".
  const std::string& address() const { return address_; }
  // The IPv4 addresses of the name from now on. None: there is no such name.
  void Set(const std::string& name, std::vector<std::string> addresses);
  // Questions for IPv4 addresses so far.
  int questions() const { return questions_; }

 private:
  void Run();
  std::string Answer(const std::string& question);

  int fd_ = -1;
  std::string address_;
  std::atomic<bool> stopping_ = false;
  std::atomic<int> questions_ = 0;
  std::mutex mu_;
  std::map<std::string, std::vector<std::string>> names_;  // guarded by mu_
  std::thread thread_;                                     // last: runs from the end of construction
};

}  // namespace softmax::testing

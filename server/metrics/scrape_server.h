#pragma once

#include <memory>
#include <string>

namespace prometheus {
class Collectable;
class Exposer;
}  // namespace prometheus

namespace softmax::server {

// Answers GET /metrics, and nothing else, on one address.
//
// An Exposer worker is bound to one connection until that has sent its request or ran into the time
// limit, so idle and half-sent connections are outlasted by many cheap workers and a short limit,
// not by a queue.
class ScrapeServer {
 public:
  ScrapeServer();
  ~ScrapeServer();

  // Empty: serving. Otherwise why not, naming the address.
  std::string Start(const std::string& address, const std::shared_ptr<prometheus::Collectable>& source);
  int port() const { return port_; }

 private:
  std::unique_ptr<prometheus::Exposer> exposer_;
  std::string host_;  // numeric, as bound
  int port_ = 0;
};

}  // namespace softmax::server

#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "server/metrics/scrape_connection.h"

namespace softmax::server {

// Answers GET and HEAD of /metrics, and what `pages` has beside it, on one address, from one thread. Connections that
// are idle, send slowly or do not read cost a descriptor, and none waits for another.
class ScrapeServer {
 public:
  ScrapeServer() = default;
  ~ScrapeServer();
  ScrapeServer(const ScrapeServer&) = delete;
  ScrapeServer& operator=(const ScrapeServer&) = delete;

  // `render` makes the text of /metrics, on the server's thread. Empty: serving. Otherwise why not, naming the address.
  std::string Start(const std::string& address, Render render, HttpPages pages = nullptr);
  int port() const { return port_; }

 private:
  std::thread thread_;
  std::vector<int> listeners_;
  int wake_ = -1;  // an eventfd: the thread is to end
  int port_ = 0;
};

}  // namespace softmax::server

#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

#include "server/metrics/metrics.h"

namespace softmax::server {

enum class TextFormat { kPrometheus, kOpenMetrics };
// Makes the text of /metrics.
using Render = std::function<std::string(TextFormat format)>;

// One connection of the scrape server: a request is read, answered, and the connection closed. Never blocks.
class ScrapeConnection {
 public:
  explicit ScrapeConnection(int fd);  // which it owns
  ~ScrapeConnection();
  ScrapeConnection(const ScrapeConnection&) = delete;
  ScrapeConnection& operator=(const ScrapeConnection&) = delete;

  int fd() const { return fd_; }
  short events() const;  // what to poll for
  // After poll has seen one of them.
  void Proceed(const Render& render, const HttpPages& pages);
  // It has its answer, or has taken too long.
  bool done() const;

 private:
  void Read(const Render& render, const HttpPages& pages);
  void Write();

  const int fd_;
  std::string request_;
  std::string answer_;  // empty: the request is not whole yet
  std::size_t sent_ = 0;
  bool ended_ = false;
  std::chrono::steady_clock::time_point give_up_;
};

// The answer to the head of a request, up to its empty line. `pages`: what there is beside /metrics; null: nothing.
std::string ScrapeAnswer(const std::string& head, const Render& render, const HttpPages& pages = nullptr);

}  // namespace softmax::server

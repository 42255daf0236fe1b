#include "server/metrics/scrape_connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "common/base/clock.h"
#include "server/metrics/open_metrics.h"

namespace softmax::server {
namespace {

constexpr std::size_t kMostRequestBytes = 16 << 10;
constexpr std::chrono::seconds kToAsk(5);
constexpr std::chrono::seconds kToRead(10);

std::string Answer(const char* status, const std::string& more_headers, const std::string& body, bool with_body) {
  const std::string head = std::string("HTTP/1.1 ") + status + "\r\n" + more_headers +
                           "Content-Length: " + std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n";
  return with_body ? head + body : head;
}

}  // namespace

std::string ScrapeAnswer(const std::string& head, const Render& render, const HttpPages& pages) {
  constexpr char kPlain[] = "Content-Type: text/plain; charset=utf-8\r\n";
  const std::string line = head.substr(0, head.find_first_of("\r\n"));
  const std::size_t space = line.find(' ');
  const std::size_t end = line.rfind(' ');
  if (space == std::string::npos || end == space || line.compare(end + 1, 7, "HTTP/1.") != 0) {
    return Answer("400 Bad Request", kPlain, "not an HTTP request\n", true);
  }
  const std::string method = line.substr(0, space);
  const std::string target = line.substr(space + 1, end - space - 1);
  const bool is_head = method == "HEAD";
  const std::string path = target.substr(0, target.find('?'));
  if (const std::optional<HttpPage> page = pages ? pages(method, path) : std::nullopt) {
    return Answer(page->status, std::string("Content-Type: ") + page->type + "\r\n", page->body, !is_head);
  }
  if (method != "GET" && !is_head) {
    return Answer("405 Method Not Allowed", std::string(kPlain) + "Allow: GET, HEAD\r\n", "want GET\n", true);
  }
  if (path != "/metrics") return Answer("404 Not Found", kPlain, "metrics are at /metrics\n", !is_head);
  const TextFormat format = WantsOpenMetrics(head) ? TextFormat::kOpenMetrics : TextFormat::kPrometheus;
  const char* const type = format == TextFormat::kOpenMetrics
                               ? "Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"
                               : "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n";
  return Answer("200 OK", type, render(format), !is_head);
}

ScrapeConnection::ScrapeConnection(int fd) : fd_(fd), give_up_(SteadyClock::now() + kToAsk) {}

ScrapeConnection::~ScrapeConnection() { close(fd_); }

short ScrapeConnection::events() const { return answer_.empty() ? POLLIN : POLLOUT; }

bool ScrapeConnection::done() const { return ended_ || SteadyClock::now() >= give_up_; }

void ScrapeConnection::Proceed(const Render& render, const HttpPages& pages) {
  if (answer_.empty()) Read(render, pages);
  if (!answer_.empty()) Write();
}

void ScrapeConnection::Read(const Render& render, const HttpPages& pages) {
  char block[4096];
  const ssize_t size = recv(fd_, block, sizeof(block), 0);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) {
    ended_ = true;
    return;
  }
  request_.append(block, static_cast<std::size_t>(size));
  // Lines may end in a bare line feed.
  const bool whole = request_.find("\r\n\r\n") != std::string::npos || request_.find("\n\n") != std::string::npos;
  if (!whole && request_.size() < kMostRequestBytes) return;
  answer_ = whole ? ScrapeAnswer(request_, render, pages) : ScrapeAnswer("", render);
  give_up_ = SteadyClock::now() + kToRead;
}

void ScrapeConnection::Write() {
  while (sent_ < answer_.size()) {
    const ssize_t size = send(fd_, answer_.data() + sent_, answer_.size() - sent_, MSG_NOSIGNAL);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (size < 0) break;
    sent_ += static_cast<std::size_t>(size);
  }
  ended_ = true;
}

}  // namespace softmax::server

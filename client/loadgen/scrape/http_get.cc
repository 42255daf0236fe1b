#include "client/loadgen/scrape/http_get.h"

#include <absl/cleanup/cleanup.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <netdb.h>
#include <poll.h>
#include <re2/re2.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "common/base/address.h"

namespace softmax::client {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kHeaderLimit = 64u << 10;

absl::Status SystemError(int error) { return absl::UnavailableError(std::strerror(error)); }

absl::Status WaitFor(int fd, short events, Clock::time_point deadline) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return absl::DeadlineExceededError("no answer in time");
    pollfd waiting{fd, events, 0};
    const int ready = poll(&waiting, 1, static_cast<int>(std::min<std::int64_t>(left, 3600'000)));
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) return SystemError(errno);
  }
}

// Sends the question, then takes all that comes until the other side closes: HTTP/1.0's end of an answer.
absl::StatusOr<std::string> Exchange(int fd, std::string_view question, std::size_t limit, Clock::time_point deadline) {
  std::string answer;
  std::array<char, 16384> piece;
  while (true) {
    const bool sends = !question.empty();
    if (absl::Status status = WaitFor(fd, sends ? POLLOUT : POLLIN, deadline); !status.ok()) return status;
    const ssize_t bytes =
        sends ? send(fd, question.data(), question.size(), MSG_NOSIGNAL) : recv(fd, piece.data(), piece.size(), 0);
    if (bytes < 0 && errno != EAGAIN && errno != EINTR) return SystemError(errno);  // of connecting, too
    if (bytes < 0) continue;
    if (sends) {
      question.remove_prefix(static_cast<std::size_t>(bytes));
      continue;
    }
    if (bytes == 0) return answer;
    answer.append(piece.data(), static_cast<std::size_t>(bytes));
    if (answer.size() > limit) return absl::ResourceExhaustedError(absl::StrCat("answers more than ", limit, " bytes"));
  }
}

absl::StatusOr<std::string> AskAt(const addrinfo& address, std::string_view question, std::size_t limit,
                                  Clock::time_point deadline) {
  const int fd = socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return SystemError(errno);
  const absl::Cleanup close_it = [fd] { close(fd); };
  if (connect(fd, address.ai_addr, address.ai_addrlen) != 0 && errno != EINPROGRESS) return SystemError(errno);
  return Exchange(fd, question, limit, deadline);
}

absl::Status Named(const HttpLocation& location, const absl::Status& status) {
  const bool v6 = location.host.find(':') != std::string::npos;
  const std::string host = v6 ? absl::StrCat("[", location.host, "]") : location.host;
  return {status.code(), absl::StrCat("http://", host, ":", location.port, location.path, ": ", status.message())};
}

// Of the first of its addresses that can be reached.
absl::StatusOr<std::string> Ask(const HttpLocation& location, const HttpLimits& limits) {
  const Clock::time_point deadline = Clock::now() + limits.timeout;
  const std::string question =
      absl::StrCat("GET ", location.path, " HTTP/1.0\r\nHost: ", location.host, ":", location.port,
                   "\r\nAccept: text/plain\r\nUser-Agent: softmax-loadgen\r\nConnection: close\r\n\r\n");
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int rc = getaddrinfo(location.host.c_str(), location.port.c_str(), &hints, &found); rc != 0) {
    return absl::UnavailableError(absl::StrCat("cannot be resolved: ", gai_strerror(rc)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  absl::StatusOr<std::string> answer = absl::UnavailableError("has no address");
  for (const addrinfo* at = found; at != nullptr && absl::IsUnavailable(answer.status()); at = at->ai_next) {
    answer = AskAt(*at, question, limits.body_bytes + kHeaderLimit, deadline);
  }
  if (!answer.ok()) return answer;
  return HttpBody(*std::move(answer), limits.body_bytes);
}

bool IsPrintable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return c > 0x20 && c < 0x7f; });
}

}  // namespace

absl::StatusOr<HttpLocation> ParseHttpLocation(std::string_view text, std::string_view default_path) {
  const auto bad = [&](const char* why) {
    return absl::InvalidArgumentError(absl::StrCat("metrics address \"", std::string(text), "\": ", why));
  };
  if (!IsPrintable(text)) return absl::InvalidArgumentError("metrics address: holds blanks or control characters");
  std::string_view rest = text;
  if (rest.starts_with("http://")) rest.remove_prefix(7);
  if (rest.find("://") != std::string_view::npos) return bad("only http is spoken");
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  const std::string_view path = slash < rest.size() ? rest.substr(slash) : default_path;
  rest = rest.substr(0, slash);
  const auto pieces = SplitHostPort(rest);
  if (!pieces) return bad("want host:port, such as localhost:9400");
  if (!pieces->in_brackets && pieces->host.find(':') != std::string_view::npos) {
    return bad("an IPv6 address stands in brackets, such as [::1]:9400");
  }
  const int port = ParsePort(pieces->port).value_or(0);
  if (port == 0) return bad("the port must be 1 to 65535");
  return HttpLocation{std::string(pieces->host), std::to_string(port), std::string(path)};
}

absl::StatusOr<std::string> HttpBody(std::string answer, std::size_t body_bytes) {
  const std::size_t end = answer.find("\r\n\r\n");
  if (!answer.starts_with("HTTP/1.") || end == std::string::npos || end < 12) {
    return absl::DataLossError("does not answer in HTTP");
  }
  const std::string head = answer.substr(0, end);
  if (head.compare(8, 4, " 200") != 0) {
    return absl::NotFoundError(absl::StrCat("answers ", head.substr(0, std::min<std::size_t>(head.find("\r\n"), 60))));
  }
  if (RE2::PartialMatch(head, "(?i)\\r\\ntransfer-encoding:")) {
    return absl::DataLossError("answers in a transfer encoding that was not asked for");
  }
  std::uint64_t length = 0;
  std::string digits;
  static const RE2 field(R"((?i)\r\ncontent-length:[ \t]*([^\r]*))", RE2::Latin1);
  const bool told = RE2::PartialMatch(head, field, &digits);
  if (told && !absl::SimpleAtoi(digits, &length)) return absl::DataLossError("answers with an invalid Content-Length");
  const std::size_t size = answer.size() - end - 4;
  if (told && size < length) {
    return absl::DataLossError(absl::StrCat("cut its answer short: ", size, " of ", length, " bytes"));
  }
  if (size > body_bytes) return absl::ResourceExhaustedError(absl::StrCat("answers more than ", body_bytes, " bytes"));
  answer.erase(0, end + 4);
  if (told) answer.resize(length);
  return answer;
}

absl::StatusOr<std::string> HttpGet(const HttpLocation& location, const HttpLimits& limits) {
  absl::StatusOr<std::string> body = Ask(location, limits);
  if (!body.ok()) return Named(location, body.status());
  return body;
}

}  // namespace softmax::client

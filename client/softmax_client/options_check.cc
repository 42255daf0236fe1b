#include "client/softmax_client/options_check.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/string_view.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace softmax::client {
namespace {

absl::Status Wrong(absl::string_view text) { return absl::InvalidArgumentError(text); }

// The first that is not OK.
absl::Status First(std::initializer_list<absl::Status> statuses) {
  const auto bad = std::find_if(statuses.begin(), statuses.end(), [](const absl::Status& of) { return !of.ok(); });
  return bad == statuses.end() ? absl::OkStatus() : *bad;
}

template <typename T>
absl::Status Within(absl::string_view field, T value, T least, T most, absl::string_view unit = "") {
  if (value >= least && value <= most) return absl::OkStatus();
  return Wrong(absl::StrCat(field, ": ", value, unit, ", must be ", least, " to ", most));
}

absl::Status Above0(absl::string_view field, std::chrono::nanoseconds time) {
  return time.count() > 0 ? absl::OkStatus() : Wrong(absl::StrCat(field, ": ", time.count(), " ns, must be above 0"));
}

absl::Status CheckRetry(const RetryOptions& retry) {
  const bool backs_off = retry.initial_backoff.count() >= 1 && retry.max_backoff >= retry.initial_backoff;
  const bool has_tokens = retry.max_tokens > 0 && retry.max_tokens <= 1e9;
  return First({
      Within("retry.max_attempts", retry.max_attempts, 1, 1000),
      backs_off ? absl::OkStatus()
                : Wrong(absl::StrCat("retry.initial_backoff: ", retry.initial_backoff.count(),
                                     " ms, must be at least 1 ms and at most max_backoff (", retry.max_backoff.count(),
                                     " ms)")),
      Within("retry.multiplier", retry.multiplier, 1.0, 100.0),
      has_tokens ? absl::OkStatus()
                 : Wrong(absl::StrCat("retry.max_tokens: ", retry.max_tokens, ", must be above 0, at most 1e9")),
      Within("retry.token_ratio", retry.token_ratio, 0.001, 1000.0),
  });
}

absl::Status CheckPem(absl::string_view field, absl::string_view text) {
  if (text.empty() || absl::StrContains(text, "-----BEGIN ")) {
    return absl::OkStatus();
  }
  return Wrong(absl::StrCat("tls.", field, ": is not PEM (it has no -----BEGIN line); pass the text, not a path"));
}

absl::Status CheckTls(const TlsOptions& tls) {
  const bool is_whole = tls.certificate_chain.empty() == tls.private_key.empty();
  return First({CheckPem("root_certificates", tls.root_certificates),
                CheckPem("certificate_chain", tls.certificate_chain), CheckPem("private_key", tls.private_key),
                is_whole ? absl::OkStatus()
                         : Wrong("tls: certificate_chain and private_key go together, and only one of them is set")});
}

bool IsVisible(char c) { return c > ' ' && c <= '~'; }

const char* KindOf(char c) {
  if (c == '\r') return "a carriage return";
  if (c == '\n') return "a line feed";
  if (c == ' ') return "a blank";
  const auto byte = static_cast<unsigned char>(c);
  return byte < ' ' || byte == 0x7f ? "a control character" : "not ASCII";
}

}  // namespace

absl::Status CheckHeaderText(std::string_view field, std::string_view text) {
  if (text.empty()) return absl::InvalidArgumentError(std::string(field) + ": is empty");
  const auto bad = std::find_if_not(text.begin(), text.end(), IsVisible);
  if (bad == text.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(std::string(field) + ": character " + std::to_string(bad - text.begin() + 1) +
                                    " is " + KindOf(*bad) + "; only visible ASCII characters can be sent");
}

absl::Status CheckTimeout(std::optional<std::chrono::nanoseconds> timeout) {
  return timeout ? Above0("timeout", *timeout) : absl::OkStatus();
}

absl::Status CheckStream(std::size_t max_in_flight, std::size_t max_requests_per_message,
                         std::optional<std::chrono::nanoseconds> timeout) {
  if (max_in_flight < 1 || max_requests_per_message < 1) {
    return Wrong("max_in_flight and max_requests_per_message must be at least 1");
  }
  return CheckTimeout(timeout);
}

absl::Status CheckOptions(const ClientOptions& options, const std::vector<Address>& addresses) {
  const bool is_private =
      options.tls || std::all_of(addresses.begin(), addresses.end(), [](const Address& a) { return a.is_local; });
  return First({
      Within("connections", options.connections, 1, 1024),
      Above0("deadline", options.deadline),
      Within<std::int64_t>("max_receive_bytes", options.max_receive_bytes.value_or(-1), -1, INT_MAX),
      Within<std::int64_t>("keepalive_time", options.keepalive_time.count(), 0, INT_MAX, " ms"),
      Within<std::int64_t>("keepalive_timeout", options.keepalive_timeout.count(), 0, INT_MAX, " ms"),
      options.bearer_token && !is_private
          ? Wrong("bearer_token: needs tls, or targets that are unix: sockets; in plain text anybody could read it")
          : absl::OkStatus(),
      options.authority.empty() ? absl::OkStatus() : CheckHeaderText("authority", options.authority),
      options.tls ? CheckTls(*options.tls) : absl::OkStatus(),
      CheckRetry(options.retry),
  });
}

}  // namespace softmax::client

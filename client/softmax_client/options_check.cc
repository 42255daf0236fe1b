#include "client/softmax_client/options_check.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/string_view.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <string>

namespace softmax::client {
namespace {

absl::Status Wrong(absl::string_view text) { return absl::InvalidArgumentError(text); }

absl::Status CheckRetry(const RetryOptions& retry) {
  if (retry.max_attempts < 1 || retry.max_attempts > 1000) {
    return Wrong(absl::StrCat("retry.max_attempts: ", retry.max_attempts, ", must be 1 to 1000"));
  }
  if (retry.initial_backoff.count() < 1 || retry.max_backoff < retry.initial_backoff) {
    return Wrong(absl::StrCat("retry.initial_backoff: ", retry.initial_backoff.count(),
                              " ms, must be at least 1 ms and at most max_backoff (", retry.max_backoff.count(),
                              " ms)"));
  }
  if (!(retry.multiplier >= 1 && retry.multiplier <= 100)) {
    return Wrong(absl::StrCat("retry.multiplier: ", retry.multiplier, ", must be 1 to 100"));
  }
  if (!(retry.max_tokens > 0 && retry.max_tokens <= 1e9)) {
    return Wrong(absl::StrCat("retry.max_tokens: ", retry.max_tokens, ", must be above 0, at most 1e9"));
  }
  if (!(retry.token_ratio >= 0.001 && retry.token_ratio <= 1000)) {
    return Wrong(absl::StrCat("retry.token_ratio: ", retry.token_ratio, ", must be 0.001 to 1000"));
  }
  return absl::OkStatus();
}

absl::Status CheckPem(absl::string_view field, absl::string_view text) {
  if (text.empty() || absl::StrContains(text, "-----BEGIN ")) {
    return absl::OkStatus();
  }
  return Wrong(absl::StrCat("tls.", field, ": is not PEM (it has no -----BEGIN line); pass the text, not a path"));
}

absl::Status CheckTls(const TlsOptions& tls) {
  for (const auto& [field, text] : {std::pair("root_certificates", absl::string_view(tls.root_certificates)),
                                    std::pair("certificate_chain", absl::string_view(tls.certificate_chain)),
                                    std::pair("private_key", absl::string_view(tls.private_key))}) {
    absl::Status status = CheckPem(field, text);
    if (!status.ok()) return status;
  }
  if (tls.certificate_chain.empty() != tls.private_key.empty()) {
    return Wrong("tls: certificate_chain and private_key go together, and only one of them is set");
  }
  return absl::OkStatus();
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
  if (!timeout || timeout->count() > 0) return absl::OkStatus();
  return Wrong(absl::StrCat("timeout: ", timeout->count(), " ns, must be above 0"));
}

absl::Status CheckStream(std::size_t max_in_flight, std::size_t max_requests_per_message,
                         std::optional<std::chrono::nanoseconds> timeout) {
  if (max_in_flight < 1 || max_requests_per_message < 1) {
    return Wrong("max_in_flight and max_requests_per_message must be at least 1");
  }
  return CheckTimeout(timeout);
}

absl::Status CheckOptions(const ClientOptions& options, const std::vector<Address>& addresses) {
  if (options.connections < 1 || options.connections > 1024) {
    return Wrong(absl::StrCat("connections: ", options.connections, ", must be 1 to 1024"));
  }
  if (options.deadline.count() <= 0) {
    return Wrong(absl::StrCat("deadline: ", options.deadline.count(), " ns, must be above 0"));
  }
  if (options.max_receive_bytes && (*options.max_receive_bytes < -1 || *options.max_receive_bytes > INT_MAX)) {
    return Wrong(absl::StrCat("max_receive_bytes: ", *options.max_receive_bytes, ", must be -1 to ", INT_MAX));
  }
  for (const auto& [field, time] : {std::pair("keepalive_time", options.keepalive_time),
                                    std::pair("keepalive_timeout", options.keepalive_timeout)}) {
    if (time.count() < 0 || time.count() > INT_MAX) {
      return Wrong(absl::StrCat(field, ": ", time.count(), " ms, must be 0 to ", INT_MAX));
    }
  }
  if (options.bearer_token && !options.tls &&
      !std::all_of(addresses.begin(), addresses.end(), [](const Address& a) { return a.is_local; })) {
    return Wrong("bearer_token: needs tls, or targets that are unix: sockets; in plain text anybody could read it");
  }
  if (!options.authority.empty()) {
    absl::Status status = CheckHeaderText("authority", options.authority);
    if (!status.ok()) return status;
  }
  if (options.tls) {
    absl::Status status = CheckTls(*options.tls);
    if (!status.ok()) return status;
  }
  return CheckRetry(options.retry);
}

}  // namespace softmax::client

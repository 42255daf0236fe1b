#include "client/softmax_client/failure.h"

#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/string_view.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>

#include "client/softmax_client/retry.h"
#include "client/softmax_client/target.h"

namespace softmax::client {
namespace {

// Which of a name's servers it was.
std::string ServerOf(const ConnectionPool& pool, const Ended& ended) {
  const std::string& address = pool.AddressOf(ended.connection);
  if (!absl::StartsWith(address, "dns:")) return address;
  const std::string peer = ended.context.peer();
  const bool known = absl::StartsWith(peer, "ipv4:") || absl::StartsWith(peer, "ipv6:");
  return known ? absl::StrCat(address, " (", peer, ")") : address;
}

// Where a call went astray, it may have been at the proxy.
std::string RouteOf(const ConnectionPool& pool, const Ended& ended) {
  std::string server = ServerOf(pool, ended);
  const grpc::StatusCode code = ended.status.error_code();
  if (code != grpc::StatusCode::UNAVAILABLE && code != grpc::StatusCode::DEADLINE_EXCEEDED) return server;
  const auto proxy = ProxyOf(pool.AddressOf(ended.connection));
  return proxy ? absl::StrCat(server, " (by the proxy ", proxy->address, " of ", proxy->variable, ")") : server;
}

bool Connected(const Ended& ended) { return ended.connection.channel->GetState(false) == GRPC_CHANNEL_READY; }

// Whole ones, where a fraction would say nothing.
std::string Milliseconds(std::chrono::nanoseconds time) {
  const double ms = std::chrono::duration<double, std::milli>(time).count();
  return ms < 10 ? absl::StrCat(ms) : absl::StrCat(std::llround(ms));
}

std::string OnDeadline(const Ended& ended, std::optional<std::chrono::nanoseconds> timeout) {
  // What the server says itself is more than we know.
  if (ended.status.error_message() != "Deadline Exceeded") return ended.status.error_message();
  const std::string within = timeout ? absl::StrCat(" within ", Milliseconds(*timeout), " ms") : "";
  if (!Connected(ended)) return absl::StrCat("deadline exceeded: no connection to the server", within);
  return absl::StrCat("deadline exceeded: no answer", within);
}

bool HasOneOf(absl::string_view text, std::initializer_list<absl::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(), [&](absl::string_view part) { return absl::StrContains(text, part); });
}

// Whether the connection ended before both sides had agreed on one. A server that speaks TLS 1.3 judges its client's
// certificate when the client takes the handshake for done; what it then says, gRPC only calls a failed read.
bool CutAtItsBeginning(const std::string& text) {
  return HasOneOf(text, {"failed to connect to all addresses", "connections to all backends failing"}) &&
         HasOneOf(text, {"Connection reset by peer", "Socket closed", "Broken pipe", "Endpoint read failed"});
}

std::string CertificateMatters(const Security& ours) {
  return ours.certificate ? "the server may not take this client's certificate"
                          : "the server may want a certificate of this client (it shows none)";
}

// All that may be behind a connection that is cut at its beginning: the client cannot tell which.
std::string MayBe(const Security& ours) {
  const std::string others = ", or may take no more connections";
  if (!ours.tls) return "the server may speak TLS there" + others;
  return CertificateMatters(ours) + ", may speak plain text there" + others;
}

std::string TextOf(const ConnectionPool& pool, const Ended& ended, std::optional<std::chrono::nanoseconds> timeout) {
  switch (ended.status.error_code()) {
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return OnDeadline(ended, timeout);
    case grpc::StatusCode::UNAVAILABLE:
      return WhyUnavailable(ended.status.error_message(), pool.security());
    default:
      return ended.status.error_message();
  }
}

}  // namespace

std::string WhyUnavailable(const std::string& text, const Security& ours) {
  // OpenSSL 1.1's and 3's words, and 3.0's and 3.5's for an authority of the right name with another key.
  if (HasOneOf(text, {"CERTIFICATE_VERIFY_FAILED", "certificate verify failed", "asn1 encoding routines::EVP lib",
                      "provider signature failure"})) {
    return absl::StrCat("the server's certificate is not trusted: ", text);
  }
  if (absl::StrContains(text, "is not in peer certificate")) {
    return absl::StrCat("the server's certificate is for another name: ", text);
  }
  if (HasOneOf(text, {"wrong version number", "WRONG_VERSION_NUMBER"})) {
    return absl::StrCat("TLS handshake failed: what listens there speaks plain text: ", text);
  }
  if (absl::StrContains(text, "Ssl handshake failed")) {
    // What the server said against it.
    const bool of_certificate = HasOneOf(text, {"alert handshake failure", "alert unknown ca", "alert bad certificate",
                                                "alert certificate", "certificate required"});
    return absl::StrCat("TLS handshake failed", of_certificate ? "; " + CertificateMatters(ours) : "", ": ", text);
  }
  if (absl::StrContains(text, "DNS resolution failed")) {
    const bool answered = HasOneOf(text, {"not found", "no data", "not known"});
    return absl::StrCat(answered ? "the name has no address: " : "the name could not be looked up: ", text);
  }
  if (HasOneOf(text, {"Connection refused", "No such file or directory"})) {
    return absl::StrCat("nobody listens there: ", text);
  }
  if (CutAtItsBeginning(text)) return absl::StrCat("cut off at once; ", MayBe(ours), ": ", text);
  if (absl::StrContains(text, "keepalive")) return absl::StrCat("the server has stopped replying: ", text);
  if (HasOneOf(text, {"Socket closed", "Connection reset by peer", "Broken pipe", "GOAWAY"})) {
    return absl::StrCat("the connection broke before the answer came: ", text);
  }
  return text;
}

bool IsUnseen(const grpc::Status& status) {
  if (status.error_code() != grpc::StatusCode::UNAVAILABLE) return false;
  // gRPC knows it, keeps it from its users where its own retries are off, and gives these messages to no other failure:
  // a stream beyond the last that a closing server takes, one on a connection that has closed, or that has used up its
  // streams' numbers; HTTP/2's REFUSED_STREAM; and what a gRPC server says of a call that comes in the moment in which
  // it closes the connection because it has none.
  for (const char* unseen : {"GOAWAY received", "Transport closed", "Stream IDs exhausted",
                             "Received RST_STREAM with error code 7", "enter idle"}) {
    if (status.error_message() == unseen) return true;
  }
  return false;
}

std::optional<std::int64_t> RetryAdviceIn(const grpc::ClientContext& context) {
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto found = trailers.find("grpc-retry-pushback-ms");
  if (found == trailers.end()) return std::nullopt;
  std::int64_t ms = 0;
  // gRFC A6: what is not a number means the same as a negative one.
  if (!absl::SimpleAtoi(absl::string_view(found->second.data(), found->second.size()), &ms)) return -1;
  return ms;
}

absl::Status Explain(const ConnectionPool& pool, const Ended& ended, std::optional<std::chrono::nanoseconds> timeout) {
  if (ended.status.ok()) return absl::OkStatus();
  absl::Status status(static_cast<absl::StatusCode>(ended.status.error_code()),
                      absl::StrCat(RouteOf(pool, ended), ": ", TextOf(pool, ended, timeout)));
  if (const auto advice = RetryAdviceIn(ended.context)) SetRetryAdvice(*advice, &status);
  if (IsUnseen(ended.status)) SetUnseen(&status);
  return status;
}

}  // namespace softmax::client

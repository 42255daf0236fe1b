#include "client/cli/health.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <utility>

#include "client/base/program.h"
#include "client/softmax_client/channel.h"
#include "client/softmax_client/failure.h"
#include "client/softmax_client/options_check.h"
#include "client/softmax_client/target.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace softmax::client {
namespace {

using Clock = std::chrono::steady_clock;
using grpc::health::v1::HealthCheckResponse;

constexpr std::chrono::milliseconds kPause(50);
// A server that cannot be reached is told of after so long, not only at the end of the wait.
constexpr std::chrono::milliseconds kSilence(500);

struct Verdict {
  int exit_code = 3;
  std::string text;
  bool answered = false;  // the text is the server's
};

using Stub = grpc::health::v1::Health::Stub;

Verdict Ask(Stub& stub, const CliOptions& options, std::chrono::nanoseconds timeout) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + timeout);
  // Not set_wait_for_ready, which keeps the reason to itself: who waits asks again.
  if (!options.security.token.empty()) context.AddMetadata("authorization", "Bearer " + options.security.token);
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(options.service);
  HealthCheckResponse response;
  const grpc::Status status = stub.Check(&context, request, &response);
  if (status.ok()) {
    const bool serving = response.status() == HealthCheckResponse::SERVING;
    return {serving ? 0 : 1, HealthCheckResponse::ServingStatus_Name(response.status()), true};
  }
  const bool unreachable = status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                           status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
  const bool unavailable = status.error_code() == grpc::StatusCode::UNAVAILABLE;
  return {unreachable ? 3 : 1, unavailable ? WhyUnavailable(status.error_message(), SecurityOf(options.security.tls))
                                           : status.error_message()};
}

// Asks until the server is serving or the time to wait for it is over.
Verdict AskUntil(Clock::time_point until, const Address& address, const CliOptions& options) {
  ChannelSettings settings;
  if (options.security.tls) settings.credentials = MakeCredentials(*options.security.tls);
  settings.authority = options.security.authority;
  settings.no_proxy = true;  // whether a server is well is not for a proxy to say
  const auto connect = [&] { return Connection{CreateChannel(address.target, settings), 0, Clock::now()}; };
  Connection connection = connect();
  const auto begin = Clock::now();
  bool told = false;
  for (;;) {
    const std::chrono::nanoseconds left = until - Clock::now();
    const std::chrono::nanoseconds longest =
        told ? options.timeout : std::min<std::chrono::nanoseconds>(options.timeout, kSilence);
    const auto timeout = options.wait.count() > 0 ? std::max<std::chrono::nanoseconds>(kPause, std::min(left, longest))
                                                  : options.timeout;
    Verdict verdict = Ask(*grpc::health::v1::Health::NewStub(connection.channel), options, timeout);
    if (verdict.exit_code == 0 || Clock::now() >= until) return verdict;
    if (verdict.exit_code == 3 && Clock::now() - begin >= kSilence && !std::exchange(told, true)) {
      Say("waiting for " + address.target + ": " + verdict.text);
    }
    if (IsLost(connection, address)) connection = connect();
    PauseInGrpc(kPause, {});
  }
}

}  // namespace

int CheckHealth(const CliOptions& options) {
  const auto addresses = ParseTarget(options.address);
  const absl::Status status = addresses.ok() ? CheckOptions(ForClient(options), *addresses) : addresses.status();
  if (!status.ok()) {
    Say(std::string(status.message()));
    return 2;
  }
  const auto until = Clock::now() + options.wait;
  int exit_code = 0;
  for (const Address& address : *addresses) {
    const Verdict verdict = AskUntil(until, address, options);
    const bool good = verdict.exit_code == 0;
    // One server's own word stands alone, for scripts.
    const std::string which = verdict.answered && addresses->size() == 1 ? "" : address.target + ": ";
    std::fprintf(good ? stdout : stderr, "%s\n", Visible(which + verdict.text).c_str());
    exit_code = std::max(exit_code, verdict.exit_code);
  }
  return exit_code;
}

}  // namespace softmax::client

#include "client/cli/health.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "client/softmax_client/channel.h"
#include "client/softmax_client/target.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace softmax::client {
namespace {

using Clock = std::chrono::steady_clock;
using grpc::health::v1::HealthCheckResponse;

constexpr std::chrono::milliseconds kPause(50);

struct Verdict {
  int exit_code = 3;
  std::string text;
};

Verdict Ask(grpc::health::v1::Health::Stub& stub, const CliOptions& options, std::chrono::nanoseconds timeout) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::duration_cast<std::chrono::system_clock::duration>(timeout));
  context.set_wait_for_ready(options.wait.count() > 0);
  if (!options.token.empty()) context.AddMetadata("authorization", "Bearer " + options.token);
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(options.service);
  HealthCheckResponse response;
  const grpc::Status status = stub.Check(&context, request, &response);
  if (status.ok()) {
    const bool serving = response.status() == HealthCheckResponse::SERVING;
    return {serving ? 0 : 1, HealthCheckResponse::ServingStatus_Name(response.status())};
  }
  const bool unreachable = status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                           status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
  return {unreachable ? 3 : 1, options.address + ": " + status.error_message()};
}

}  // namespace

int CheckHealth(const CliOptions& options) {
  const auto addresses = ParseTarget(options.address);
  if (!addresses.ok() || addresses->size() > 1) {
    const std::string why = addresses.ok() ? "--health asks one server, and --address names several"
                                           : std::string(addresses.status().message());
    std::fprintf(stderr, "softmax-client: %s\n", why.c_str());
    return 2;
  }
  ChannelSettings settings;
  if (options.tls) settings.credentials = MakeCredentials(*options.tls);
  settings.authority = options.authority;
  const auto channel = CreateChannel(options.address, settings);
  const auto stub = grpc::health::v1::Health::NewStub(channel);
  const auto until = Clock::now() + options.wait;
  for (;;) {
    const std::chrono::nanoseconds left = until - Clock::now();
    const auto timeout = options.wait.count() > 0 ? std::clamp<std::chrono::nanoseconds>(left, kPause, options.timeout)
                                                  : options.timeout;
    const Verdict verdict = Ask(*stub, options, timeout);
    if (verdict.exit_code == 0 || Clock::now() >= until) {
      std::fprintf(verdict.exit_code == 0 ? stdout : stderr, "%s\n", verdict.text.c_str());
      return verdict.exit_code;
    }
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace softmax::client

#pragma once

#include <absl/status/statusor.h>

#include <chrono>
#include <map>
#include <string>

#include "server/config/config.h"

namespace softmax::server {

// Where spans go and what they say of this server: --trace-endpoint and --trace-ratio, and OpenTelemetry's own
// variables, OTEL_EXPORTER_OTLP_... (each also as OTEL_EXPORTER_OTLP_TRACES_..., which goes first), OTEL_SERVICE_NAME
// and OTEL_RESOURCE_ATTRIBUTES.
struct TraceSettings {
  using Pairs = std::map<std::string, std::string>;

  std::string target;  // host:port; empty: no spans are sent
  bool tls = false;
  std::string certificate;                    // file of whom to trust; empty: the machine's own list
  Pairs headers;                              // of every call to it
  std::chrono::milliseconds timeout{10'000};  // of a call
  double ratio = 0;                           // of requests without a traceparent
  Pairs resource;                             // attributes, service.name among them
};

// INVALID_ARGUMENT naming flag or variable, and value.
absl::StatusOr<TraceSettings> TraceSettingsOf(const Config& config);

}  // namespace softmax::server

#include "server/config/trace_settings.h"

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <absl/strings/string_view.h>
#include <absl/strings/strip.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "common/base/address.h"
#include "common/base/safe_text.h"

namespace softmax::server {
namespace {

constexpr char kWantPairs[] = "want key=value,key=value with values percent-encoded";

// Where a value was found, for errors.
struct Found {
  std::string name;
  std::string value;
  absl::Status Wrong(absl::string_view why) const {
    return absl::InvalidArgumentError(absl::StrCat(name, "=", value, ": ", why));
  }
};

// An empty variable is none, as OpenTelemetry has it.
std::optional<Found> Variable(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  if (value == nullptr || *value == 0) return std::nullopt;
  return Found{name, value};
}

std::optional<Found> OfExporter(const std::string& name) {
  auto of_traces = Variable("OTEL_EXPORTER_OTLP_TRACES_" + name);
  return of_traces ? of_traces : Variable("OTEL_EXPORTER_OTLP_" + name);
}

absl::Status ReadEndpoint(const Found& found, TraceSettings* settings) {
  absl::string_view text = found.value;
  settings->tls = absl::ConsumePrefix(&text, "https://");
  const bool has_scheme = settings->tls || absl::ConsumePrefix(&text, "http://");
  absl::ConsumeSuffix(&text, "/");
  const bool has_port = absl::StrContains(text.substr(text.rfind(']') + 1), ':');  // a "]" of [::1], or none
  settings->target = has_port ? std::string(text) : absl::StrCat(text, ":4317");
  const auto address = SplitHostPort(settings->target);
  const bool ok = has_scheme && address && ParsePort(address->port).value_or(0) > 0 &&
                  address->host.find_first_of("/@? ") == std::string_view::npos;
  return ok ? absl::OkStatus()
            : found.Wrong("want http://host:port or https://host:port (of OTLP over gRPC; port 4317 if none)");
}

std::optional<std::string> PercentDecoded(absl::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned byte = static_cast<unsigned char>(text[i]);
    if (byte == '%') {
      if (i + 2 >= text.size() || !absl::SimpleHexAtoi(text.substr(i + 1, 2), &byte)) return std::nullopt;
      i += 2;
    }
    decoded += static_cast<char>(byte);
  }
  return decoded;
}

// "a=1,b=2", values percent-encoded. False: it is not like that.
bool ReadPairs(const Found& found, TraceSettings::Pairs* pairs) {
  for (const absl::string_view pair : absl::StrSplit(found.value, ',', absl::SkipWhitespace())) {
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(pair, absl::MaxSplits('=', 1));
    const std::string key(absl::StripAsciiWhitespace(parts.first));
    const auto value = PercentDecoded(absl::StripAsciiWhitespace(parts.second));
    if (!absl::StrContains(pair, '=') || key.empty() || !value || !IsUtf8(*value)) return false;
    (*pairs)[key] = *value;
  }
  return true;
}

// As gRPC takes them. Their values are secrets: none is shown.
absl::Status ReadHeaders(const Found& found, TraceSettings::Pairs* headers) {
  constexpr char kOfKeys[] = "abcdefghijklmnopqrstuvwxyz0123456789-_.";
  TraceSettings::Pairs pairs;
  if (!ReadPairs(found, &pairs)) return absl::InvalidArgumentError(found.name + ": " + kWantPairs);
  for (const auto& [name, value] : pairs) {
    const std::string key = absl::AsciiStrToLower(name);
    const bool is_ascii = std::all_of(value.begin(), value.end(), [](char c) { return c >= ' ' && c <= '~'; });
    if (!is_ascii || key.find_first_not_of(kOfKeys) != key.npos || absl::EndsWith(key, "-bin") ||
        absl::StartsWith(key, "grpc-")) {
      return absl::InvalidArgumentError(absl::StrCat(found.name, ": ", key, " is no header of visible ASCII"));
    }
    headers->emplace(key, value);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TraceSettings> TraceSettingsOf(const Config& config) {
  TraceSettings settings;
  if (!absl::SimpleAtod(config.trace_ratio, &settings.ratio) || !(settings.ratio >= 0 && settings.ratio <= 1)) {
    return Found{"--trace-ratio", config.trace_ratio}.Wrong("want a number from 0 to 1");
  }
  const auto endpoint =
      config.trace_endpoint == "auto" ? OfExporter("ENDPOINT") : Found{"--trace-endpoint", config.trace_endpoint};
  if (!endpoint || !IsSet(endpoint->value)) {
    if (settings.ratio == 0) return settings;
    return Found{"--trace-ratio", config.trace_ratio}.Wrong("needs --trace-endpoint or OTEL_EXPORTER_OTLP_ENDPOINT");
  }
  if (absl::Status status = ReadEndpoint(*endpoint, &settings); !status.ok()) return status;
  const auto protocol = OfExporter("PROTOCOL");
  if (protocol && protocol->value != "grpc" && endpoint->name != "--trace-endpoint") {
    return protocol->Wrong("spans are sent by grpc only; --trace-endpoint may name another endpoint, or none");
  }
  if (const auto headers = OfExporter("HEADERS")) {
    if (absl::Status status = ReadHeaders(*headers, &settings.headers); !status.ok()) return status;
  }
  if (const auto timeout = OfExporter("TIMEOUT")) {
    std::int64_t ms = 0;
    if (!absl::SimpleAtoi(timeout->value, &ms) || ms < 1 || ms > 3'600'000) {
      return timeout->Wrong("want milliseconds from 1 to 3600000");
    }
    settings.timeout = std::chrono::milliseconds(ms);
  }
  if (const auto certificate = OfExporter("CERTIFICATE")) settings.certificate = certificate->value;
  const auto attributes = Variable("OTEL_RESOURCE_ATTRIBUTES");
  if (attributes && !ReadPairs(*attributes, &settings.resource)) return attributes->Wrong(kWantPairs);
  const auto name = Variable("OTEL_SERVICE_NAME");
  if (name && !IsUtf8(name->value)) return absl::InvalidArgumentError("OTEL_SERVICE_NAME is not UTF-8");
  if (name) settings.resource["service.name"] = name->value;
  settings.resource.emplace("service.name", "softmax-server");  // unless it has one
  return settings;
}

}  // namespace softmax::server

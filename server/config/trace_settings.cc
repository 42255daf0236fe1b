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
#include "server/config/security_check.h"

namespace softmax::server {
namespace {

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

std::optional<Found> Endpoint(const Config& config) {
  if (config.trace_endpoint != "auto") return Found{"--trace-endpoint", config.trace_endpoint};
  return OfExporter("ENDPOINT");
}

absl::Status ReadEndpoint(const Found& found, TraceSettings* settings) {
  constexpr absl::string_view kWant =
      "want http://host:port or https://host:port (of OTLP over gRPC; port 4317 if none)";
  absl::string_view text = found.value;
  settings->tls = absl::ConsumePrefix(&text, "https://");
  if (!settings->tls && !absl::ConsumePrefix(&text, "http://")) return found.Wrong(kWant);
  absl::ConsumeSuffix(&text, "/");
  const bool has_port = text.find(':', text.find(']') == text.npos ? 0 : text.find(']')) != text.npos;
  settings->target = has_port ? std::string(text) : absl::StrCat(text, ":4317");
  const auto address = SplitHostPort(settings->target);
  const bool ok = address && ParsePort(address->port).value_or(0) > 0 &&
                  address->host.find_first_of("/@? ") == std::string_view::npos;
  return ok ? absl::OkStatus() : found.Wrong(kWant);
}

std::optional<std::string> PercentDecoded(absl::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned byte = 0;
    if (text[i] != '%') {
      decoded += text[i];
    } else if (i + 2 < text.size() && absl::SimpleHexAtoi(text.substr(i + 1, 2), &byte)) {
      decoded += static_cast<char>(byte);
      i += 2;
    } else {
      return std::nullopt;
    }
  }
  return decoded;
}

// "a=1,b=2", values percent-encoded.
absl::StatusOr<TraceSettings::Pairs> PairsOf(const Found& found) {
  TraceSettings::Pairs pairs;
  for (const absl::string_view pair : absl::StrSplit(found.value, ',', absl::SkipWhitespace())) {
    const std::size_t equals = pair.find('=');
    const auto value = PercentDecoded(absl::StripAsciiWhitespace(pair.substr(std::min(equals, pair.size() - 1) + 1)));
    const absl::string_view key = absl::StripAsciiWhitespace(pair.substr(0, equals));
    if (equals == absl::string_view::npos || key.empty() || !value || !IsUtf8(*value)) {
      return found.Wrong("want key=value,key=value with values percent-encoded");
    }
    pairs.emplace_back(key, *value);
  }
  return pairs;
}

// As gRPC takes them. Their values are secrets: none is shown.
absl::Status CheckHeaders(const std::string& name, TraceSettings::Pairs* headers) {
  for (auto& [key, value] : *headers) {
    absl::AsciiStrToLower(&key);
    const bool key_is_ok = std::all_of(
        key.begin(), key.end(), [](char c) { return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.'; });
    const bool value_is_ok = std::all_of(value.begin(), value.end(), [](char c) { return c >= ' ' && c <= '~'; });
    if (!key_is_ok || !value_is_ok || absl::EndsWith(key, "-bin") || absl::StartsWith(key, "grpc-")) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": ", key, " is no header of visible ASCII"));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadResource(TraceSettings* settings) {
  if (const auto found = Variable("OTEL_RESOURCE_ATTRIBUTES")) {
    auto pairs = PairsOf(*found);
    if (!pairs.ok()) return pairs.status();
    settings->resource = *std::move(pairs);
  }
  const auto name = Variable("OTEL_SERVICE_NAME");
  if (name && !IsUtf8(name->value)) return absl::InvalidArgumentError("OTEL_SERVICE_NAME is not UTF-8");
  const auto is_name = [](const auto& pair) { return pair.first == "service.name"; };
  auto& resource = settings->resource;
  if (name) resource.erase(std::remove_if(resource.begin(), resource.end(), is_name), resource.end());
  if (std::none_of(resource.begin(), resource.end(), is_name)) {
    resource.emplace_back("service.name", name ? name->value : "softmax-server");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TraceSettings> TraceSettingsOf(const Config& config) {
  TraceSettings settings;
  if (!absl::SimpleAtod(config.trace_ratio, &settings.ratio) || !(settings.ratio >= 0 && settings.ratio <= 1)) {
    return Found{"--trace-ratio", config.trace_ratio}.Wrong("want a number from 0 to 1");
  }
  const auto endpoint = Endpoint(config);
  if (!endpoint || !IsSet(endpoint->value)) {
    if (settings.ratio == 0) return settings;
    return Found{"--trace-ratio", config.trace_ratio}.Wrong("needs --trace-endpoint or OTEL_EXPORTER_OTLP_ENDPOINT");
  }
  if (absl::Status status = ReadEndpoint(*endpoint, &settings); !status.ok()) return status;
  if (const auto protocol = OfExporter("PROTOCOL");
      protocol && protocol->value != "grpc" && endpoint->name != "--trace-endpoint") {
    return protocol->Wrong("spans are sent by grpc only; --trace-endpoint may name another endpoint, or none");
  }
  if (const auto headers = OfExporter("HEADERS")) {
    auto pairs = PairsOf(*headers);
    if (!pairs.ok()) return absl::InvalidArgumentError(headers->name + ": want key=value,key=value, percent-encoded");
    settings.headers = *std::move(pairs);
    if (absl::Status status = CheckHeaders(headers->name, &settings.headers); !status.ok()) return status;
  }
  if (const auto timeout = OfExporter("TIMEOUT")) {
    std::int64_t ms = 0;
    if (!absl::SimpleAtoi(timeout->value, &ms) || ms < 1 || ms > 3'600'000) {
      return timeout->Wrong("want milliseconds from 1 to 3600000");
    }
    settings.timeout = std::chrono::milliseconds(ms);
  }
  if (const auto certificate = OfExporter("CERTIFICATE")) settings.certificate = certificate->value;
  if (absl::Status status = ReadResource(&settings); !status.ok()) return status;
  return settings;
}

}  // namespace softmax::server

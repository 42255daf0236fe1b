// What the library tells: errors, the server's description, counts; and regions.

#include <absl/strings/escaping.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "client/c/parts.h"

namespace softmax::client::c {

std::int32_t Told(const absl::Status& status, softmax_error** error) {
  if (!status.ok() && error != nullptr) *error = new softmax_error{status, std::string(status.message())};
  return static_cast<std::int32_t>(status.code());
}

namespace {

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char letter : text) {
    if (static_cast<unsigned char>(letter) < 0x20) {
      absl::StrAppend(&quoted, "\\u", absl::Hex(letter, absl::kZeroPad4));
    } else {
      if (letter == '"' || letter == '\\') quoted += '\\';
      quoted += letter;
    }
  }
  return quoted + "\"";
}

template <typename List>
std::string ListOf(const List& texts) {
  return absl::StrCat("[", absl::StrJoin(texts, ",", [](std::string* out, const auto& text) { *out += Quoted(text); }),
                      "]");
}

template <typename List>
std::string NamesOf(const List& values) {
  return absl::StrCat(
      "[", absl::StrJoin(values, ",", [](std::string* out, auto value) { *out += Quoted(NameOf(value)); }), "]");
}

const char* Boolean(bool value) { return value ? "true" : "false"; }

std::string JsonOf(const std::optional<RegionLimits>& regions) {
  if (!regions) return "null";
  return absl::StrCat("{\"socket\":", Quoted(regions->socket), ",\"max_bytes\":", regions->max_bytes,
                      ",\"max_bytes_per_connection\":", regions->max_bytes_per_connection,
                      ",\"max_device_bytes\":", regions->max_device_bytes,
                      ",\"max_device_bytes_per_connection\":", regions->max_device_bytes_per_connection,
                      ",\"max_tensor_bytes\":", regions->max_tensor_bytes, "}");
}

std::string JsonOf(const ServerInfo& info) {
  const ServerLimits& limits = info.limits;
  return absl::StrCat(
      "{\"regions\":", JsonOf(info.regions), ",\"version\":", Quoted(info.version), ",\"build\":", Quoted(info.build),
      ",\"backend\":", Quoted(info.backend), ",\"devices\":", ListOf(info.devices),
      ",\"dtypes\":", NamesOf(info.dtypes), ",\"operations\":", NamesOf(info.operations),
      ",\"max_request_bytes\":", limits.max_request_bytes, ",\"max_response_bytes\":", limits.max_response_bytes,
      ",\"max_rank\":", limits.max_rank, ",\"max_rows\":", limits.max_rows, ",\"max_columns\":", limits.max_columns,
      ",\"max_top_k\":", limits.max_top_k,
      ",\"max_requests_per_stream_message\":", limits.max_requests_per_stream_message,
      ",\"max_in_flight_per_stream\":", limits.max_in_flight_per_stream, ",\"degraded\":", Boolean(info.degraded),
      ",\"lost_devices\":", ListOf(info.lost_devices), ",\"unsafe_testing\":", Boolean(info.unsafe_testing), "}");
}

std::string JsonOf(const ClientStats& stats) {
  return absl::StrCat("{\"calls\":", stats.calls, ",\"attempts\":", stats.attempts, ",\"retries\":", stats.retries,
                      ",\"throttled\":", stats.throttled, ",\"calls_by_code\":[",
                      absl::StrJoin(stats.calls_by_code, ","), "],\"attempts_by_code\":[",
                      absl::StrJoin(stats.attempts_by_code, ","), "]}");
}

}  // namespace
}  // namespace softmax::client::c

using softmax::client::c::Entering;
using softmax::client::c::Guarded;

std::int32_t softmax_server_info(softmax_client* client, char** json, softmax_error** error) {
  return Entering(*client, error, [&]() -> absl::Status {
    const auto info = client->client->GetServerInfo();
    if (info.ok()) *json = strdup(softmax::client::c::JsonOf(*info).c_str());
    return info.status();
  });
}

std::int32_t softmax_stats(softmax_client* client, char** json, softmax_error** error) {
  return Entering(*client, error, [&]() -> absl::Status {
    *json = strdup(softmax::client::c::JsonOf(client->client->Stats()).c_str());
    return absl::OkStatus();
  });
}

struct softmax_region {
  softmax::client::Region region;
};

std::int32_t softmax_region_allocate(softmax_client* client, std::uint64_t bytes, std::int64_t device,
                                     softmax_region** region, softmax_error** error) {
  return Entering(*client, error, [&]() -> absl::Status {
    if (device < SOFTMAX_ANY_DEVICE || device > UINT32_MAX) {
      return absl::InvalidArgumentError(absl::StrCat("device: ", device, ", must be -2 to 4294967295"));
    }
    std::optional<std::uint32_t> number;
    if (device >= 0) number = static_cast<std::uint32_t>(device);
    using softmax::client::Memory;
    auto made = client->client->AllocateRegion(bytes, device == SOFTMAX_HOST ? Memory::kHost : Memory::kDevice, number);
    if (!made.ok()) return made.status();
    *region = new softmax_region{*std::move(made)};
    return absl::OkStatus();
  });
}

void* softmax_region_data(const softmax_region* region) { return region->region.data(); }
std::uint64_t softmax_region_size(const softmax_region* region) { return region->region.size(); }
std::int32_t softmax_region_cuda_device(const softmax_region* region) { return region->region.cuda_device(); }

std::int32_t softmax_region_write(const softmax_region* region, std::uint64_t offset, const void* from,
                                  std::uint64_t bytes, softmax_error** error) {
  return Guarded(error, [&] { return region->region.Write(offset, {static_cast<const std::byte*>(from), bytes}); });
}

std::int32_t softmax_region_read(const softmax_region* region, std::uint64_t offset, void* to, std::uint64_t bytes,
                                 softmax_error** error) {
  return Guarded(error, [&] { return region->region.Read(offset, {static_cast<std::byte*>(to), bytes}); });
}

void softmax_region_free(softmax_region* region) { delete region; }

std::int32_t softmax_in_region(softmax_client* client, const void* data, std::uint64_t bytes) {
  bool is_inside = false;
  Entering(*client, nullptr, [&] {
    is_inside = client->client->IsInRegion({static_cast<const std::byte*>(data), bytes});
    return absl::OkStatus();
  });
  return is_inside ? 1 : 0;
}

std::int32_t softmax_error_code(const softmax_error* error) { return static_cast<std::int32_t>(error->status.code()); }
const char* softmax_error_message(const softmax_error* error) { return error->message.c_str(); }
std::int64_t softmax_error_retry_after_ms(const softmax_error* error) {
  const auto advised = softmax::client::RetryAfter(error->status);
  return advised ? advised->count() : -1;
}
void softmax_error_free(softmax_error* error) { delete error; }
void softmax_free(void* memory) { std::free(memory); }

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_replace.h>

#include <algorithm>
#include <sstream>
#include <string_view>
#include <type_traits>

#include "server/config/config.h"
#include "server/config/values.h"

#ifndef SOFTMAX_VERSION
#error "the build defines SOFTMAX_VERSION and SOFTMAX_COMMIT"
#endif

namespace softmax::server {
namespace {

// TOML as the config file has it, under a comment per group.
class Printer {
 public:
  template <typename Field, typename... What>
  void operator()(FieldText text, const Field& field, const What&... what) {
    if (IsTesting(text)) return;
    if (group_ != text.group) {
      out_ << (group_.empty() ? "" : "\n") << "# " << text.group << "\n";
      group_ = text.group;
    }
    out_ << text.name << " = " << Shown(field, what...) << "\n";
  }

  std::string text() const { return out_.str(); }

 private:
  static std::string Quote(const std::string& text) { return '"' + text + '"'; }

  static std::string Shown(const std::vector<std::string>& addresses) {
    const auto quote = [](std::string* out, const std::string& address) { *out += Quote(address); };
    return "[" + absl::StrJoin(addresses, ", ", quote) + "]";
  }
  static std::string Shown(const std::string& address) { return Quote(address); }
  static std::string Shown(const std::string& word, const Word&) { return Quote(word); }
  static std::string Shown(const std::string& choice, const Choices&) { return Quote(choice); }
  static std::string Shown(Backend backend) { return Quote(BackendName(backend)); }
  static std::string Shown(const std::vector<std::uint32_t>& ordinals) {
    return ordinals.empty() ? Quote("all") : "[" + FormatOrdinals(ordinals) + "]";
  }
  static std::string Shown(std::uint64_t count, CountRange) { return std::to_string(count); }
  static std::string Shown(std::uint64_t bytes, SizeInBytes) { return Quote(FormatBytes(bytes)); }
  static std::string Shown(Config::Duration duration) { return Quote(FormatDuration(duration)); }
  static std::string Shown(bool is_on) { return is_on ? "true" : "false"; }

  std::ostringstream out_;
  std::string group_;
};

// Of the fields that are numbers.
struct SettingCollector {
  template <typename Field, typename... What>
  void operator()(FieldText text, const Field& field, const What&...) {
    if constexpr (std::is_same_v<Field, Config::Duration>) {
      Add(text, "_seconds", std::chrono::duration<double>(field).count());
    } else if constexpr (std::is_arithmetic_v<Field>) {
      Add(text, (std::is_same_v<What, SizeInBytes> || ...) ? "_bytes" : "", static_cast<double>(field));
    }
  }

  // memory-quota becomes memory_quota_bytes.
  void Add(FieldText text, std::string_view unit, double value) {
    std::string name = absl::StrReplaceAll(text.name, {{"-", "_"}});
    if (name.find(unit) == std::string::npos) name += unit;
    settings.emplace_back(std::move(name), value);
  }

  std::vector<std::pair<std::string, double>> settings;
};

}  // namespace

std::string PrintConfig(const Config& config) {
  Printer printer;
  VisitConfig(config, printer);
  return printer.text();
}

std::vector<std::pair<std::string, double>> ConfigSettings(const Config& config) {
  SettingCollector collector;
  VisitConfig(config, collector);
  return std::move(collector.settings);
}

std::uint64_t EffectiveThreads(const Config& config, unsigned cores) {
  return config.threads > 0 ? config.threads : QueuesFor(cores);
}

std::uint64_t EffectiveCpuThreads(const Config& config, unsigned cores) {
  return config.cpu_threads > 0 ? config.cpu_threads : std::max<std::uint64_t>(cores, 1);
}

std::uint64_t EffectiveInFlightBytes(const Config& config) {
  if (config.max_in_flight_bytes_per_connection > 0) return config.max_in_flight_bytes_per_connection;
  return std::max(config.memory_quota / 8, 2 * config.max_request_bytes);
}

std::uint64_t EffectiveRegionBytes(const Config& config) {
  return config.regions_connection_bytes > 0 ? config.regions_connection_bytes : config.regions_bytes / 2;
}

std::uint64_t EffectiveRegionDeviceBytes(const Config& config) {
  return config.regions_device_connection_bytes > 0 ? config.regions_device_connection_bytes
                                                    : config.regions_device_bytes / 2;
}

std::uint64_t EffectiveFillerThreads(const Config& config, unsigned cores) {
  return config.filler_threads > 0 ? config.filler_threads : std::max<std::uint64_t>(cores / 4, 1);
}

std::string DescribeThreads(const Config& config, const UsableCores& cores) {
  return absl::StrCat("threads ", EffectiveThreads(config, cores.count), ", cpu-threads ",
                      EffectiveCpuThreads(config, cores.count), ", filler-threads ",
                      EffectiveFillerThreads(config, cores.count), " for ", cores.why);
}

std::string BackendName(Backend backend) {
  constexpr const char* kNames[] = {"auto", "cuda", "cpu", "null"};
  return kNames[static_cast<std::size_t>(backend)];
}

const char* Version() { return SOFTMAX_VERSION; }

const char* Commit() { return SOFTMAX_COMMIT; }

}  // namespace softmax::server

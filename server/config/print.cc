#include "server/config/print.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <sstream>

#include "server/config/values.h"

#ifndef SOFTMAX_VERSION
#error "the build defines SOFTMAX_VERSION and SOFTMAX_COMMIT"
#endif

namespace softmax::server {
namespace {

// TOML as the config file has it, under a comment per group.
class Printer {
 public:
  void Texts(FieldText text, const std::vector<std::string>& field) {
    std::string list;
    for (const std::string& value : field) {
      list += (list.empty() ? "" : ", ") + Quote(value);
    }
    Line(text, "[" + list + "]");
  }
  void Text(FieldText text, const std::string& field) { Line(text, Quote(field)); }
  void Word(FieldText text, const std::string& field, const char*) { Text(text, field); }
  void Choice(FieldText text, const std::string& field, const std::vector<std::string>&) { Line(text, Quote(field)); }
  void OneOf(FieldText text, const Backend& field) { Line(text, Quote(BackendName(field))); }
  void Ordinals(FieldText text, const std::vector<std::uint32_t>& field) {
    Line(text, field.empty() ? Quote("all") : "[" + FormatOrdinals(field) + "]");
  }
  void Count(FieldText text, const std::uint64_t& field, CountRange = {}) { Line(text, std::to_string(field)); }
  void Bytes(FieldText text, const std::uint64_t& field) { Line(text, Quote(FormatBytes(field))); }
  void Duration(FieldText text, const Config::Duration& field) { Line(text, Quote(FormatDuration(field))); }
  void Switch(FieldText text, const bool& field) { Line(text, field ? "true" : "false"); }
  void TestingSwitch(FieldText, const bool&) {}  // a config file cannot set it
  void TestingWord(FieldText, const std::string&, const char*) {}

  std::string text() const { return out_.str(); }

 private:
  static std::string Quote(const std::string& text) { return '"' + text + '"'; }

  void Line(FieldText text, const std::string& value) {
    if (group_ != text.group) {
      out_ << (group_.empty() ? "" : "\n") << "# " << text.group << "\n";
      group_ = text.group;
    }
    out_ << text.name << " = " << value << "\n";
  }

  std::ostringstream out_;
  std::string group_;
};

class SettingCollector {
 public:
  void Texts(FieldText, const std::vector<std::string>&) {}
  void Text(FieldText, const std::string&) {}
  void Word(FieldText, const std::string&, const char*) {}
  void Choice(FieldText, const std::string&, const std::vector<std::string>&) {}
  void OneOf(FieldText, const Backend&) {}
  void Ordinals(FieldText, const std::vector<std::uint32_t>&) {}
  void Count(FieldText text, const std::uint64_t& field, CountRange = {}) { Add(text, "", static_cast<double>(field)); }
  void Bytes(FieldText text, const std::uint64_t& field) { Add(text, "_bytes", static_cast<double>(field)); }
  void Duration(FieldText text, const Config::Duration& field) {
    Add(text, "_seconds", std::chrono::duration<double>(field).count());
  }
  void Switch(FieldText text, const bool& field) { Add(text, "", field ? 1 : 0); }
  void TestingSwitch(FieldText text, const bool& field) { Switch(text, field); }
  void TestingWord(FieldText, const std::string&, const char*) {}

  std::vector<std::pair<std::string, double>> settings;

 private:
  void Add(FieldText text, const std::string& unit, double value) {
    std::string name = text.name;
    std::replace(name.begin(), name.end(), '-', '_');
    if (name.find(unit) == std::string::npos) {
      name += unit;  // memory_quota becomes memory_quota_bytes
    }
    settings.emplace_back(std::move(name), value);
  }
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
  switch (backend) {
    case Backend::kAuto:
      return "auto";
    case Backend::kCuda:
      return "cuda";
    case Backend::kCpu:
      return "cpu";
    case Backend::kNull:
      return "null";
  }
  return "unknown";
}

const char* Version() { return SOFTMAX_VERSION; }

const char* Commit() { return SOFTMAX_COMMIT; }

}  // namespace softmax::server

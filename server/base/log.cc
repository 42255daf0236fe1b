#include "server/base/log.h"

#include <spdlog/formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <ctime>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace softmax::server {
namespace {

constexpr std::array<std::pair<std::string_view, spdlog::level::level_enum>, 6> kLevels = {
    {{"trace", spdlog::level::trace},
     {"debug", spdlog::level::debug},
     {"info", spdlog::level::info},
     {"warning", spdlog::level::warn},
     {"error", spdlog::level::err},
     {"off", spdlog::level::off}}};

// How many bytes the UTF-8 character at the front of `text` has; 0 when there is no valid one.
std::size_t CharacterLength(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const std::size_t length = first < 0x80                    ? 1
                             : first >= 0xc2 && first < 0xe0 ? 2
                             : first >= 0xe0 && first < 0xf0 ? 3
                             : first >= 0xf0 && first < 0xf5 ? 4
                                                             : 0;
  if (length > text.size()) {
    return 0;
  }
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) {
      return 0;
    }
  }
  // Over-long forms, surrogates and what lies beyond U+10FFFF.
  const bool bad = length > 2 && ((first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) >= 0xa0) ||
                                  (first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) >= 0x90));
  return bad ? 0 : length;
}

// Escapes as JSON does, in text as well: one message is one line, whatever bytes it quotes.
void AppendEscaped(std::string_view text, bool json, spdlog::memory_buf_t* out) {
  while (!text.empty()) {
    const std::size_t length = CharacterLength(text);
    const auto c = static_cast<unsigned char>(text.front());
    if (length == 0) {
      fmt::format_to(std::back_inserter(*out), "\\u{:04x}", json ? 0xfffd : c);
    } else if (c == '\n' || c == '\r' || c == '\t') {
      out->push_back('\\');
      out->push_back(c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
    } else if (c < 0x20 || c == 0x7f) {
      fmt::format_to(std::back_inserter(*out), "\\u{:04x}", c);
    } else {
      if (json && (c == '"' || c == '\\')) {
        out->push_back('\\');
      }
      out->append(text.data(), text.data() + length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
}

std::string_view LevelName(spdlog::level::level_enum level) {
  for (const auto& [name, value] : kLevels) {
    if (value == level) {
      return name;
    }
  }
  return "critical";
}

// The fields of the message that this thread is logging. Beside the text and not in it, so that no request's bytes in a
// message can pass for a field.
thread_local const std::vector<LogField>* fields_of_message = nullptr;

void AppendFields(bool json, spdlog::memory_buf_t* out) {
  if (fields_of_message == nullptr) return;
  for (const LogField& field : *fields_of_message) {
    fmt::format_to(std::back_inserter(*out), fmt::runtime(json ? ",\"{}\":" : " {}="), field.key);
    if (field.quoted) out->push_back('"');
    AppendEscaped(field.value, json || field.quoted, out);
    if (field.quoted) out->push_back('"');
  }
}

class LineFormatter final : public spdlog::formatter {
 public:
  explicit LineFormatter(bool json) : json_(json) {}

  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    const auto since_epoch = message.time.time_since_epoch();
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(since_epoch).count();
    const std::time_t seconds = ms / 1000;
    std::tm utc{};
    gmtime_r(&seconds, &utc);
    char date[32];
    std::strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &utc);
    constexpr std::string_view kText = "{}.{:03}Z {} [{}] ";
    constexpr std::string_view kJson = R"({{"time":"{}.{:03}Z","level":"{}","thread":{},"message":")";
    fmt::format_to(std::back_inserter(out), fmt::runtime(json_ ? kJson : kText), date, ms % 1000,
                   LevelName(message.level), message.thread_id);
    AppendEscaped({message.payload.data(), message.payload.size()}, json_, &out);
    if (json_) out.push_back('"');
    AppendFields(json_, &out);
    const std::string_view end = json_ ? "}\n" : "\n";
    out.append(end.data(), end.data() + end.size());
  }

  std::unique_ptr<spdlog::formatter> clone() const override { return std::make_unique<LineFormatter>(json_); }

 private:
  const bool json_;
};

spdlog::level::level_enum LevelOf(LogLevel level) {
  switch (level) {
    case LogLevel::kTrace:
      return spdlog::level::trace;
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      break;
  }
  return spdlog::level::err;
}

std::optional<spdlog::level::level_enum> LevelOf(std::string_view name) {
  for (const auto& [known, value] : kLevels) {
    if (known == name) {
      return value;
    }
  }
  return std::nullopt;
}

}  // namespace

absl::Status InitLogging(std::string_view level, std::string_view format) {
  const auto chosen = LevelOf(level);
  if (!chosen) {
    return absl::InvalidArgumentError("log level '" + std::string(level) +
                                      "' is not one of trace, debug, info, warning, error, off");
  }
  if (format != "text" && format != "json") {
    return absl::InvalidArgumentError("log format '" + std::string(format) + "' is not one of text, json");
  }
  std::signal(SIGPIPE, SIG_IGN);
  auto logger = std::make_shared<spdlog::logger>("", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_formatter(std::make_unique<LineFormatter>(format == "json"));
  logger->set_level(*chosen);
  // Nothing to tell, and nobody to tell it to: stderr is what failed.
  logger->set_error_handler([](const std::string&) {});
  spdlog::set_default_logger(std::move(logger));
  return absl::OkStatus();
}

std::string_view StepLogLevel(bool more) {
  const int now = spdlog::get_level();
  const int next = std::clamp<int>(more ? now - 1 : now + 1, spdlog::level::trace, spdlog::level::err);
  spdlog::set_level(static_cast<spdlog::level::level_enum>(next));
  return LevelName(static_cast<spdlog::level::level_enum>(next));
}

void EndLogging() { spdlog::shutdown(); }

bool Logs(LogLevel level) { return spdlog::should_log(LevelOf(level)); }

void LogText(LogLevel level, std::string_view text) { spdlog::log(LevelOf(level), "{}", text); }

void LogAtSetLevel(std::string_view text) { spdlog::log(spdlog::get_level(), "{}", text); }

void LogWarning(std::string_view message, const std::vector<LogField>& fields) {
  fields_of_message = &fields;
  spdlog::warn("{}", message);
  fields_of_message = nullptr;
}

}  // namespace softmax::server

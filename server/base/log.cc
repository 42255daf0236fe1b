#include "server/base/log.h"

#include <spdlog/formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>

#include "common/base/safe_text.h"
#include "server/base/log_writer.h"

namespace softmax::server {
namespace {

// Bounds what a stranger can make the log hold.
constexpr std::size_t kMostMessageBytes = 4096;
constexpr std::size_t kMostFieldBytes = 512;
// Of lines that wait for a slow reader.
constexpr std::size_t kMostWaitingBytes = 4 << 20;

void Append(std::string_view text, spdlog::memory_buf_t* out) { out->append(text.data(), text.data() + text.size()); }

std::string_view LevelName(spdlog::level::level_enum level) {
  const spdlog::string_view_t name = spdlog::level::to_string_view(level);
  return {name.data(), name.size()};
}

// The fields of the message that this thread is logging. Beside the text and not in it, so that no request's bytes in a
// message can pass for a field.
thread_local const std::vector<LogField>* fields_of_message = nullptr;

void AppendFields(bool json, spdlog::memory_buf_t* out) {
  if (fields_of_message == nullptr) return;
  for (const LogField& field : *fields_of_message) {
    fmt::format_to(std::back_inserter(*out), fmt::runtime(json ? ",\"{}\":" : " {}="), field.key);
    if (field.quoted) out->push_back('"');
    Append(SafeText(field.value, json || field.quoted ? TextFor::kJson : TextFor::kPeople, kMostFieldBytes), out);
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
    Append(SafeText({message.payload.data(), message.payload.size()}, json_ ? TextFor::kJson : TextFor::kPeople,
                    kMostMessageBytes),
           &out);
    if (json_) out.push_back('"');
    AppendFields(json_, &out);
    Append(json_ ? "}\n" : "\n", &out);
  }

  std::unique_ptr<spdlog::formatter> clone() const override { return std::make_unique<LineFormatter>(json_); }

 private:
  const bool json_;
};

std::string LostLine(LineFormatter& formatter, std::uint64_t lost) {
  const std::string text = std::to_string(lost) + " messages were lost: whoever reads this log was too slow";
  spdlog::memory_buf_t line;
  formatter.format(spdlog::details::log_msg("", spdlog::level::warn, text), line);
  return {line.data(), line.size()};
}

// Lines are made by the thread that logs, and written by another one.
class QueueSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit QueueSink(bool json)
      : spdlog::sinks::base_sink<std::mutex>(std::make_unique<LineFormatter>(json)),
        writer_(STDERR_FILENO, kMostWaitingBytes,
                [formatter = LineFormatter(json)](std::uint64_t lost) mutable { return LostLine(formatter, lost); }) {
    writer_.FlushBeforeDeath();
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    writer_.Add({line.data(), line.size()});
  }
  void flush_() override { writer_.Flush(); }

 private:
  LogWriter writer_;
};

// The library numbers its levels likewise.
static_assert(static_cast<int>(LogLevel::kTrace) == spdlog::level::trace);
static_assert(static_cast<int>(LogLevel::kError) == spdlog::level::err);
spdlog::level::level_enum LevelOf(LogLevel level) { return static_cast<spdlog::level::level_enum>(level); }

}  // namespace

absl::Status InitLogging(std::string_view level, std::string_view format) {
  const spdlog::level::level_enum chosen = spdlog::level::from_str(std::string(level));
  // The library knows other spellings, and takes what it does not know for "off".
  if (LevelName(chosen) != level || chosen == spdlog::level::critical) {
    return absl::InvalidArgumentError("log level '" + std::string(level) +
                                      "' is not one of trace, debug, info, warning, error, off");
  }
  if (format != "text" && format != "json") {
    return absl::InvalidArgumentError("log format '" + std::string(format) + "' is not one of text, json");
  }
  std::signal(SIGPIPE, SIG_IGN);
  std::shared_ptr<QueueSink> sink;
  try {
    sink = std::make_shared<QueueSink>(format == "json");
  } catch (const std::system_error& error) {
    return absl::UnavailableError(std::string("no thread can be had for the log: ") + error.what());
  }
  auto logger = std::make_shared<spdlog::logger>("", std::move(sink));
  logger->set_level(chosen);
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

void FlushLogging() { spdlog::default_logger_raw()->flush(); }

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

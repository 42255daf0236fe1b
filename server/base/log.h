#pragma once

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// What the server logs goes through here: the library behind it costs every file that includes it 13 s to compile.
namespace softmax::server {

// Makes messages go to stderr, one line each:
//   text  2026-01-31T12:00:00.123Z info [4711] message
//   json  {"time":"2026-01-31T12:00:00.123Z","level":"info","thread":4711,"message":"message"}
// What would forge or garble a line comes out escaped (safe_text.h), and a message has at most 4 KiB. A thread of the
// log's own writes them: a closed or full stderr, or one that nobody reads, loses lines and nothing else, and the log
// says how many were lost. SIGPIPE is ignored from here on. Levels: trace, debug, info, warning, error, off. Call
// before other threads start; may be called again.
absl::Status InitLogging(std::string_view level, std::string_view format);

// One step more or fewer messages from now on, within trace to error; the new level's name. Any thread.
std::string_view StepLogLevel(bool more);

// Waits until all messages are written, a second at most.
void FlushLogging();

// Ends logging for good, as FlushLogging waits; for a process that leaves without the usual exit.
void EndLogging();

enum class LogLevel : std::uint8_t { kTrace, kDebug, kInfo, kWarning, kError };

// Whether messages of `level` are printed now.
bool Logs(LogLevel level);

// `text` as a message, whatever bytes it holds. Any thread.
void LogText(LogLevel level, std::string_view text);

// At the level that is set, so that it is seen whatever that is.
void LogAtSetLevel(std::string_view text);

template <typename T>
concept LogPart = std::convertible_to<const T&, const absl::AlphaNum&>;

// The parts, put together as absl::StrCat does, and only where they are printed.
void Log(LogLevel level, const LogPart auto&... parts) {
  if (Logs(level)) LogText(level, absl::StrCat(parts...));
}
void LogDebug(const LogPart auto&... parts) { Log(LogLevel::kDebug, parts...); }
void LogInfo(const LogPart auto&... parts) { Log(LogLevel::kInfo, parts...); }
void LogWarning(const LogPart auto&... parts) { Log(LogLevel::kWarning, parts...); }
void LogError(const LogPart auto&... parts) { Log(LogLevel::kError, parts...); }

// A part of a message that machines look for. Values may hold any bytes.
struct LogField {
  LogField(std::string_view key_in, std::string_view text) : key(key_in), value(text), quoted(true) {}
  LogField(std::string_view key_in, std::uint64_t number) : key(key_in), value(std::to_string(number)) {}

  std::string_view key;  // letters and underscores
  std::string value;
  bool quoted = false;
};

// A warning with fields: `message key=value key="text"` in text, further keys of the object in JSON.
void LogWarning(std::string_view message, const std::vector<LogField>& fields);

}  // namespace softmax::server

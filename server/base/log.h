#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace softmax::server {

// Makes spdlog's default logger write to stderr, one line a message:
//   text  2026-01-31T12:00:00.123Z info [4711] message
//   json  {"time":"2026-01-31T12:00:00.123Z","level":"info","thread":4711,"message":"message"}
// Control characters and broken UTF-8 in a message come out escaped, so that a request's bytes
// cannot forge a line. A closed or full stderr loses lines and nothing else: SIGPIPE is ignored
// from here on. Levels: trace, debug, info, warning, error, off. Call before other threads start;
// may be called again.
absl::Status InitLogging(std::string_view level, std::string_view format);

// One step more or fewer messages from now on, within trace to error; the new level's name. Any thread.
std::string_view StepLogLevel(bool more);

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

#pragma once

#include <absl/status/status.h>

#include <string_view>

namespace softmax::server {

// Makes spdlog's default logger write to stderr, one line a message:
//   text  2026-01-31T12:00:00.123Z info [4711] message
//   json  {"time":"2026-01-31T12:00:00.123Z","level":"info","thread":4711,"message":"message"}
// Control characters and broken UTF-8 in a message come out escaped, so that a request's bytes
// cannot forge a line. A closed or full stderr loses lines and nothing else: SIGPIPE is ignored
// from here on. Levels: trace, debug, info, warning, error, off. Call before other threads start;
// may be called again.
absl::Status InitLogging(std::string_view level, std::string_view format);

}  // namespace softmax::server

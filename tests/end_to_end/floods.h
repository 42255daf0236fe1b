#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace softmax::testing {

// What one connection sends to cost a server as much as it can.
struct Attack {
  std::string name;
  // What follows; called again and again. `stream` is the next call's.
  std::function<std::string(std::uint32_t* stream)> more;
  // Sent once, before that: the frame that acknowledges the server's settings, as some limits bind only who does.
  std::string first = std::string("\0\0\0\4\1\0\0\0\0", 9);
  bool reads = false;         // the answers
  bool grpc_ends_it = false;  // whether gRPC does, without the service's guard
};

std::vector<Attack> Attacks();

// The connection, in one flood after another until the server ends it or the time is over. When it ended. `target`: a
// port of 127.0.0.1, behind a colon. Throws when it cannot be reached.
std::optional<std::chrono::steady_clock::duration> Flood(const std::string& target, const Attack& attack,
                                                         std::chrono::steady_clock::duration most);

}  // namespace softmax::testing

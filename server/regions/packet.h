#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace softmax::server {

// Packets of a connected socket of type SOCK_SEQPACKET, without waiting.

inline constexpr std::size_t kMostPacketBytes = 4096;

// kEnd: the other side has closed or shut down, or sent an empty packet, which looks the same. kMalformed: it was too
// long, or brought descriptors, none of which reaches this process.
enum class Received { kPacket, kNothingYet, kEnd, kMalformed };
Received ReceivePacket(int fd, std::string* packet);

enum class Sent { kSent, kNoRoom, kEnd };
// `descriptor`: goes along; -1: none.
Sent SendPacket(int fd, std::string_view packet, int descriptor);

}  // namespace softmax::server

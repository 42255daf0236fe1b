#pragma once

#include <sys/types.h>

#include <span>
#include <string_view>

namespace softmax {

// Packets of a connected unix socket that a descriptor may come with. As send and recv, but that a signal does not end
// them; neither allocates.

// `descriptor`: goes along, and stays the caller's; -1: none. Never raises SIGPIPE.
ssize_t SendPacketWith(int socket, std::string_view packet, int descriptor, int flags = 0);

// `*descriptor`: what came along, closed by exec and from now on the caller's; -1: none.
ssize_t ReceivePacketWith(int socket, std::span<char> packet, int* descriptor, int flags = 0);

}  // namespace softmax

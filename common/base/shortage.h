#pragma once

#include <cstddef>
#include <string>

namespace softmax {

// What a program will need is tried before gRPC is touched: without a thread or a descriptor gRPC aborts or waits for
// ever. Each of these says in one line what was asked for, what was had and which limits there are; empty: all is well.

// Starts `count` threads side by side, and ends them again; 20 us each.
std::string ThreadShortage(std::size_t count);
// Opens `count` descriptors at once, and closes them again.
std::string DescriptorShortage(std::size_t count);

// The threads that gRPC starts of its own on this machine, and some more for when it is busy.
std::size_t GrpcThreads();

// As many descriptors as the system lets this process have.
void RaiseDescriptorLimit();

// Of all three programs: a resource cannot be had, an address and a server among them.
inline constexpr int kExitUnavailable = 3;

// From here on, when `new` finds no memory, one line behind the program's name is the end, with kExitUnavailable.
void ExitWithoutMemory(const char* program);

// Whether all that was printed to standard output has arrived; if not, that is said behind the program's name.
bool OutputArrived(const char* program);

}  // namespace softmax

#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <vector>

// The part of the CUDA runtime that server/execution/cuda calls, and the kernels' launch, on devices that a test makes:
// so that machines without a GPU see what several of them, sticky errors and hanging ones do to the server's code.
// Kernels run on the CPU, at once or when told. What no program may do is a test failure: to wait for a device that
// hangs, or to free what was not allocated.
namespace softmax::testing::fake_cuda {

// Forgets everything; there are `devices` now.
void Reset(int devices);

// From now on launches on this device never end, and who waits for it fails the test.
void Hang(int device);
// Whether kernels may use the host's addresses of registered memory; false after Reset.
void TakeHostPointers(bool take);
// From now on this call of the driver, of those that share memory, is out of memory; empty: none.
void RefuseDriverCall(const char* name);
// Launches wait until Finish.
void HoldBack(int device);
void Finish(int device);
// Allocations that were not freed, and registered memory.
std::size_t Allocations();
// Since Reset, which cores the caller of each cudaHostAlloc might run on.
std::vector<std::string> CoresOfHostAllocations();
// How much of the memory registered last had been touched before.
std::size_t TouchedBytes();
// Kernels launched on the device so far.
std::size_t Launches(int device);
// Of them, those for tensors that are to be read over the link to the host, alone and beside others.
std::size_t HostLaunches(int device);
std::size_t SharedLaunches(int device);

}  // namespace softmax::testing::fake_cuda

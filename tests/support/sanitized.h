#pragma once

namespace softmax::testing {

// AddressSanitizer keeps freed memory back and takes more of it: what a process grows by says nothing of its code then,
// and it may be too slow to be asked for as much as a bound is there for.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kIsSanitized = true;
#else
constexpr bool kIsSanitized = false;
#endif

}  // namespace softmax::testing

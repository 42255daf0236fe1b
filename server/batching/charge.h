#pragma once

#include <algorithm>
#include <cstdint>

#include "common/wire/tensor_spec.h"

namespace softmax::server {

// How a request came, and what that alone costs.
enum class CallKind : std::uint8_t {
  kStreamed,  // one of a stream's: it has no call of its own
  kUnary,
};

// What kinds of work take a backend for each of their units, as bytes that could be carried through the service in the
// same time. Bytes carried cost themselves.
struct Prices {
  std::uint32_t row = 0;              // of a whole answer
  std::uint32_t wide_element = 0;     // of fp64, in a whole answer or a summary
  std::uint32_t wide_log_row = 0;     // of an fp64 log-softmax, beside `row`
  std::uint32_t summary_row = 0;      // of anything but the whole answer
  std::uint32_t summary_element = 0;  // likewise, beside its bytes
  std::uint32_t entropy_row = 0;
  std::uint32_t entropy_element = 0;
  std::uint32_t selected = 0;         // one of the k best that the row has
  std::uint32_t gathered_column = 0;  // an element of another axis, in a summary
  std::uint32_t text = 500;           // printed
  std::uint32_t piece = 40;           // of an input that is gathered
  std::uint32_t region_bytes = 16;    // of tensors in regions: as many cost as one that is carried
};
// Of one core, measured (tests/end_to_end/charge_test.cc holds them to a factor of 4).
constexpr Prices kCpuPrices = {.row = 80,
                               .wide_element = 3,
                               .wide_log_row = 250,
                               .summary_row = 500,
                               .summary_element = 1,
                               .entropy_row = 400,
                               .entropy_element = 3,
                               .selected = 150,
                               .gathered_column = 12,
                               .region_bytes = 4};
// A device computes while the bytes of others travel.
constexpr Prices kDevicePrices = {};

// What a request costs, worked out once from its decoded header, before anything is allocated for it. Admission's
// lines, its estimates of time, a connection's share and the process's budget read this and nothing else.
struct Charge {
  std::uint64_t held = 0;  // bytes of memory from its arrival until it is answered: its message and what is read of it
  std::uint64_t answer = 0;  // bytes of its answer, from its admission until its client has taken them
  std::uint64_t work = 0;    // processor time, in bytes carried (Prices)

  // Without what every call takes.
  std::uint64_t own_work() const { return work - std::min(work, kCallWork); }

  // What a call takes whatever it carries, as work and in memory.
  static constexpr std::uint64_t kCallWork = 16u << 10;
  static constexpr std::uint64_t kUnaryHeld = 12u << 10;
  static constexpr std::uint64_t kStreamedHeld = 1u << 10;
};

// `message_bytes`: of the message, or of the request's part of a stream's message; at least the bytes of a tensor that
// is in no region count.
Charge ChargeOf(const TensorSpec& spec, std::uint64_t message_bytes, CallKind kind, const Prices& prices);

}  // namespace softmax::server

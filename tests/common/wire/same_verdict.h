#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>

#include "common/wire/decode.h"
#include "tests/common/wire/native_comparison.h"
#include "tests/common/wire/oip_comparison.h"
#include "tests/common/wire/sliced_message.h"

// What holds for the decoders of both contracts, whatever the message. `any` makes one of a generator's numbers.
namespace softmax::testing {

template <typename Request, typename Any, typename Decode>
void ExpectEveryCutToGiveTheSame(std::uint64_t seed, int rounds, const WireLimits& limits, Any any, Decode decode) {
  std::mt19937_64 random(seed);
  for (int round = 0; round < rounds; ++round) {
    const std::string bytes = any(random);
    if (bytes.size() > 300) continue;
    Request whole;
    decode(SlicedMessage(bytes).slices(), limits, &whole);
    for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
      Request decoded;
      decode(SlicedMessage(bytes, {cut, random() % 3}).slices(), limits, &decoded);
      ASSERT_EQ(Difference(whole, decoded), "") << "cut " << cut << ": " << Hex(bytes);
    }
  }
}

// A budget of up to `most_steps` decides everything, or nothing.
template <typename Request, typename Any, typename Decode>
void ExpectABudgetToChangeNoVerdict(std::uint64_t seed, std::uint64_t most_steps, WireLimits limits, Any any,
                                    Decode decode) {
  std::mt19937_64 random(seed);
  const WireLimits unbounded = limits;
  int beyond = 0;
  for (int round = 0; round < 20'000; ++round) {
    const SlicedMessage message(any(random));
    Request whole;
    decode(message.slices(), unbounded, &whole);
    limits.max_steps = random() % most_steps;
    Request decoded;
    decode(message.slices(), limits, &decoded);
    ASSERT_FALSE(whole.beyond_budget);
    beyond += decoded.beyond_budget;
    if (decoded.beyond_budget) continue;
    ASSERT_EQ(Difference(whole, decoded), "");
  }
  EXPECT_GT(beyond, 2'000);
  EXPECT_LT(beyond, 18'000);
}

}  // namespace softmax::testing

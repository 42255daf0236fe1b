#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>

#include "tests/support/wire_builder.h"

namespace softmax::testing {

using Random = std::mt19937_64;

inline bool OneIn(Random& random, unsigned n) { return random() % n == 0; }

// A piece of protobuf that may or may not be one, of field 0 to fields - 1.
inline std::string AnyField(Random& random, std::uint32_t fields) {
  const auto field = static_cast<std::uint32_t>(random() % fields);
  switch (random() % 7) {
    case 0:
      return Tag(field, 0, static_cast<int>(random() % 7)) +
             Varint(random() >> (random() % 64), static_cast<int>(random() % 12));
    case 1:
      return Tag(field, 1) + std::string(8, static_cast<char>(random()));
    case 2:
      return Tag(field, 2) + Varint(random() % 6, static_cast<int>(random() % 7)) + "fivex";
    case 3:
      return Groups(field, OneIn(random, 5) ? 97 + static_cast<int>(random() % 6) : 2);
    case 4:
      return Tag(field, 5) + "four";
    case 5:
      return Block(field, Block(static_cast<std::uint32_t>(random() % fields), Groups(3, 96 + random() % 5)));
    default:
      return Tag(field, static_cast<std::uint32_t>(random() % 8)) + "??";
  }
}

inline void Damage(Random& random, std::uint32_t fields, std::string* bytes) {
  switch (random() % 7) {
    case 0:
      if (!bytes->empty()) (*bytes)[random() % bytes->size()] = static_cast<char>(random());
      break;
    case 1:
      // The header is where damage tells.
      if (!bytes->empty()) {
        (*bytes)[random() % std::min<std::size_t>(bytes->size(), 30)] ^= static_cast<char>(1u << random() % 8);
      }
      break;
    case 2:
      bytes->resize(random() % (bytes->size() + 1));
      break;
    case 3:
      bytes->insert(random() % (bytes->size() + 1), 1, static_cast<char>(random()));
      break;
    case 4:
      bytes->insert(random() % (bytes->size() + 1), AnyField(random, fields));
      break;
    case 5:
      *bytes = AnyField(random, fields) + *bytes;
      break;
    default:
      if (!bytes->empty()) bytes->erase(random() % bytes->size(), 1 + random() % 3);
  }
}

}  // namespace softmax::testing

#pragma once

#include <google/protobuf/message.h>

#include <cstdint>

namespace softmax::testing {

// How many fields a message has on the wire as the generated serializer writes it, and in all that is in it: what
// common/wire/bounds.h counts of a message that has no lone values and repeats nothing that counts once.
std::uint64_t FieldsOf(const google::protobuf::Message& message);

}  // namespace softmax::testing

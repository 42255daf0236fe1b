#pragma once

#include <string>

#include "common/wire/cursor.h"
#include "common/wire/walk.h"

namespace softmax {

// "input.shape: a varint is cut off at byte 17", for a walk that has failed.
std::string DescribeFault(const WireCursor& cursor, const RawRequest& request);

// The same without the field's name.
std::string DescribeFault(const WireCursor& cursor);

}  // namespace softmax

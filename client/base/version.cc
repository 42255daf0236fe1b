// In a file of its own, for it changes with every commit.
#include "client/base/program.h"

namespace softmax::client {

const char* Version() { return SOFTMAX_VERSION; }
const char* Commit() { return SOFTMAX_COMMIT; }

}  // namespace softmax::client

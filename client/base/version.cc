#include "client/base/version.h"

namespace softmax::client {

const char* Version() { return SOFTMAX_VERSION; }
const char* Commit() { return SOFTMAX_COMMIT; }

}  // namespace softmax::client

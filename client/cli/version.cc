#include "client/cli/version.h"

namespace softmax::client {

// In a file of its own: it is compiled after every commit.
std::string VersionText() { return "softmax-client " SOFTMAX_VERSION " (" SOFTMAX_COMMIT ")"; }

}  // namespace softmax::client

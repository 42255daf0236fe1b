#pragma once

namespace softmax::client {

// From here on SIGINT and SIGTERM do not end the process but are remembered, and SIGPIPE is ignored.
void CatchInterrupts();
bool Interrupted();

}  // namespace softmax::client

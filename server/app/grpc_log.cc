#include "server/app/grpc_log.h"

#include <grpc/support/log.h>

#include <atomic>
#include <chrono>

#include "server/base/log.h"

namespace softmax::server {
namespace {

bool FirstOfItsSecond() {
  static std::atomic<std::int64_t> last{-1};
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const std::int64_t second = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  return last.exchange(second) != second;
}

void LogOfGrpc(gpr_log_func_args* message) {
  const bool error = message->severity == GPR_LOG_SEVERITY_ERROR;
  const auto level = error && FirstOfItsSecond() ? LogLevel::kWarning : LogLevel::kDebug;
  Log(level, "gRPC: ", message->message);
}

}  // namespace

void RouteGrpcLog() { gpr_set_log_function(&LogOfGrpc); }

}  // namespace softmax::server

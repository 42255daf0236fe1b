#include "server/app/grpc_log.h"

#include <grpc/support/log.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>

namespace softmax::server {
namespace {

bool FirstOfItsSecond() {
  static std::atomic<std::int64_t> last{-1};
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const std::int64_t second = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  return last.exchange(second) != second;
}

void Log(gpr_log_func_args* message) {
  const bool error = message->severity == GPR_LOG_SEVERITY_ERROR;
  const auto level = error && FirstOfItsSecond() ? spdlog::level::warn : spdlog::level::debug;
  spdlog::log(level, "gRPC: {}", message->message);
}

}  // namespace

void RouteGrpcLog() { gpr_set_log_function(&Log); }

}  // namespace softmax::server

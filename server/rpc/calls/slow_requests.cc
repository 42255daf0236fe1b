#include "server/rpc/calls/slow_requests.h"

#include <algorithm>
#include <vector>

#include "server/base/log.h"

namespace softmax::server {
namespace {

std::uint64_t Microseconds(Nanoseconds duration) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(duration.count(), 0) / 1000);
}

std::string_view AnswerOf(const Answer& answer) {
  if (answer.summary == nullptr) return "tensor";
  return answer.output == nullptr ? "summary" : "tensor+summary";
}

}  // namespace

bool SlowRequests::Allowed(TimePoint now, std::uint64_t* left_out) {
  const std::int64_t second = std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
  if (second_.exchange(second) != second) lines_.store(0);
  if (lines_.fetch_add(1) >= kLinesPerSecond) {
    left_out_.fetch_add(1);
    return false;
  }
  *left_out = left_out_.exchange(0);
  return true;
}

void SlowRequests::Report(const RequestSample& sample, std::uint64_t id, const Answer* answer,
                          std::string_view traceparent, const std::string& peer) {
  std::uint64_t left_out = 0;
  if (!Allowed(SteadyClock::now(), &left_out)) return;
  std::vector<LogField> fields = {{"method", NameOf(sample.method)},
                                  {"request_id", id},
                                  {"peer", peer},
                                  {"code", static_cast<std::uint64_t>(sample.code)},
                                  {"total_us", Microseconds(sample.total)}};
  if (answer != nullptr && answer->ran) {
    fields.emplace_back("queue_us", Microseconds(answer->queue));
    fields.emplace_back("batch_us", Microseconds(answer->batch));
    fields.emplace_back("execution_us", Microseconds(answer->execution));
    fields.emplace_back("batch_rows", answer->batch_rows);
    fields.emplace_back("answer", AnswerOf(*answer));
  }
  if (!traceparent.empty()) fields.emplace_back("traceparent", traceparent);
  if (left_out > 0) fields.emplace_back("left_out", left_out);
  LogWarning("slow request", fields);
}

}  // namespace softmax::server

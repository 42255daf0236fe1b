#include "server/rpc/calls/slow_requests.h"

#include <absl/strings/ascii.h>

#include <algorithm>
#include <vector>

#include "server/base/log.h"

namespace softmax::server {
namespace {

// version-trace_id-parent_id-flags: 00-<32 hex digits>-<16 hex digits>-<2 hex digits>, in lower case.
constexpr std::size_t kTraceparentLength = 55;
constexpr std::size_t kTraceIdAt = 3;
constexpr std::size_t kTraceIdLength = 32;
constexpr std::size_t kParentIdAt = 36;
constexpr std::size_t kParentIdLength = 16;

std::uint64_t Microseconds(Nanoseconds duration) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(duration.count(), 0) / 1000);
}

std::string_view AnswerOf(const Answer& answer) {
  if (answer.summary == nullptr) return "tensor";
  return answer.output == nullptr ? "summary" : "tensor+summary";
}

}  // namespace

std::string_view TraceparentOf(const ClientMetadata& metadata) {
  if (metadata.count("traceparent") != 1) return {};
  const grpc::string_ref value = metadata.find("traceparent")->second;
  if (value.size() < kTraceparentLength) return {};
  const std::string_view text(value.data(), kTraceparentLength);
  for (std::size_t i = 0; i < kTraceparentLength; ++i) {
    const bool dash = i == 2 || i == 35 || i == 52;
    const auto c = static_cast<unsigned char>(text[i]);
    if (dash ? c != '-' : !absl::ascii_isdigit(c) && (c < 'a' || c > 'f')) return {};
  }
  const std::string_view version = text.substr(0, 2);
  const bool has_more = value.size() > kTraceparentLength;
  if (version == "ff" || (has_more && (version == "00" || value.data()[kTraceparentLength] != '-'))) return {};
  const auto all_zeros = [&](std::size_t at, std::size_t length) {
    return text.substr(at, length).find_first_not_of('0') == std::string_view::npos;
  };
  if (all_zeros(kTraceIdAt, kTraceIdLength) || all_zeros(kParentIdAt, kParentIdLength)) return {};
  return text;
}

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
                          const ClientMetadata& metadata, const std::string& peer, Recorder& recorder) {
  const std::string_view trace = TraceparentOf(metadata);
  if (!trace.empty()) recorder.SlowRequest(sample, trace.substr(kTraceIdAt, kTraceIdLength));
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
  if (!trace.empty()) fields.emplace_back("traceparent", trace);
  if (left_out > 0) fields.emplace_back("left_out", left_out);
  LogWarning("slow request", fields);
}

}  // namespace softmax::server

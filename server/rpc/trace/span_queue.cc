#include "server/rpc/trace/span_queue.h"

#include <absl/strings/ascii.h>
#include <absl/strings/escaping.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <set>
#include <utility>

#include "common/base/traceparent.h"

namespace softmax::server {
namespace {

constexpr std::size_t kMostTraceStateBytes = 512;
constexpr std::size_t kMostTraceStateMembers = 32;

bool IsTraceStateKey(absl::string_view key) {
  const auto allowed = [](char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) || std::strchr("_-*/@", c) != nullptr;
  };
  return !key.empty() && key.size() <= 256 && (absl::ascii_islower(key[0]) || absl::ascii_isdigit(key[0])) &&
         std::all_of(key.begin(), key.end(), allowed) && std::count(key.begin(), key.end(), '@') <= 1;
}

bool IsTraceStateValue(absl::string_view value) {
  const auto allowed = [](char c) { return c >= ' ' && c <= '~' && c != ',' && c != '='; };
  return !value.empty() && value.size() <= 256 && std::all_of(value.begin(), value.end(), allowed);
}

}  // namespace

std::optional<TraceContext> ParseTraceparent(std::string_view value) {
  const std::string_view text = CheckedTraceparent(value);
  if (text.empty()) return std::nullopt;
  TraceContext context;
  const auto read = [&](std::size_t at, auto* id) {
    const std::string bytes = absl::HexStringToBytes({text.data() + at, 2 * id->size()});
    std::copy(bytes.begin(), bytes.end(), id->begin());
  };
  read(kTraceIdAt, &context.place.trace_id);
  read(kParentIdAt, &context.place.span_id);
  context.sampled = (absl::HexStringToBytes({text.data() + kTraceparentLength - 2, 2})[0] & 1) != 0;
  return context;
}

std::string TraceStateOf(const ClientMetadata& metadata) {
  std::string joined;
  const auto [begin, end] = metadata.equal_range("tracestate");
  for (auto it = begin; it != end; ++it) {
    if (joined.size() + it->second.size() > kMostTraceStateBytes) return {};
    joined.append(joined.empty() ? "" : ",").append(it->second.data(), it->second.size());
  }
  std::string kept;
  std::set<absl::string_view> keys;
  for (absl::string_view member : absl::StrSplit(joined, ',')) {
    member = absl::StripAsciiWhitespace(member);
    if (member.empty()) continue;
    const std::size_t equals = member.find('=');
    if (equals == absl::string_view::npos || !IsTraceStateKey(member.substr(0, equals)) ||
        !IsTraceStateValue(member.substr(equals + 1)) || !keys.insert(member.substr(0, equals)).second) {
      return {};
    }
    kept.append(kept.empty() ? "" : ",").append(member.data(), member.size());
  }
  return keys.size() <= kMostTraceStateMembers ? kept : std::string();
}

SpanQueue::SpanQueue(double ratio) : ratio_(ratio) {
  std::random_device device;
  std::seed_seq seed{device(), device(), device(), device(), device(), device(), device(), device()};
  random_.seed(seed);
}

bool SpanQueue::Samples(std::string_view traceparent, TraceContext* parent) {
  if (!traceparent.empty()) {
    if (const auto context = ParseTraceparent(traceparent)) {
      *parent = *context;
      return context->sampled;
    }
  }
  return ratio_ > 0 && std::generate_canonical<double, 53>(random_) < ratio_;
}

bool SpanQueue::Takes(std::string_view traceparent, TraceContext* parent) {
  if (!Samples(traceparent, parent)) return false;
  // First of all: under a load that fills the queue again and again, what finds no room costs next to nothing.
  if (written_.load(std::memory_order_relaxed) - taken_.load(std::memory_order_acquire) < kCapacity) return true;
  dropped_.Add(1);
  return false;
}

template <typename Id>
Id SpanQueue::NewId() {
  Id id{};
  while (id == Id{}) {  // zeros are no id
    for (std::size_t at = 0; at < id.size(); at += sizeof(std::uint64_t)) {
      const std::uint64_t bits = random_();
      std::memcpy(id.data() + at, &bits, sizeof(bits));
    }
  }
  return id;
}

TraceId SpanQueue::Record(const TraceContext& parent, std::string trace_state, std::string peer,
                          const RequestSample& sample, std::uint64_t request_id, const Answer* answer) {
  const std::uint64_t at = written_.load(std::memory_order_relaxed);
  const bool is_root = parent.place.trace_id == TraceId{};
  TracedRequest& request = slots_[at % kCapacity];
  request = {.place = {is_root ? NewId<TraceId>() : parent.place.trace_id, NewId<SpanId>()},
             .parent_span_id = parent.place.span_id,
             .trace_state = is_root ? std::string() : std::move(trace_state),
             .peer = std::move(peer),
             .sample = sample,
             .request_id = request_id,
             .end = SteadyClock::now(),
             .end_unix_ns = std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count()};
  if (answer != nullptr && answer->ran) {
    request.execution = answer->execution;
    request.batch_rows = answer->batch_rows;
    request.begins_batch = answer->batch_rows > 0 && std::exchange(launched_, answer->launched) != answer->launched;
    if (request.begins_batch) batch_ = {NewId<TraceId>(), NewId<SpanId>()};
    request.batch = batch_;
  }
  const TraceId trace_id = request.place.trace_id;
  written_.store(at + 1, std::memory_order_release);
  return trace_id;
}

void SpanQueue::Take(std::vector<TracedRequest>* requests) {
  const std::uint64_t end = written_.load(std::memory_order_acquire);
  for (std::uint64_t at = taken_.load(std::memory_order_relaxed); at < end; ++at) {
    requests->push_back(std::move(slots_[at % kCapacity]));
    taken_.store(at + 1, std::memory_order_release);
  }
}

}  // namespace softmax::server

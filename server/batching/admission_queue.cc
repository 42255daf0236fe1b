#include "server/batching/admission_queue.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

namespace softmax::server {
namespace {

// A request has to be done before its deadline, and not about then: in an overload the waiting requests come to stand
// just below the limit that is drawn here. Were that the deadline itself, half of what is run would be in vain.
constexpr double kMargin = 1.25;
constexpr double kLeastPushbackMs = 20;
constexpr double kMostPushbackMs = 1000;

}  // namespace

void PendingRequest::BeginWork(TimePoint now) {
  if (ticket_.queue != nullptr) ticket_.queue->BeginWork(*this, now);
}

void PendingRequest::Finish(const Answer& answer) {
  if (ticket_.queue != nullptr) std::exchange(ticket_.queue, nullptr)->Release(*this, answer.ran);
  Complete(answer);
}

bool AdmissionQueue::HasRoom(const ConnectionShare::Line& line, const PendingRequest& request, TimePoint now) const {
  if (options_.requests == 0 || line.batched == 0) return true;
  const std::uint64_t factor = now < shared_until_ ? 1 : options_.alone_factor;
  return line.batched < options_.requests * factor * static_cast<std::uint32_t>(Kind::kUnary) &&
         line.batched_bytes + request.spec().input_bytes() <= options_.bytes * factor;
}

// Before this request the circle lets in as much of each other line as of its own, or all that the other line has.
std::uint64_t AdmissionQueue::CostBefore(const ConnectionShare::Line& line) const {
  const std::uint64_t lines = circle_.size() + (line.listed ? 0 : 1);
  return rate_.in_progress() + std::min(waiting_cost_, line.waiting_cost * lines);
}

Nanoseconds AdmissionQueue::TooLate(const PendingRequest& request, std::uint64_t cost_before, TimePoint now) const {
  if (request.deadline() == kNoDeadline || cost_before == 0) return Nanoseconds{0};
  if (request.deadline() <= now) return Nanoseconds{0};  // passed already: the batcher says so
  const Nanoseconds wait(static_cast<std::int64_t>(rate_.NanosecondsFor(cost_before) * kMargin));
  return request.deadline() <= Later(now, wait) ? wait : Nanoseconds{0};
}

void AdmissionQueue::BeginWork(PendingRequest& request, TimePoint now) {
  request.ticket_.is_work = true;
  rate_.Begin(request.ticket_.cost, now);
}

void AdmissionQueue::Count(const PendingRequest& request) {
  ConnectionShare* const share = request.ticket_.share;
  if (share == nullptr) return;
  if (share->batched() == 0) ++busy_;
  ConnectionShare::Line& line = LineOf(*share, request);
  line.batched += request.ticket_.units;
  line.batched_bytes += request.spec().input_bytes();
}

void AdmissionQueue::Release(const PendingRequest& request, bool ran) {
  if (request.ticket_.is_work && rate_.End(request.ticket_.cost, ran)) {
    rate_.Measure(/*saturated=*/waiting_ > 0 || options_.requests == 0, clock_());
  }
  ConnectionShare* const share = request.ticket_.share;
  if (share == nullptr) return;
  ConnectionShare::Line& line = LineOf(*share, request);
  line.batched -= request.ticket_.units;
  line.batched_bytes -= request.spec().input_bytes();
  share->in_flight_bytes -= BytesOf(request);
  if (share->batched() == 0) --busy_;
  freed_ = true;
}

void AdmissionQueue::RefuseLate(PendingRequest* request, Nanoseconds wait, TimePoint now) {
  const auto us = [](Nanoseconds time) { return std::chrono::duration_cast<std::chrono::microseconds>(time).count(); };
  batcher_.Refuse(request,
                  absl::ResourceExhaustedError(absl::StrCat("the deadline leaves ", us(request->deadline() - now),
                                                            " us, and what is before the request may take ", us(wait),
                                                            " us; try again after the pushback")),
                  RefuseReason::kDeadline, static_cast<std::uint32_t>(us(wait) / 1000 + 1));
}

void AdmissionQueue::RefuseBytes(PendingRequest* request) {
  const ConnectionShare& share = *request->ticket_.share;
  // Half of what is before it has been answered by then.
  const double wait_ms =
      rate_.NanosecondsFor(rate_.in_progress() + share.small.waiting_cost + share.large.waiting_cost) / 2e6;
  const std::uint64_t bytes = BytesOf(*request);
  batcher_.Refuse(
      request,
      absl::ResourceExhaustedError(absl::StrCat(
          "the connection's unanswered requests hold ", share.in_flight_bytes - bytes, " bytes, this one has ", bytes,
          ", and max_in_flight_bytes_per_connection is ", options_.in_flight_bytes, "; try again after the pushback")),
      RefuseReason::kConnectionBytes,
      static_cast<std::uint32_t>(std::clamp(wait_ms, kLeastPushbackMs, kMostPushbackMs)));
}

void AdmissionQueue::Admit(PendingRequest* request, Nanoseconds too_late, TimePoint now) {
  Count(*request);
  if (too_late.count() > 0) {
    RefuseLate(request, too_late, now);
  } else {
    batcher_.Submit(request, now);
  }
}

void AdmissionQueue::Submit(PendingRequest* request, ConnectionShare* share, Kind kind, TimePoint now) {
  request->ticket_ = {this, share, static_cast<std::uint32_t>(kind), CostOf(*request)};
  const bool has_bytes = HasBytes(share, BytesOf(*request));
  if (share != nullptr) share->in_flight_bytes += BytesOf(*request);
  if (!has_bytes) {
    Count(*request);
    return RefuseBytes(request);
  }
  if (share == nullptr) return Admit(request, TooLate(*request, rate_.in_progress(), now), now);
  if (busy_ > (share->batched() > 0 ? 1u : 0u)) shared_until_ = now + options_.shared_for;
  ConnectionShare::Line& line = LineOf(*share, *request);
  const bool waits = !line.waiting.empty() || !HasRoom(line, *request, now);
  const Nanoseconds too_late = TooLate(*request, waits ? CostBefore(line) : rate_.in_progress(), now);
  if (!waits || too_late.count() > 0) return Admit(request, too_late, now);
  Enqueue(request, line);
}

void AdmissionQueue::Enqueue(PendingRequest* request, ConnectionShare::Line& line) {
  line.waiting.push_back(request);
  line.waiting_cost += request->ticket_.cost;
  waiting_cost_ += request->ticket_.cost;
  ++waiting_;
  if (!std::exchange(line.listed, true)) circle_.push_back(&line);
}

PendingRequest* AdmissionQueue::Dequeue(ConnectionShare::Line& line) {
  PendingRequest* const request = line.waiting.front();
  line.waiting.pop_front();
  line.waiting_cost -= request->ticket_.cost;
  waiting_cost_ -= request->ticket_.cost;
  --waiting_;
  circle_.pop_front();
  line.listed = !line.waiting.empty();
  if (line.listed) circle_.push_back(&line);
  return request;
}

bool AdmissionQueue::AdmitWaiting(TimePoint now) {
  bool admitted = false;
  // What is refused or completed inside Admit frees room again. The next round of this loop sees that, so that the
  // stack does not grow with the number of requests.
  while (may_admit()) {
    freed_ = false;
    for (std::size_t left = circle_.size(); left > 0; --left) {
      ConnectionShare::Line& line = *circle_.front();
      if (!HasRoom(line, *line.waiting.front(), now)) {
        circle_.pop_front();
        circle_.push_back(&line);
        continue;
      }
      PendingRequest* const request = Dequeue(line);
      Admit(request, TooLate(*request, rate_.in_progress(), now), now);
      admitted = true;
      freed_ = true;  // another may have room
    }
  }
  return admitted;
}

}  // namespace softmax::server

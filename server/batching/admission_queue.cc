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
  // The call may go on for long, until its answer is read.
  for (std::shared_ptr<const Region>& region : regions_.held) region.reset();
  Complete(answer);
}

bool AdmissionQueue::MayOwe(const ConnectionShare& share, std::uint64_t more) const {
  const std::uint64_t owed = share.owed_bytes();
  if (owed + more <= options_.always_owed) return true;
  const std::uint64_t left = budget_.left();
  // One answer alone may be larger than the share, but not than what is there.
  if (owed == 0) return more <= left || left == budget_.limit();
  return owed + more <= std::min(options_.unread_bytes, left / 2);
}

bool AdmissionQueue::HasRoom(const ConnectionShare& share, const ConnectionShare::Line& line,
                             const PendingRequest& request, TimePoint now) {
  if (options_.requests > 0 && line.batched > 0) {
    const std::uint64_t factor = now < shared_until_ ? 1 : options_.alone_factor;
    if (line.batched >= options_.requests * factor * kUnitsOfUnary ||
        line.batched_work + request.charge().own_work() > options_.work * factor) {
      return false;
    }
  }
  if (MayOwe(share, request.charge().answer)) return true;
  look_at_ = std::min(look_at_, Later(now, kLookAgain));
  return false;
}

// Before this request the circle lets in as much of each other line as of its own, or all that the other line has.
std::uint64_t AdmissionQueue::WorkBefore(const ConnectionShare::Line& line) const {
  const std::uint64_t lines = circle_.size() + (line.listed ? 0 : 1);
  return rate_.in_progress() + std::min(waiting_work_, line.waiting_work * lines);
}

Nanoseconds AdmissionQueue::TooLate(const PendingRequest& request, std::uint64_t work_before, TimePoint now) const {
  if (request.deadline() == kNoDeadline || work_before == 0) return Nanoseconds{0};
  if (request.deadline() <= now) return Nanoseconds{0};  // passed already: the batcher says so
  const Nanoseconds wait(static_cast<std::int64_t>(rate_.NanosecondsFor(work_before) * kMargin));
  return request.deadline() <= Later(now, wait) ? wait : Nanoseconds{0};
}

void AdmissionQueue::BeginWork(PendingRequest& request, TimePoint now) {
  request.ticket_.is_work = true;
  rate_.Begin(request.charge_.work, now);
}

void AdmissionQueue::Count(const PendingRequest& request) {
  ConnectionShare* const share = request.ticket_.share;
  if (share == nullptr) return;
  if (share->batched() == 0) ++busy_;
  ConnectionShare::Line& line = LineOf(*share, request);
  line.batched += request.ticket_.units;
  line.batched_work += request.charge().own_work();
  share->coming_bytes += request.charge_.answer;
}

void AdmissionQueue::Release(const PendingRequest& request, bool ran) {
  if (request.ticket_.is_work && rate_.End(request.charge_.work, ran)) {
    rate_.Measure(/*saturated=*/waiting_ > 0 || options_.requests == 0, clock_());
  }
  ConnectionShare* const share = request.ticket_.share;
  if (share == nullptr) return;
  ConnectionShare::Line& line = LineOf(*share, request);
  line.batched -= request.ticket_.units;
  line.batched_work -= request.charge().own_work();
  share->coming_bytes -= request.charge_.answer;
  share->in_flight_bytes -= request.charge_.held;
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
      rate_.NanosecondsFor(rate_.in_progress() + share.small.waiting_work + share.large.waiting_work) / 2e6;
  const std::uint64_t bytes = request->charge_.held;
  batcher_.Refuse(
      request,
      absl::ResourceExhaustedError(absl::StrCat(
          "the connection's unanswered requests hold ", share.in_flight_bytes - bytes, " bytes, this one takes ", bytes,
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

void AdmissionQueue::Submit(PendingRequest* request, ConnectionShare* share, CallKind kind, TimePoint now) {
  request->charge_ = ChargeOf(request->spec(), request->message_bytes_, kind, options_.prices);
  request->ticket_ = {this, share, UnitsOf(kind)};
  const bool has_bytes = HasBytes(share, request->charge_.held);
  if (share != nullptr) share->in_flight_bytes += request->charge_.held;
  if (!has_bytes) {
    Count(*request);
    return RefuseBytes(request);
  }
  if (share == nullptr) return Admit(request, TooLate(*request, rate_.in_progress(), now), now);
  if (busy_ > (share->batched() > 0 ? 1u : 0u)) shared_until_ = now + options_.shared_for;
  ConnectionShare::Line& line = LineOf(*share, *request);
  const bool waits = !line.waiting.empty() || !HasRoom(*share, line, *request, now);
  const Nanoseconds too_late = TooLate(*request, waits ? WorkBefore(line) : rate_.in_progress(), now);
  if (!waits || too_late.count() > 0) return Admit(request, too_late, now);
  Enqueue(request, line);
}

void AdmissionQueue::Enqueue(PendingRequest* request, ConnectionShare::Line& line) {
  line.waiting.push_back(request);
  line.waiting_work += request->charge_.work;
  waiting_work_ += request->charge_.work;
  ++waiting_;
  if (!std::exchange(line.listed, true)) circle_.push_back(&line);
}

PendingRequest* AdmissionQueue::Dequeue(ConnectionShare::Line& line) {
  PendingRequest* const request = line.waiting.front();
  line.waiting.pop_front();
  line.waiting_work -= request->charge_.work;
  waiting_work_ -= request->charge_.work;
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
      PendingRequest* const first = line.waiting.front();
      if (!HasRoom(*first->ticket_.share, line, *first, now)) {
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

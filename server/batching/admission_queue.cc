#include "server/batching/admission_queue.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

namespace softmax::server {
namespace {

// The rate is taken over stretches without a pause, of at least so many bytes of cost (in a shorter one, waiting for
// the device alone counts for too much) and at most so many, and smoothed over eight.
constexpr std::uint64_t kShortestStretch = 256u << 10;
constexpr std::uint64_t kLongestStretch = 2u << 20;
constexpr double kNew = 1.0 / 8;
// What is run has to be done before its deadline and not about then: in an overload those that wait come to stand just
// at the limit that is drawn here, and if it were the deadline itself, half of what is run would be in vain.
constexpr double kMargin = 1.25;
constexpr double kLeastPushbackMs = 20;
constexpr double kMostPushbackMs = 1000;

}  // namespace

bool AdmissionQueue::HasRoom(const ConnectionShare& caller, const PendingRequest& request, TimePoint now) const {
  if (options_.requests == 0 || caller.batched == 0) return true;
  const std::uint64_t factor = now < shared_until_ ? 1 : options_.alone_factor;
  return caller.batched < options_.requests * factor * static_cast<std::uint32_t>(Kind::kUnary) &&
         caller.batched_bytes + request.spec().input_bytes() <= options_.bytes * factor;
}

void AdmissionQueue::Account(const PendingRequest& request, ConnectionShare* caller, std::uint32_t units,
                             TimePoint now) {
  if (cost_in_batcher_ == 0) {  // idle until now
    measured_since_ = now;
    cost_done_ = 0;
  }
  cost_in_batcher_ += CostOf(request);
  if (caller == nullptr) return;
  if (caller->batched == 0) ++busy_;
  caller->batched += units;
  caller->batched_bytes += request.spec().input_bytes();
}

// In the circle, of each other caller as much goes before it as of its own, if that has so much.
std::uint64_t AdmissionQueue::CostBefore(const ConnectionShare* caller, bool waits) const {
  if (caller == nullptr || !waits) return cost_in_batcher_;
  const std::uint64_t callers = circle_.size() + (caller->listed ? 0 : 1);
  return cost_in_batcher_ + std::min(waiting_cost_, caller->waiting_cost * callers);
}

Nanoseconds AdmissionQueue::TooLate(const PendingRequest& request, std::uint64_t cost_before, TimePoint now) const {
  if (request.deadline() == kNoDeadline || cost_before == 0) return Nanoseconds{0};
  if (request.deadline() <= now) return Nanoseconds{0};  // passed already: the batcher says so
  const Nanoseconds wait(static_cast<std::int64_t>(static_cast<double>(cost_before) * ns_per_cost_ * kMargin));
  return request.deadline() <= now + wait ? wait : Nanoseconds{0};
}

void AdmissionQueue::Refuse(PendingRequest* request, Nanoseconds wait, TimePoint now) {
  const auto us = [](Nanoseconds time) { return std::chrono::duration_cast<std::chrono::microseconds>(time).count(); };
  batcher_.Refuse(request,
                  absl::ResourceExhaustedError(absl::StrCat("the deadline leaves ", us(request->deadline() - now),
                                                            " us, and what is before the request may take ", us(wait),
                                                            " us; try again after the pushback")),
                  RefuseReason::kDeadline, static_cast<std::uint32_t>(us(wait) / 1000 + 1));
}

void AdmissionQueue::RefuseBytes(PendingRequest* request, const ConnectionShare& caller) {
  // Half of what is before it has been answered by then.
  const double wait_ms = static_cast<double>(cost_in_batcher_ + caller.waiting_cost) * ns_per_cost_ / 2e6;
  const std::uint64_t bytes = BytesOf(*request);
  batcher_.Refuse(
      request,
      absl::ResourceExhaustedError(absl::StrCat(
          "the connection's unanswered requests hold ", caller.in_flight_bytes - bytes, " bytes, this one has ", bytes,
          ", and max_in_flight_bytes_per_connection is ", options_.in_flight_bytes, "; try again after the pushback")),
      RefuseReason::kConnectionBytes,
      static_cast<std::uint32_t>(std::clamp(wait_ms, kLeastPushbackMs, kMostPushbackMs)));
}

// Who is refused is accounted for as well: its Complete calls Done like any other's.
void AdmissionQueue::Enter(PendingRequest* request, ConnectionShare* caller, std::uint32_t units, Nanoseconds too_late,
                           TimePoint now) {
  Account(*request, caller, units, now);
  if (too_late.count() > 0) {
    Refuse(request, too_late, now);
  } else {
    batcher_.Submit(request, now);
  }
}

void AdmissionQueue::Submit(PendingRequest* request, ConnectionShare* caller, Kind kind, TimePoint now) {
  const auto units = static_cast<std::uint32_t>(kind);
  const bool has_bytes = HasBytes(caller, BytesOf(*request));
  if (caller != nullptr) caller->in_flight_bytes += BytesOf(*request);
  if (!has_bytes) {
    Account(*request, caller, units, now);
    return RefuseBytes(request, *caller);
  }
  if (caller != nullptr && busy_ > (caller->batched > 0 ? 1u : 0u)) shared_until_ = now + options_.shared_for;
  const bool waits = caller != nullptr && (!caller->waiting.empty() || !HasRoom(*caller, *request, now));
  const Nanoseconds too_late = TooLate(*request, CostBefore(caller, waits), now);
  if (!waits || too_late.count() > 0) return Enter(request, caller, units, too_late, now);
  caller->waiting.push_back({request, units});
  caller->waiting_cost += CostOf(*request);
  waiting_cost_ += CostOf(*request);
  ++waiting_;
  if (caller->listed) return;
  caller->listed = true;
  circle_.push_back(caller);
}

// A stretch in which nobody waited shows how much was asked for and not how much can be done, unless that was more than
// has been known.
void AdmissionQueue::Measure(TimePoint now) {
  const double rate = static_cast<double>((now - measured_since_).count()) / static_cast<double>(cost_done_);
  const bool is_bound = waiting_ > 0 || options_.requests == 0;
  if (ns_per_cost_ == 0) {
    ns_per_cost_ = rate;
  } else if (is_bound || rate < ns_per_cost_) {
    ns_per_cost_ += kNew * (rate - ns_per_cost_);
  }
  measured_since_ = now;
  cost_done_ = 0;
}

void AdmissionQueue::Done(const PendingRequest& request, ConnectionShare* caller, Kind kind, bool ran, TimePoint now) {
  const std::uint64_t cost = CostOf(request);
  cost_in_batcher_ -= cost;
  if (ran) cost_done_ += cost;
  if (cost_done_ >= kLongestStretch || (cost_in_batcher_ == 0 && cost_done_ >= kShortestStretch)) Measure(now);
  if (caller == nullptr) return;
  caller->batched -= static_cast<std::uint32_t>(kind);
  caller->batched_bytes -= request.spec().input_bytes();
  caller->in_flight_bytes -= BytesOf(request);
  if (caller->batched == 0) --busy_;
  freed_ = true;
}

bool AdmissionQueue::AdmitWaiting(TimePoint now) {
  bool admitted = false;
  // What completes inside Submit frees again; that is seen in the next round of this loop and not deeper in the stack.
  while (may_admit()) {
    freed_ = false;
    for (std::size_t left = circle_.size(); left > 0; --left) {
      ConnectionShare* const caller = circle_.front();
      circle_.pop_front();
      const ConnectionShare::Waiting next = caller->waiting.front();
      if (!HasRoom(*caller, *next.request, now)) {
        circle_.push_back(caller);
        continue;
      }
      caller->waiting.pop_front();
      caller->waiting_cost -= CostOf(*next.request);
      waiting_cost_ -= CostOf(*next.request);
      --waiting_;
      if (caller->waiting.empty()) {
        caller->listed = false;
      } else {
        circle_.push_back(caller);
      }
      Enter(next.request, caller, next.units, TooLate(*next.request, cost_in_batcher_, now), now);
      admitted = true;
      freed_ = true;  // somebody may have room for another
    }
  }
  return admitted;
}

}  // namespace softmax::server

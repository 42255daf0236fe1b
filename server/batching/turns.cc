#include "server/batching/turns.h"

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

bool Turns::HasRoom(const Caller& caller, const Work& work, TimePoint now) const {
  if (options_.requests == 0 || caller.batched == 0) return true;
  const std::uint64_t factor = now < shared_until_ ? 1 : options_.alone_factor;
  return caller.batched < options_.requests * factor * static_cast<std::uint32_t>(Kind::kUnary) &&
         caller.batched_bytes + work.spec().input_bytes() <= options_.bytes * factor;
}

void Turns::Account(const Work& work, Caller* caller, std::uint32_t units, TimePoint now) {
  if (cost_in_shard_ == 0) {  // idle until now
    measured_since_ = now;
    cost_done_ = 0;
  }
  cost_in_shard_ += CostOf(work);
  if (caller == nullptr) return;
  if (caller->batched == 0) ++busy_;
  caller->batched += units;
  caller->batched_bytes += work.spec().input_bytes();
}

// In the circle, of each other caller as much goes before it as of its own, if that has so much.
std::uint64_t Turns::CostBefore(const Caller* caller, bool waits) const {
  if (caller == nullptr || !waits) return cost_in_shard_;
  const std::uint64_t callers = circle_.size() + (caller->listed ? 0 : 1);
  return cost_in_shard_ + std::min(waiting_cost_, caller->waiting_cost * callers);
}

Nanoseconds Turns::TooLate(const Work& work, std::uint64_t cost_before, TimePoint now) const {
  if (work.deadline() == kNoDeadline || cost_before == 0) return Nanoseconds{0};
  if (work.deadline() <= now) return Nanoseconds{0};  // passed already: the shard says so
  const Nanoseconds wait(static_cast<std::int64_t>(static_cast<double>(cost_before) * ns_per_cost_ * kMargin));
  return work.deadline() <= now + wait ? wait : Nanoseconds{0};
}

void Turns::Refuse(Work* work, Nanoseconds wait, TimePoint now) {
  const auto us = [](Nanoseconds time) { return std::chrono::duration_cast<std::chrono::microseconds>(time).count(); };
  shard_.Refuse(work,
                absl::ResourceExhaustedError(absl::StrCat("the deadline leaves ", us(work->deadline() - now),
                                                          " us, and what is before the request may take ", us(wait),
                                                          " us; try again after the pushback")),
                RejectReason::kDeadline, static_cast<std::uint32_t>(us(wait) / 1000 + 1));
}

void Turns::RefuseBytes(Work* work, const Caller& caller) {
  // Half of what is before it has been answered by then.
  const double wait_ms = static_cast<double>(cost_in_shard_ + caller.waiting_cost) * ns_per_cost_ / 2e6;
  const std::uint64_t bytes = BytesOf(*work);
  shard_.Refuse(
      work,
      absl::ResourceExhaustedError(absl::StrCat(
          "the connection's unanswered requests hold ", caller.in_flight_bytes - bytes, " bytes, this one has ", bytes,
          ", and max_in_flight_bytes_per_connection is ", options_.in_flight_bytes, "; try again after the pushback")),
      RejectReason::kConnectionBytes,
      static_cast<std::uint32_t>(std::clamp(wait_ms, kLeastPushbackMs, kMostPushbackMs)));
}

// Who is refused is accounted for as well: its Complete calls Done like any other's.
void Turns::Enter(Work* work, Caller* caller, std::uint32_t units, Nanoseconds too_late, TimePoint now) {
  Account(*work, caller, units, now);
  if (too_late.count() > 0) {
    Refuse(work, too_late, now);
  } else {
    shard_.Submit(work, now);
  }
}

void Turns::Submit(Work* work, Caller* caller, Kind kind, TimePoint now) {
  const auto units = static_cast<std::uint32_t>(kind);
  const bool has_bytes = HasBytes(caller, BytesOf(*work));
  if (caller != nullptr) caller->in_flight_bytes += BytesOf(*work);
  if (!has_bytes) {
    Account(*work, caller, units, now);
    return RefuseBytes(work, *caller);
  }
  if (caller != nullptr && busy_ > (caller->batched > 0 ? 1u : 0u)) shared_until_ = now + options_.shared_for;
  const bool waits = caller != nullptr && (!caller->waiting.empty() || !HasRoom(*caller, *work, now));
  const Nanoseconds too_late = TooLate(*work, CostBefore(caller, waits), now);
  if (!waits || too_late.count() > 0) return Enter(work, caller, units, too_late, now);
  caller->waiting.push_back({work, units});
  caller->waiting_cost += CostOf(*work);
  waiting_cost_ += CostOf(*work);
  ++waiting_;
  if (caller->listed) return;
  caller->listed = true;
  circle_.push_back(caller);
}

// A stretch in which nobody waited shows how much was asked for and not how much can be done, unless that was more than
// has been known.
void Turns::Measure(TimePoint now) {
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

void Turns::Done(const Work& work, Caller* caller, Kind kind, bool ran, TimePoint now) {
  const std::uint64_t cost = CostOf(work);
  cost_in_shard_ -= cost;
  if (ran) cost_done_ += cost;
  if (cost_done_ >= kLongestStretch || (cost_in_shard_ == 0 && cost_done_ >= kShortestStretch)) Measure(now);
  if (caller == nullptr) return;
  caller->batched -= static_cast<std::uint32_t>(kind);
  caller->batched_bytes -= work.spec().input_bytes();
  caller->in_flight_bytes -= BytesOf(work);
  if (caller->batched == 0) --busy_;
  freed_ = true;
}

bool Turns::Admit(TimePoint now) {
  bool admitted = false;
  // What completes inside Submit frees again; that is seen in the next round of this loop and not deeper in the stack.
  while (may_admit()) {
    freed_ = false;
    for (std::size_t left = circle_.size(); left > 0; --left) {
      Caller* const caller = circle_.front();
      circle_.pop_front();
      const Caller::Waiting next = caller->waiting.front();
      if (!HasRoom(*caller, *next.work, now)) {
        circle_.push_back(caller);
        continue;
      }
      caller->waiting.pop_front();
      caller->waiting_cost -= CostOf(*next.work);
      waiting_cost_ -= CostOf(*next.work);
      --waiting_;
      if (caller->waiting.empty()) {
        caller->listed = false;
      } else {
        circle_.push_back(caller);
      }
      Enter(next.work, caller, next.units, TooLate(*next.work, cost_in_shard_, now), now);
      admitted = true;
      freed_ = true;  // somebody may have room for another
    }
  }
  return admitted;
}

}  // namespace softmax::server

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
// A refusal cannot be taken back: the wait has to be too long even if it is over-estimated by half.
constexpr double kCertain = 1.5;
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

Nanoseconds Turns::TooLate(const Work& work, const Caller* caller, TimePoint now) const {
  if (work.deadline() == kNoDeadline || cost_in_shard_ == 0) return Nanoseconds{0};
  if (work.deadline() <= now) return Nanoseconds{0};  // passed already: the shard says so
  const std::uint64_t before = cost_in_shard_ + (caller != nullptr ? caller->waiting_cost : 0);
  const Nanoseconds wait(static_cast<std::int64_t>(static_cast<double>(before) * ns_per_cost_ / kCertain));
  return work.deadline() <= now + wait ? wait : Nanoseconds{0};
}

void Turns::Refuse(Work* work, Nanoseconds wait, TimePoint now) {
  const auto us = [](Nanoseconds time) { return std::chrono::duration_cast<std::chrono::microseconds>(time).count(); };
  shard_.Refuse(work,
                absl::ResourceExhaustedError(absl::StrCat("the deadline leaves ", us(work->deadline() - now),
                                                          " us, and what is before the request takes ", us(wait),
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

void Turns::Submit(Work* work, Caller* caller, Kind kind, TimePoint now) {
  const auto units = static_cast<std::uint32_t>(kind);
  const bool has_bytes = HasBytes(caller, BytesOf(*work));
  if (caller != nullptr) caller->in_flight_bytes += BytesOf(*work);
  if (!has_bytes) {
    Account(*work, caller, units, now);  // its Complete calls Done like any other's
    return RefuseBytes(work, *caller);
  }
  if (const Nanoseconds wait = TooLate(*work, caller, now); wait.count() > 0) {
    Account(*work, caller, units, now);  // its Complete calls Done like any other's
    return Refuse(work, wait, now);
  }
  if (caller == nullptr) {
    Account(*work, nullptr, units, now);
    return shard_.Submit(work, now);
  }
  if (busy_ > (caller->batched > 0 ? 1u : 0u)) shared_until_ = now + options_.shared_for;
  if (caller->waiting.empty() && HasRoom(*caller, *work, now)) {
    Account(*work, caller, units, now);
    return shard_.Submit(work, now);
  }
  caller->waiting.push_back({work, units});
  caller->waiting_cost += CostOf(*work);
  ++waiting_;
  if (caller->listed) return;
  caller->listed = true;
  circle_.push_back(caller);
}

void Turns::Done(const Work& work, Caller* caller, Kind kind, TimePoint now) {
  const std::uint64_t cost = CostOf(work);
  cost_in_shard_ -= cost;
  cost_done_ += cost;
  if (cost_done_ >= kLongestStretch || (cost_in_shard_ == 0 && cost_done_ >= kShortestStretch)) {
    const double rate = static_cast<double>((now - measured_since_).count()) / static_cast<double>(cost_done_);
    ns_per_cost_ = ns_per_cost_ == 0 ? rate : ns_per_cost_ + kNew * (rate - ns_per_cost_);
    measured_since_ = now;
    cost_done_ = 0;
  }
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
      --waiting_;
      if (caller->waiting.empty()) {
        caller->listed = false;
      } else {
        circle_.push_back(caller);
      }
      Account(*next.work, caller, next.units, now);
      shard_.Submit(next.work, now);
      admitted = true;
      freed_ = true;  // somebody may have room for another
    }
  }
  return admitted;
}

}  // namespace softmax::server

#include "server/rpc/queue/control_pace.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

namespace softmax::server {
namespace {

absl::Status EndedError() { return absl::UnavailableError("the connection of this call has ended"); }

absl::Status ClosedError() { return absl::UnavailableError("the server is shutting down"); }

}  // namespace

void ControlPace::Offer(std::function<void()> offer) {
  if (offers_left_ == 0) {
    offers_.push_back(std::move(offer));
    return;
  }
  --offers_left_;
  offer();
}

void ControlPace::Wait(std::shared_ptr<const Connection> connection, PacedWork* work) {
  if (closed_) return work->TakeTurn(ClosedError());
  if (connection == nullptr) return work->TakeTurn(EndedError());
  if (turns_left_ > 0 && lanes_.empty()) {
    --turns_left_;
    return work->TakeTurn(absl::OkStatus());
  }
  auto& lane = lane_of_.try_emplace(connection.get(), lanes_.end()).first->second;
  if (lane == lanes_.end()) lane = lanes_.insert(lanes_.end(), Lane{std::move(connection), {}});
  lane->work.push_back(work);
  ++waiting_;
  if (lane->work.size() > most_of_a_connection_) {
    End(lane, absl::ResourceExhaustedError(absl::StrCat("calls without tensors: more than ", most_of_a_connection_,
                                                        " of this connection wait for their turn")));
  } else if (waiting_ > kMostWaiting) {
    const auto longest = std::max_element(lanes_.begin(), lanes_.end(),
                                          [](const Lane& a, const Lane& b) { return a.work.size() < b.work.size(); });
    End(longest, absl::ResourceExhaustedError(absl::StrCat("calls without tensors: more than ", kMostWaiting,
                                                           " wait for their turn, and most of them are of this "
                                                           "connection")));
  }
}

void ControlPace::Advance(TimePoint now) {
  if (now < next_) return;
  next_ = now + kStep;
  turns_left_ = kTurnsAStep;
  offers_left_ = kOffersAStep;
  if (now >= look_for_ended_) {
    look_for_ended_ = now + kLookForEnded;
    for (auto lane = lanes_.begin(); lane != lanes_.end();) {
      const auto next = std::next(lane);
      if (lane->connection->left()) End(lane, EndedError());
      lane = next;
    }
  }
  while (turns_left_ > 0 && !lanes_.empty()) TakeFrontTurn();
  std::vector<std::function<void()>> offers = std::move(offers_);
  offers_.clear();
  for (std::function<void()>& offer : offers) Offer(std::move(offer));
}

void ControlPace::TakeFrontTurn() {
  const auto lane = lanes_.begin();
  PacedWork* const work = lane->work.front();
  lane->work.pop_front();
  --waiting_;
  --turns_left_;
  if (lane->work.empty()) {
    lane_of_.erase(lane->connection.get());
    lanes_.erase(lane);
  } else {
    lanes_.splice(lanes_.end(), lanes_, lane);
  }
  work->TakeTurn(absl::OkStatus());
}

void ControlPace::End(Lanes::iterator lane, const absl::Status& status) {
  const Lane ended = std::move(*lane);
  waiting_ -= ended.work.size();
  lane_of_.erase(ended.connection.get());
  lanes_.erase(lane);
  for (PacedWork* const work : ended.work) work->TakeTurn(status);
}

void ControlPace::Close() {
  closed_ = true;
  while (!lanes_.empty()) End(lanes_.begin(), ClosedError());
}

}  // namespace softmax::server

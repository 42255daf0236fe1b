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
  if (offers_left_ == 0) return offers_.push_back(std::move(offer));
  --offers_left_;
  offer();
}

void ControlPace::Wait(std::shared_ptr<const Connection> connection, PacedWork* work) {
  if (closed_) return work->TakeTurn(ClosedError());
  if (connection == nullptr) return work->TakeTurn(EndedError());
  if (turns_left_ > 0 && lines_.empty()) {
    --turns_left_;
    return work->TakeTurn(absl::OkStatus());
  }
  auto& line = line_of_.try_emplace(connection.get(), lines_.end()).first->second;
  if (line == lines_.end()) line = lines_.insert(lines_.end(), Line{std::move(connection), {}});
  line->work.push_back(work);
  ++waiting_;
  if (line->work.size() > most_of_a_connection_) {
    End(line, absl::ResourceExhaustedError(absl::StrCat("calls without tensors: more than ", most_of_a_connection_,
                                                        " of this connection wait for their turn")));
  } else if (waiting_ > kMostWaiting) {
    const auto longest = std::max_element(lines_.begin(), lines_.end(),
                                          [](const Line& a, const Line& b) { return a.work.size() < b.work.size(); });
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
    for (auto line = lines_.begin(); line != lines_.end();) {
      const auto next = std::next(line);
      if (line->connection->left()) End(line, EndedError());
      line = next;
    }
  }
  while (turns_left_ > 0 && !lines_.empty()) TakeFrontTurn();
  std::vector<std::function<void()>> offers = std::move(offers_);
  offers_.clear();
  for (std::function<void()>& offer : offers) Offer(std::move(offer));
}

void ControlPace::TakeFrontTurn() {
  const auto line = lines_.begin();
  PacedWork* const work = line->work.front();
  line->work.pop_front();
  --waiting_;
  --turns_left_;
  if (line->work.empty()) {
    line_of_.erase(line->connection.get());
    lines_.erase(line);
  } else {
    lines_.splice(lines_.end(), lines_, line);
  }
  work->TakeTurn(absl::OkStatus());
}

void ControlPace::End(Lines::iterator line, const absl::Status& status) {
  const Line ended = std::move(*line);
  waiting_ -= ended.work.size();
  line_of_.erase(ended.connection.get());
  lines_.erase(line);
  for (PacedWork* const work : ended.work) work->TakeTurn(status);
}

void ControlPace::Close() {
  closed_ = true;
  while (!lines_.empty()) End(lines_.begin(), ClosedError());
}

}  // namespace softmax::server

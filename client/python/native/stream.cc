#include "client/python/native/stream.h"

#include <chrono>
#include <limits>
#include <utility>

#include "client/python/native/errors.h"

namespace softmax::python {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

std::shared_ptr<Stream> Stream::Open(std::shared_ptr<Client> owner, client::Client& client,
                                     const client::StreamOptions& options) {
  std::shared_ptr<Stream> stream(new Stream(std::move(owner), options.max_in_flight));
  client::StreamOptions with_room = options;
  // The library counts an answer as there when its callback has returned, and we inside of it.
  if (options.max_in_flight > 0) ++with_room.max_in_flight;
  absl::StatusOr<std::unique_ptr<client::Stream>> opened;
  {
    const Unlocked unlocked;
    opened =
        client.OpenStream(with_room, [self = stream.get()](std::uint64_t id, absl::StatusOr<client::Tensor> answer) {
          self->OnAnswer(id, std::move(answer));
        });
  }
  if (!opened.ok()) Raise(opened.status());
  stream->stream_ = *std::move(opened);
  return stream;
}

Stream::~Stream() {
  if (Forked()) {
    static_cast<void>(stream_.release());  // as the client
    for (auto& [id, pending] : unanswered_) static_cast<void>(pending.release());
    return;
  }
  Close();
}

bool Stream::TakeRoom(bool wait) {
  for (;;) {
    {
      const Unlocked unlocked;
      std::unique_lock lock(mu_);
      const auto has_room = [this] { return room_ > 0 || gate_.stop().stop_requested(); };
      if (wait ? changed_.wait_for(lock, kSignalInterval, has_room) : has_room()) {
        if (room_ == 0) return true;  // closed; what is sent will tell
        --room_;
        ++outstanding_;
        return true;
      }
    }
    if (!wait) return false;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
}

void Stream::ReturnRoom() {
  const std::lock_guard lock(mu_);
  ++room_;
  --outstanding_;
  changed_.notify_all();
}

bool Stream::Send(py::handle number, py::handle x, const py::tuple& options, bool wait) {
  const Gate::Passage passage(gate_);
  const auto id = Argument<std::uint64_t>("id", number, "a whole number from 0 to 2**64 - 1");
  auto pending = std::make_unique<Pending>();
  pending->id = id;
  pending->input = Borrowed::Input(x, "x");
  owner_->CheckReachable(pending->input, "x");
  const RequestOptions request = OptionsOf(options);
  const client::TensorView view = pending->input.view();
  {
    const std::lock_guard lock(mu_);
    if (unanswered_.contains(id)) throw py::value_error("id: " + std::to_string(id) + " is unanswered already");
  }
  if (!TakeRoom(wait)) return false;
  absl::Status status;
  {
    const Unlocked unlocked;
    const std::lock_guard sending(send_mu_);
    {
      const std::lock_guard lock(mu_);
      unanswered_[id] = std::move(pending);
    }
    status = stream_->Send(id, view, request.options);
    if (!status.ok()) {
      const std::lock_guard lock(mu_);
      pending = std::move(unanswered_[id]);
      unanswered_.erase(id);
    }
  }
  if (status.ok()) return true;
  ReturnRoom();
  Raise(status);
}

void Stream::OnAnswer(std::uint64_t id, absl::StatusOr<client::Tensor> answer) {
  std::unique_ptr<Pending> pending;
  {
    const std::lock_guard lock(mu_);
    const auto found = unanswered_.find(id);
    pending = std::move(found->second);
    unanswered_.erase(found);
    ++room_;
    changed_.notify_all();
  }
  pending->answer = std::move(answer);
  answered_.Put(std::move(pending));
}

py::object Stream::Receive(py::handle patience) {
  const Gate::Passage passage(gate_);
  const bool has_limit = !patience.is_none();
  const auto until = Clock::now() + (has_limit ? PatienceOf(patience) : std::chrono::nanoseconds(0));
  for (;;) {
    std::vector<std::unique_ptr<Pending>> taken;
    if (outstanding() == 0) return py::none();
    {
      const Unlocked unlocked;
      const std::chrono::nanoseconds left = has_limit ? until - Clock::now() : kSignalInterval;
      taken = answered_.Take(1, std::min<std::chrono::nanoseconds>(kSignalInterval, left));
    }
    if (!taken.empty()) {
      const std::lock_guard lock(mu_);
      --outstanding_;
      return py::make_tuple(taken[0]->id, taken[0]->Result());
    }
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    if ((has_limit && Clock::now() >= until) || gate_.stop().stop_requested()) return py::none();
  }
}

py::list Stream::ReceiveAll() {
  const Gate::Passage passage(gate_);
  py::list results;
  for (const auto& pending : answered_.Take(std::numeric_limits<std::size_t>::max(), {})) {
    results.append(py::make_tuple(pending->id, pending->Result()));
  }
  const std::lock_guard lock(mu_);
  outstanding_ -= results.size();
  return results;
}

std::size_t Stream::outstanding() {
  const std::lock_guard lock(mu_);
  return outstanding_;
}

void Stream::Finish() {
  const Gate::Passage passage(gate_);
  const absl::Status ended = Interruptible(
      [this] {
        const std::lock_guard sending(send_mu_);
        return stream_->Finish();
      },
      [this] { stream_->Cancel(); });
  if (!ended.ok()) Raise(ended);
}

void Stream::Cancel() {
  const Gate::Passage passage(gate_);
  const Unlocked unlocked;
  stream_->Cancel();
}

void Stream::Close() {
  if (Forked()) return;
  const bool first = gate_.Close();
  const Unlocked unlocked;
  if (first && stream_) stream_->Cancel();
  gate_.AwaitAll();
  if (first) stream_.reset();
}

}  // namespace softmax::python

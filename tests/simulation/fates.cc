#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstdlib>

#include "tests/simulation/contents.h"
#include "tests/simulation/world_state.h"

namespace softmax::simulation {

void Request::Begin(const Action& action, Connection* connection) {
  action_ = &action;
  connection_ = connection;
  left_ = copied_ = completed_ = false;
  spec_ = {};
  spec_.input_type = action.input;
  spec_.output_type = action.output;
  spec_.operation = action.operation;
  spec_.scale = action.half_scale ? 0.5 : 1.0;
  spec_.outer = action.rows;
  spec_.cols = action.columns;
  spec_.has_lengths = action.has_lengths;
  arrived_ = g_now;
  deadline_ = action.deadline.count() > 0 ? g_now + action.deadline : kNoDeadline;
  lengths_.clear();
  for (std::int64_t row = 0; action.has_lengths && row < spec_.outer; ++row) {
    lengths_.push_back(LengthOf(action.id, row, spec_.cols));
  }
  spec_.input_in_region = action.input_in_region;
  spec_.output_in_region = action.output_in_region;
  MakeRegion();
}

// The server holds it as long as the request, and nobody else does.
void Request::MakeRegion() {
  regions_ = {};
  if (!spec_.in_regions()) return;
  const bool one_size = kernels::SizeOf(spec_.input_type) == kernels::SizeOf(spec_.output_type);
  const std::uint64_t output_at = action_->in_place && one_size ? 0 : (spec_.input_bytes() + 7) / 8 * 8;
  region_.assign(output_at + spec_.input_bytes() + spec_.tensor_bytes() + 8, std::byte{0});
  std::byte* const memory = region_.data();
  if (spec_.input_in_region) FillInput(memory);
  world_.live_regions_.emplace(memory, region_.size());
  regions_.input = spec_.input_in_region ? memory : nullptr;
  regions_.output = spec_.output_in_region ? memory + output_at : nullptr;
  regions_.device = action_->region_device;
  regions_.held[0] =
      std::make_shared<const server::Region>(server::RegionToken{}, memory, region_.size(), action_->region_device,
                                             [&world = world_, memory] { world.live_regions_.erase(memory); });
}

void Request::CopyInput(std::byte* destination) {
  FillInput(destination);
  copied_ = true;
  world_.Copied(*this, world_.running_thread_ == thread_);
}

void Request::FillInput(std::byte* destination) const {
  WithWord(spec_.input_type, [&](auto word) {
    for (std::int64_t row = 0; row < spec_.outer; ++row) {
      for (std::int64_t column = 0; column < spec_.cols; column = NextColumn(column)) {
        const auto index = static_cast<std::uint64_t>(row * spec_.cols + column);
        Store<decltype(word)>(destination, index, ElementOf(action_->id, index));
      }
    }
  });
}

template <typename In, typename Out>
bool Request::IsAnswerOf(const std::byte* output_bytes) const {
  for (std::int64_t row = 0; row < spec_.outer; ++row) {
    const std::uint64_t length = spec_.has_lengths ? lengths_[static_cast<std::size_t>(row)] : 0;
    for (std::int64_t column = 0; column < spec_.cols; column = NextColumn(column)) {
      const auto index = static_cast<std::uint64_t>(row * spec_.cols + column);
      const auto element = static_cast<In>(ElementOf(action_->id, index));
      const std::uint64_t expected = AnswerTo(element, spec_.operation, spec_.scale, length);
      if (Load<Out>(output_bytes, index) != static_cast<Out>(expected)) return false;
    }
  }
  return true;
}

bool Request::IsAnswer(const std::byte* output_bytes) const {
  return WithWord(spec_.input_type, [&](auto in) {
    return WithWord(spec_.output_type, [&](auto out) { return IsAnswerOf<decltype(in), decltype(out)>(output_bytes); });
  });
}

void Request::Complete(const server::Answer& answer) {
  world_.verdict_.Expect(!completed_, "exactly once: request #", action_->id, " was completed twice");
  world_.verdict_.Expect(world_.running_thread_ == thread_, "threads: request #", action_->id, " of thread ", thread_,
                         " was completed on thread ", world_.running_thread_);
  completed_ = true;
  world_.Completed(*this, answer);
}

// The memory of regions is there while a device works in it.
void World::CheckMemory(const server::Batch& batch) {
  const auto check = [&](const void* place) {
    const auto* const byte = static_cast<const std::byte*>(place);
    if (byte >= memory_ && byte < memory_ + arena_.bytes_total()) return;
    for (const auto& [begin, bytes] : live_regions_) {
      if (byte >= begin && byte < begin + bytes) return;
    }
    verdict_.Fail("regions: a device works in memory that was given back");
  };
  for (const kernels::Segment& segment : batch.segments()) {
    check(segment.input);
    check(segment.output);
  }
}

void SimulatedLane::Launch(server::Batch* batch) {
  World& world = world_;
  Device& device = world.hardware_[device_];
  const std::uint32_t number = ++world.batches_;
  // None: all of it lies in regions.
  const std::byte* const begin = batch->span() ? batch->span().address() : nullptr;
  const std::uint64_t bytes = batch->span_bytes();
  world.Note(1, number, batch->requests(), "thread ", thread_, " launches batch ", number, " of ", batch->requests(),
             " requests on device ", device_);
  world.verdict_.Expect(world.devices_.state(device_) == server::Devices::State::kServing, "devices: batch ", number,
                        " was launched on device ", device_, ", which does not serve");
  // What took one device may have broken the others: each is tested first.
  world.verdict_.Expect(device.tested_at == world.devices_.lost(), "devices: batch ", number,
                        " was launched on device ", device_, ", which was not tested after the last loss");
  world.verdict_.Expect(batch->device() == server::Region::kHost || batch->device() == static_cast<int>(device_),
                        "regions: batch ", number, " lies in the memory of device ", batch->device(),
                        " and was launched on device ", device_);
  if (bytes > 0) world.spans_.Take(begin, bytes, number);
  ++world.threads_[thread_].running;
  world.verdict_.Expect(world.threads_[thread_].running <= world.settings_.batcher.max_in_flight, "limits: thread ",
                        thread_, " has ", world.threads_[thread_].running, " batches in flight");
  Random random(world.script_.seed, kLatency, number - 1);
  TimePoint due = g_now + world.settings_.latency + Nanoseconds(random.Below(20'000)) + Nanoseconds(batch->bytes() / 8);
  if (device.hangs) {
    due = kNoDeadline;
    --world.threads_[thread_].running;
    // It may write at any time later.
    world.Push(EventKind::kLateWrite, g_now + Nanoseconds(random.Below(50'000'000)), static_cast<std::uint32_t>(bytes),
               const_cast<std::byte*>(begin));
  }
  if (!running_.empty()) due = std::max(due, running_.back().due);
  running_.push_back({batch, due, begin, bytes, device.fails});
  if (due != kNoDeadline && !world.settings_.lanes_poll) world.Push(EventKind::kLaneDone, due, thread_);
  world.WatchDevices();
}

server::Batch* SimulatedLane::Poll() {
  if (running_.empty() || running_.front().due > g_now) return nullptr;
  const Running done = running_.front();
  running_.pop_front();
  --world_.threads_[thread_].running;
  if (done.fails) {
    done.batch->status = absl::InternalError("simulated: the device failed");
  } else {
    world_.CheckMemory(*done.batch);
    Run(*done.batch);
    if (done.bytes > 0) world_.spans_.GiveBack(done.begin, done.bytes);
  }
  world_.Note(2, thread_, device_, "device ", device_, " returns a batch to thread ", thread_,
              done.fails ? ": failed" : "");
  return done.batch;
}

bool SimulatedLane::needs_polling() const { return world_.settings_.lanes_poll; }

void ChosenLane::Launch(server::Batch* batch) {
  Device& device = world_.hardware_[device_];
  if (device.lost_when_chosen) {
    device.lost_when_chosen = false;
    device.fails = true;
    world_.Note(14, device_, 0, "device ", device_, " is lost before the launch");
    world_.devices_.Lose(device_, "simulated: another thread lost it", server::Devices::Loss::kFailed);
  }
  lane_->Launch(batch);
}

// What is before a request is work for the devices, for each of the others at most so long, and no waiting for memory.
// Admission takes a large request for as many small ones as have its cost, so here it is as many, too.
void World::CheckEstimate(const Request& request, const absl::Status& status) {
  if (!absl::IsResourceExhausted(status)) return;
  const std::string before_it = "may take ";
  const std::string message(status.message());
  const std::size_t at = message.find(before_it);
  if (at == std::string::npos || must_watch_) return;
  const long estimate_us = std::strtol(message.c_str() + at + before_it.size(), nullptr, 10);
  verdict_.Expect(
      std::chrono::microseconds(estimate_us) < kLongestWork * (pending_work_ / server::Charge::kCallWork + 8),
      "estimates: request #", request.action().id, " was refused for ", estimate_us, " us of work before it");
}

void World::Copied(Request& request, bool by_own_thread) {
  Thread& thread = threads_[request.thread()];
  const std::uint64_t since = thread.copied - request.copied_before;
  ++thread.copied;
  ++thread.settled;
  ++thread.placed;
  if (!by_own_thread) {
    // A small request that is alone passes a large one that waits for memory, but for its turns. (Of those that pass,
    // the first takes its room first: where the arena is only a few batches large, that may be long in coming.)
    const bool small = server::Batch::NeedOf(request.spec()).total() <= settings_.slab_bytes &&
                       arena_.bytes_total() >= 16 * settings_.batcher.batch.bytes;
    const Nanoseconds waited = g_now - std::max(request.arrived(), memory_was_short_at_);
    verdict_.Expect(!request.is_alone || !small || must_watch_ || waited < kLongestPassing, "head of line: request #",
                    request.action().id, ", small and its connection's only one, waited ", waited.count(),
                    " ns for memory while there was some");
    return;
  }
  verdict_.Expect(request.deadline() > g_now, "deadlines: request #", request.action().id,
                  " was taken although its deadline had passed");
  // Who has the only request of a connection waits for a few turns of the others at most, unless memory is short.
  if (settings_.admission.requests == 0 || !request.is_alone || arena_.slabs_used() * 2 > arena_.slabs_total()) return;
  const std::uint64_t overtaken_by = since > request.ahead ? since - request.ahead : 0;
  const std::uint64_t most = 8 * (std::uint64_t{settings_.connections} + 1) * (settings_.admission.requests + 1) *
                             settings_.admission.alone_factor;
  verdict_.Expect(overtaken_by <= most, "turns: request #", request.action().id, ", its connection's only one, was ",
                  "overtaken by ", overtaken_by, " later ones");
}

void World::CheckFate(const Request& request, const server::Answer& answer) {
  const Action& action = request.action();
  const auto allowed = [&] {
    switch (answer.status.code()) {
      case absl::StatusCode::kOk:
        return true;
      case absl::StatusCode::kDeadlineExceeded:
        return action.deadline.count() > 0 && request.deadline() <= g_now;
      case absl::StatusCode::kCancelled:
        return request.CallerLeft();
      case absl::StatusCode::kResourceExhausted:
        // What has passed already is DEADLINE_EXCEEDED, however much is before it.
        return !absl::StrContains(answer.status.message(), "the deadline leaves -");
      case absl::StatusCode::kUnavailable:
        // What lies in a lost device's memory can run nowhere else.
        return stopped_ || devices_.lost() == devices_.count() ||
               (request.regions().device != server::Region::kHost &&
                devices_.state(static_cast<std::uint32_t>(request.regions().device)) == server::Devices::State::kLost);
      case absl::StatusCode::kInternal:
        return device_trouble_;
      case absl::StatusCode::kInvalidArgument:
        return server::Batch::NeedOf(request.spec()).total() > arena_.bytes_total();
      default:
        return false;
    }
  };
  if (!allowed()) verdict_.Fail("fates: request #", action.id, " was answered with ", answer.status.ToString());
}

void World::Completed(Request& request, const server::Answer& answer) {
  const Action& action = request.action();
  ++completed_;
  pending_work_ -= request.fair_charge().work;
  verdict_.Expect(request.charge().work == 0 || request.charge().work == request.fair_charge().work,
                  "charges: request #", action.id, " was taken for ", request.charge().work, " of work");
  Note(12, action.id, static_cast<std::uint64_t>(answer.status.code()), "request #", action.id, " is answered with ",
       answer.status.code());
  for (const auto& region : request.regions().held) {
    verdict_.Expect(region == nullptr, "regions: request #", action.id, " holds its region beyond its answer");
  }
  CheckFate(request, answer);
  CheckEstimate(request, answer.status);
  Thread& thread = threads_[request.thread()];
  if (request.copied()) {
    --thread.placed;
  } else {
    ++thread.settled;
  }
  if (absl::IsCancelled(answer.status)) ++dropped_;
  if (Connection* const connection = request.connection()) {
    connection->requests[request.place] = connection->requests.back();
    connection->requests[request.place]->place = request.place;
    connection->requests.pop_back();
  }
  if (!answer.status.ok()) return Recycle(&request);
  ++answered_;
  verdict_.Expect(answer.ran, "answers: request #", action.id, " is OK and did not run");
  const bool ran_alone = answer.batch_rows == static_cast<std::uint64_t>(request.spec().rows());
  verdict_.Expect(!request.CallerLeft() || !ran_alone || request.left_at() >= g_now - answer.execution,
                  "for nobody: request #", action.id, " was launched alone although its caller had left");
  if (request.spec().elements() == 0) {
    ++empty_;
    return Recycle(&request);
  }
  const std::byte* const in_region = request.region_output();
  verdict_.Expect((answer.output == nullptr) == (in_region != nullptr), "answers: request #", action.id,
                  " was answered at another place than it named");
  verdict_.Expect(request.IsAnswer(in_region != nullptr ? in_region : answer.output), "answers: request #", action.id,
                  " was answered with wrong bytes");
  if (request.CallerLeft() || in_region != nullptr) return Recycle(&request);
  // Large answers leave by reference and keep their slabs until they were sent.
  request.output = answer.output;
  request.held = *answer.span;
  spans_.Take(answer.output, request.spec().output_bytes(), spans_.UserAt(answer.output));
  if (request.share != nullptr) request.share->unread_bytes += request.fair_charge().answer;
  unread_budget_.Add(static_cast<std::int64_t>(request.fair_charge().answer));
  Push(EventKind::kSent, g_now + action.reads_after, 0, &request);
}

void World::Sent(Request* request) {
  verdict_.Expect(request->IsAnswer(request->output), "answers: the answer of request #", request->action().id,
                  " changed before it was sent");
  spans_.GiveBack(request->output, request->spec().output_bytes());
  if (request->share != nullptr) request->share->unread_bytes -= request->fair_charge().answer;
  unread_budget_.Add(-static_cast<std::int64_t>(request->fair_charge().answer));
  request->held.Reset();
  Recycle(request);
}

void World::Recycle(Request* request) {
  // The last of a connection that has gone.
  if (request->share != nullptr && request->share.use_count() == 1) CheckShare(*request->share);
  request->share.reset();
  threads_[request->thread()].spare.emplace_back(request);
}

// What one connection may have with the batcher and in all. A line with nothing there may have any one request.
void World::CheckLimits(const server::ConnectionShare& share) {
  const server::AdmissionQueue::Options& most = settings_.admission;
  verdict_.Expect(most.in_flight_bytes == 0 || share.in_flight_bytes <= most.in_flight_bytes,
                  "limits: a connection holds more bytes than it may");
  verdict_.Expect(share.owed_bytes() <= std::max({most.always_owed, most.unread_bytes, largest_answer_}),
                  "limits: a connection is owed more than it may");
  if (most.requests == 0) return;
  constexpr std::uint32_t kUnits = server::AdmissionQueue::kUnitsOfUnary;
  for (const server::ConnectionShare::Line* line : {&share.small, &share.large}) {
    verdict_.Expect(line->batched < (most.requests * most.alone_factor + 1) * kUnits, "limits: a connection has ",
                    line->batched, " units with the batcher, more than it may");
    verdict_.Expect(line->batched <= kUnits || line->batched_work <= most.work * most.alone_factor,
                    "limits: a connection has ", line->batched_work, " of work with the batcher, more than it may");
  }
}

void World::CheckShare(const server::ConnectionShare& share) {
  verdict_.Expect(
      share.batched() == 0 && share.in_flight_bytes == 0 && share.owed_bytes() == 0 && share.small.waiting.empty() &&
          share.large.waiting.empty() && share.small.batched_work == 0 && share.large.batched_work == 0,
      "bytes: a connection without requests counts ", share.batched(), " units and ", share.in_flight_bytes, " bytes");
}

void World::CheckEnd() {
  verdict_.Expect(completed_ == arrived_, "exactly once: ", arrived_ - completed_, " of ", arrived_,
                  " requests were never answered");
  for (const Connection& connection : connections_) CheckShare(*connection.share);
  for (const Thread& thread : threads_) {
    verdict_.Expect(thread.batcher->pending() == 0 && thread.admission->waiting() == 0, "bytes: a thread counts ",
                    thread.batcher->pending(), " pending and ", thread.admission->waiting(), " waiting requests");
  }
  verdict_.Expect(backlog_.queued_requests() == 0 && backlog_.queued_bytes() == 0, "bytes: the backlog counts ",
                  backlog_.queued_requests(), " requests and ", backlog_.queued_bytes(), " bytes");
  if (devices_.lost() == 0) {
    verdict_.Expect(arena_.slabs_used() == 0, "spans: ", arena_.slabs_used(), " slabs were not given back");
  } else {
    verdict_.Expect(arena_.slabs_used() >= spans_.used(), "spans: what a lost device may still write was given back");
  }
  for (const server::Devices::View& device : devices_.views()) {
    verdict_.Expect(device.bytes_in_flight == 0, "bytes: a device counts ", device.bytes_in_flight, " in flight");
  }
  std::uint64_t counted = recorder_.batched + empty_ + dropped_;
  for (const std::uint64_t refused : recorder_.refused) counted += refused;
  verdict_.Expect(counted == completed_, "counters: they say ", counted, " requests and ", completed_, " there were");
}

}  // namespace softmax::simulation

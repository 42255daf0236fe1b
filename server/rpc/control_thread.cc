#include "server/rpc/control_thread.h"

#include "server/rpc/control_calls.h"

namespace softmax::server {
namespace {

constexpr int kArmedCalls = 16;

}  // namespace

ControlThread::ControlThread(ServiceState& state, Health& health, std::unique_ptr<grpc::ServerCompletionQueue> queue,
                             Recorder& recorder)
    : state_(state), health_(health), recorder_(recorder), queue_(std::move(queue)), waker_(queue_.get()) {
  health_.AddListener([this] { waker_.Wake(); });
}

ControlThread::~ControlThread() = default;

void ControlThread::Start() {
  for (int i = 0; i < kArmedCalls; ++i) {
    InfoCall::Arm(*this);
    CheckCall::Arm(*this);
    WatchCall::Arm(*this);
  }
  thread_ = std::thread([this] { Run(); });
}

void ControlThread::Run() {
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) {
    static_cast<Tag*>(tag)->Proceed(ok);
    if (tag != static_cast<Tag*>(&waker_)) continue;
    for (auto it = watches_.begin(); it != watches_.end();) (*it++)->Update();
  }
}

void ControlThread::EndWatches() {
  ending_watches_.store(true);
  waker_.Wake();
}

void ControlThread::ShutdownAndJoin() {
  waker_.Close();
  queue_->Shutdown();
  if (thread_.joinable()) thread_.join();
}

}  // namespace softmax::server

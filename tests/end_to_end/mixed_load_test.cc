// Many connections, random cancellations and deadlines: every call ends exactly once, no answer is wrong, nothing
// leaks.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <thread>

#include "softmax/v1/softmax.grpc.pb.h"
#include "tests/end_to_end/service.h"
#include "tests/support/kernel_cases.h"

namespace softmax::testing {
namespace {

constexpr int kConnections = 32;

// Calls of one connection on a completion queue of its own, `kInFlight` at a time.
class Caller {
 public:
  static constexpr int kInFlight = 8;

  Caller(const Service& service, const std::vector<Question>& questions, std::uint64_t seed)
      : stub_(v1::SoftmaxService::NewStub(service.NewChannel())), questions_(questions), random_(seed) {
    for (const Question& question : questions) requests_.push_back(NativeRequestOf(question));
  }

  void Run(int calls) {
    int started = 0, ended = 0;
    while (ended < calls) {
      for (; started < calls && started - ended < kInFlight; ++started) Start();
      void* tag = nullptr;
      bool ok = false;
      ASSERT_TRUE(queue_.Next(&tag, &ok));
      End(static_cast<Call*>(tag));
      ++ended;
    }
  }

  std::map<int, int> codes;
  int wrong = 0;

 private:
  struct Call {
    std::size_t question = 0;
    grpc::ClientContext context;
    v1::SoftmaxResponse response;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<v1::SoftmaxResponse>> reader;
  };

  void Start() {
    auto* call = new Call;
    call->question = static_cast<std::size_t>(random_.Below(static_cast<std::int64_t>(questions_.size())));
    if (random_.Below(10) == 0) {
      call->context.set_deadline(std::chrono::system_clock::now() + std::chrono::microseconds(random_.Below(3000)));
    }
    call->context.set_wait_for_ready(true);  // a connection that is still being made is no failed call
    call->reader = stub_->AsyncSoftmax(&call->context, requests_[call->question], &queue_);
    call->reader->Finish(&call->response, &call->status, call);
    if (random_.Below(20) == 0) call->context.TryCancel();
  }

  void End(Call* call) {
    std::unique_ptr<Call> owned(call);
    ++codes[call->status.error_code()];
    if (call->status.error_code() == grpc::UNAVAILABLE && codes[grpc::UNAVAILABLE] == 1) {
      ADD_FAILURE() << call->status.error_message() << " " << call->status.error_details();
    }
    if (!call->status.ok()) return;
    const std::string& data = call->response.output().data();
    const auto& expected = questions_[call->question];
    const kernels::Judgement judgement = JudgeAnswer(expected, std::as_bytes(std::span(data.data(), data.size())));
    if (!judgement.ok) ++wrong;
  }

  grpc::CompletionQueue queue_;
  std::unique_ptr<v1::SoftmaxService::Stub> stub_;
  const std::vector<Question>& questions_;
  std::vector<v1::SoftmaxRequest> requests_;
  Random random_;
};

std::map<int, int> RunCallers(const Service& service, const std::vector<Question>& questions, int calls,
                              std::atomic<int>* wrong) {
  std::mutex mu;
  std::map<int, int> codes;
  std::vector<std::jthread> threads;
  for (int c = 0; c < kConnections; ++c) {
    threads.emplace_back([&, c] {
      Caller caller(service, questions, static_cast<std::uint64_t>(c + calls));
      caller.Run(calls / kConnections);
      std::lock_guard lock(mu);
      for (const auto& [code, count] : caller.codes) codes[code] += count;
      *wrong += caller.wrong;
    });
  }
  threads.clear();
  return codes;
}

// A sanitizer sees a fault the first time.
#ifdef __SANITIZE_ADDRESS__
constexpr int kCalls = 50000;
#else
constexpr int kCalls = 200000;
#endif

int TotalCalls() {
  const char* const text = std::getenv("SOFTMAX_TEST_CALLS");
  return text != nullptr ? std::atoi(text) : kCalls;
}

TEST(MixedLoad, EveryCallEndsOnceNoneWrongNothingLeaks) {
  Service service;
  std::vector<Question> questions;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    questions.push_back(RandomQuestion(seed, seed % 20 == 0 ? 20000 : 200));
  }
  std::atomic<int> wrong{0};
  const int total = TotalCalls() / kConnections * kConnections;
  std::map<int, int> codes = RunCallers(service, questions, total / 4, &wrong);
  const std::int64_t warm = ResidentBytes();
  for (const auto& [code, count] : RunCallers(service, questions, total - total / 4, &wrong)) {
    codes[code] += count;
  }
  const std::int64_t grown = ResidentBytes() - warm;
  int ended = 0;
  for (const auto& [code, count] : codes) {
    ended += count;
    // RESOURCE_EXHAUSTED: a deadline that could not be met.
    EXPECT_TRUE(code == grpc::OK || code == grpc::CANCELLED || code == grpc::DEADLINE_EXCEEDED ||
                code == grpc::RESOURCE_EXHAUSTED)
        << "code " << code << " x " << count;
  }
  EXPECT_NEAR(ended, total, kConnections * 2);
  EXPECT_GT(codes[grpc::OK], total / 2);
  EXPECT_GT(codes[grpc::CANCELLED], 0);
  EXPECT_GT(codes[grpc::DEADLINE_EXCEEDED], 0);
  EXPECT_EQ(wrong, 0);
#if !defined(__SANITIZE_ADDRESS__)
  EXPECT_LT(grown, 48 << 20) << "resident memory grew after warm-up";
#else
  (void)grown;
#endif
}

}  // namespace
}  // namespace softmax::testing

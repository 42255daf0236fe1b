#pragma once

#include <grpcpp/server.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "grpc/health/v1/health.grpc.pb.h"
#include "softmax/v1/softmax.grpc.pb.h"
#include "tests/client/support/fake_regions.h"

namespace softmax::client {

// A small real server in this process for the client's tests: generated code, sync API, answers
// computed in double. It answers stream messages in reverse order, so that clients must go by the
// ids.
class FakeServer {
 public:
  static constexpr int kNoPushback = -1000000;

  struct Behavior {
    std::atomic<int> fail_next{0};                  // how many of the next requests are answered with fail_code
    std::atomic<int> fail_code{14};                 // UNAVAILABLE
    std::atomic<int> pushback_ms{kNoPushback};      // the advice that goes with fail_code
    std::atomic<bool> leave_questions_open{false};  // GetServerInfo is not answered until its deadline
    std::atomic<bool> few_abilities{false};         // GetServerInfo: no float64, at most 3 MiB
    std::atomic<bool> wrong_values{false};          // one element of every answer is off by a little
    std::atomic<bool> swap_answers{false};          // answers carry the values of another request
    std::atomic<bool> flatten_answers{false};       // answers have one dimension, whatever was asked
    std::atomic<bool> undecodable_answers{false};   // answers have nine dimensions, more than the contract allows
    std::atomic<bool> unknown_ids{false};           // a stream's answers are for requests that nobody sent
    std::atomic<bool> control_characters{false};    // the words that go with fail_code would steer a terminal
    std::atomic<bool> refuse{false};                // RESOURCE_EXHAUSTED
    std::atomic<int> delay_ms{0};                   // before every answer, unless the call is cancelled
    std::atomic<bool> break_streams{false};         // a stream ends with ABORTED after its first message
    std::atomic<bool> serving{true};                // what the health service says
  };

  explicit FakeServer(const std::string& listen_on = "127.0.0.1:0",
                      std::shared_ptr<grpc::ServerCredentials> credentials = nullptr);  // nullptr: plain text
  ~FakeServer();

  // From now on requests may name places in these, which outlive the server.
  void Share(const FakeRegions& regions) { regions_ = &regions; }

  const std::string& address() const { return address_; }
  Behavior& behavior() { return behavior_; }
  int requests() const { return requests_; }
  int placed() const { return placed_; }        // requests with a place
  int questions() const { return questions_; }  // GetServerInfo
  int health_checks() const { return health_checks_; }
  // From which requests have come.
  int connections() const {
    std::lock_guard lock(mu_);
    return static_cast<int>(peers_.size());
  }
  // When the requests so far came.
  std::vector<std::chrono::steady_clock::time_point> arrivals() const {
    std::lock_guard lock(mu_);
    return arrivals_;
  }
  // What came with the last request; empty: nothing.
  std::string authorization() const {
    std::lock_guard lock(mu_);
    return authorization_;
  }
  std::string authority() const {
    std::lock_guard lock(mu_);
    return authority_;
  }
  // The largest number of requests that came in one stream message.
  int largest_message() const { return largest_message_; }

 private:
  class Service;
  class Health;

  Behavior behavior_;
  void Note(const grpc::ServerContext& context);

  std::atomic<int> requests_ = 0;
  std::atomic<int> placed_ = 0;
  std::atomic<int> questions_ = 0;
  std::atomic<int> health_checks_ = 0;
  mutable std::mutex mu_;
  std::vector<std::chrono::steady_clock::time_point> arrivals_;  // guarded by mu_
  std::set<std::string> peers_;                                  // guarded by mu_
  std::string authorization_;                                    // guarded by mu_
  std::string authority_;                                        // guarded by mu_
  std::atomic<int> largest_message_ = 0;
  std::atomic<const FakeRegions*> regions_ = nullptr;
  std::string address_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<Health> health_;
  std::unique_ptr<grpc::Server> server_;
};

// What the fake server (and any right server) answers, from the generated messages. Not OK:
// INVALID_ARGUMENT.
grpc::Status ComputeAnswer(const softmax::v1::SoftmaxRequest& request, softmax::v1::SoftmaxResponse* response);

}  // namespace softmax::client

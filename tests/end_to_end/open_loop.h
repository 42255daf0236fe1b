#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "client/softmax_client/softmax_client.h"
#include "tests/end_to_end/service.h"

namespace softmax::testing {

struct OpenLoopOptions {
  client::ClientOptions client;                 // its deadline is that of every call
  double rate = 100;                            // calls a second, whatever becomes of them
  std::size_t max_in_flight = 2000;             // calls that are due beyond these are held back, and counted
  std::chrono::milliseconds batch_every{1000};  // a batch over a stream, beside the calls; 0: none
  std::uint64_t seed = 1;
  // A call may take so long in all; zero: its deadline and kGrace.
  std::chrono::milliseconds must_end_within{0};
};

// What has become of the calls. Each item of a batch counts as a call.
struct OpenLoopCounts {
  std::uint64_t started = 0;
  std::uint64_t ended = 0;
  std::uint64_t ok = 0;
  std::uint64_t wrong = 0;                      // answers that are not right, or have other bits than before
  std::uint64_t unclear = 0;                    // ended with a status that tells a caller nothing: see IsClear
  std::uint64_t overdue = 0;                    // ended more than kGrace after their deadline
  std::uint64_t held_back = 0;                  // never started
  std::map<std::string, std::uint64_t> failed;  // by the code's name
  std::chrono::nanoseconds longest{0};          // from when a call was due to its end, since the last look
  std::string first_bad;                        // of those that are wrong, unclear or overdue
};

// Whether a caller can tell from it what to do: the server is away or too busy, or the time is over; in words.
bool IsClear(const absl::Status& status);

// Calls of random shapes, types and operations at a steady rate through the client library, each of its answers
// compared with double precision, until Stop. All of it is counted, so that a call that never ends is seen.
// Thread-safe.
class OpenLoop {
 public:
  // A call may end so long after its deadline: when a server stops reading in the middle of a request, its memory is
  // let go only when the connection is cut (softmax_client.h), and then a busy machine must run the callback.
  static constexpr std::chrono::seconds kGrace{40};

  explicit OpenLoop(const OpenLoopOptions& options);
  ~OpenLoop();

  // Starts no more calls, and waits for those that have not ended, at most until all of them are overdue.
  void Stop();
  OpenLoopCounts Look();
  client::ClientStats Stats() const { return client_->Stats(); }

 private:
  using Clock = std::chrono::steady_clock;

  Clock::duration MustEndWithin() const;

  struct Asked {
    Question question;
    std::vector<std::byte> answer;  // the one that was judged right; guarded by mu_
  };

  void Pace();
  void Call(std::size_t asked, Clock::time_point due);
  void SendBatches();
  void Batch(std::uint64_t number);
  void Started(std::uint64_t calls);
  void Ended(std::size_t asked, Clock::time_point due, const absl::StatusOr<client::Tensor>& answer);
  // Empty: the answer is right.
  std::string Judge(Asked& asked, std::span<const std::byte> answer);
  void Bad(const std::string& what);
  // Until every call has ended, or all that have not are overdue.
  void AwaitEnds();

  // Constant after construction, the judged answers excepted.
  const OpenLoopOptions options_;
  std::vector<Asked> asked_;

  std::atomic<bool> stop_ = false;
  std::stop_source cancel_batch_;  // a batch that does not end is not waited for

  std::mutex mu_;
  OpenLoopCounts counts_;  // guarded by mu_

  std::unique_ptr<client::Client> client_;
  std::jthread pacer_;
  std::jthread batcher_;
};

}  // namespace softmax::testing

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/clock.h"

// Everything the server tells Prometheus. Code says what happened; metric names, units and buckets stand in families.cc
// and, of what is read of others, in server/app/gauges.cc. Linked against prometheus-cpp here and nowhere else.
namespace softmax::server {

// An answer of the metrics port beside /metrics.
struct HttpPage {
  const char* status = "200 OK";
  const char* type = "text/plain; charset=utf-8";
  std::string body;
};

// What there is for a method and a path (without its query); nothing: no such page. On the port's thread.
using HttpPages = std::function<std::optional<HttpPage>(std::string_view method, std::string_view path)>;

// Streams: per request. kInferControl: every method of the Open Inference Protocol that brings no tensor.
enum class Method : std::uint8_t {
  kSoftmax,
  kSoftmaxStream,
  kGetServerInfo,
  kModelInfer,
  kModelStreamInfer,
  kInferControl,
};
// As gRPC names the method, and as the label `method` says.
constexpr const char* NameOf(Method method) {
  constexpr const char* kNames[] = {"Softmax",    "SoftmaxStream",    "GetServerInfo",
                                    "ModelInfer", "ModelStreamInfer", "Control"};
  return kNames[static_cast<std::size_t>(method)];
}
// As the label `protocol` says.
constexpr const char* ProtocolOf(Method method) { return method >= Method::kModelInfer ? "oip" : "native"; }
enum class CloseReason : std::uint8_t {
  kIdle,     // nothing of this thread was in flight: a lone request never waits
  kDrained,  // the ready events were taken, one launch takes what came
  kFull,     // bytes, rows or requests at the limit
  kDelay,    // max_queue_delay passed
  kLarge,    // a request that fills a span of its own
};
enum class RefuseReason : std::uint8_t {
  kQueueFull,
  kNoMemory,
  kDraining,
  kInvalid,
  kDeadline,
  kUnauthorized,
  kConnectionBytes,  // the connection's unanswered requests hold as much as they may
};

// Bytes that are counted: of tensors of batches that ran; of tensors that summaries stood for; of payload that the host
// copied, of answers small ones and those of slow readers. Their names stand in families.cc.
enum class Counter : std::uint8_t { kInputBytes, kOutputBytes, kSavedBytes, kCopiedIn, kCopiedOut };
constexpr std::size_t kCounters = 5;

// What an answer carries; one may be of several kinds.
enum class AnswerKind : std::uint8_t { kTensor, kTopK, kIndices, kLogSumExp, kEntropy };
constexpr std::size_t kAnswerKinds = 5;

struct BatchSample {
  std::array<std::uint64_t, kAnswerKinds> answers = {};  // requests by kind of answer
  std::uint64_t saved_bytes = 0;                         // of tensors that summaries stood for
  std::uint64_t requests = 0;
  std::uint64_t rows = 0;
  std::uint64_t input_bytes = 0;
  std::uint64_t output_bytes = 0;
  CloseReason reason = CloseReason::kIdle;
  Nanoseconds execution{0};
};

struct RequestSample {
  Method method = Method::kSoftmax;
  int code = 0;  // grpc::StatusCode
  TimePoint arrived;
  Nanoseconds total{0};  // arrival of the last byte to the answer handed to the transport
  Nanoseconds queue{0};
  Nanoseconds batch{0};
  bool ran = false;  // queue and batch are meaningful
};

// One thread's counts. Every method is called by its owning thread only and costs a few relaxed
// stores; a scrape reads them at any time. Lives as long as its Metrics.
class Recorder {
 public:
  virtual ~Recorder() = default;
  virtual void RequestFinished(const RequestSample& sample) = 0;
  virtual void RequestRefused(RefuseReason reason) = 0;
  virtual void BatchFinished(const BatchSample& sample) = 0;
  virtual void Add(Counter counter, std::uint64_t count) = 0;
  // A request that was slow or is traced, by its trace (32 hex digits): the newest of each bucket of the request's time
  // is published as its exemplar, to scrapers that take OpenMetrics.
  virtual void InTrace(const RequestSample& /*sample*/, std::string_view /*trace_id*/) {}
  // The thread was woken at a time it knew, and came to it this much later.
  virtual void CameLate(Nanoseconds /*late*/) {}
};

// One number of a family, under the labels that tell it from the family's others.
struct Reading {
  std::vector<std::pair<std::string, std::string>> labels;
  double value = 0;
};
using Readings = std::vector<Reading>;

// A family whose numbers others have. Read at scrape time, on the scraping thread: thread-safe, and outlives Metrics or
// is gone with ClearGauges.
struct Gauge {
  const char* name;  // a counter's ends in _total
  const char* help;
  std::function<Readings()> read;
};
using Gauges = std::vector<Gauge>;

// One request of a histogram's bucket, by the trace that its caller has it in.
struct Exemplar {
  Method method = Method::kSoftmax;
  Nanoseconds value{0};
  std::string trace_id;  // 32 hex digits
  std::chrono::system_clock::time_point time;
};

class Metrics {
 public:
  struct Options {
    // Under the backend "cuda" the GPUs are watched, too, where the driver's management library is.
    std::string version, commit, backend;
    // name -> value pairs published as softmax_setting{name="..."}.
    std::vector<std::pair<std::string, double>> settings;
  };

  static std::unique_ptr<Metrics> Create(Options options);
  virtual ~Metrics() = default;

  // One per thread that records; owned by this.
  virtual Recorder* AddRecorder() = 0;
  virtual void SetGauges(Gauges gauges) = 0;
  virtual void ClearGauges() = 0;
  // The exposition text, as a scrape of /metrics would see it.
  virtual std::string Render() = 0;

  // Serves /metrics, and `pages` beside it, at host:port (port 0: any free one). Empty: serving; otherwise why not
  // ("address 0.0.0.0:9400 is in use"). At most once.
  virtual std::string Serve(const std::string& address, HttpPages pages = nullptr) = 0;
  virtual int port() const = 0;
};

}  // namespace softmax::server

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "server/metrics/http_page.h"

// Everything the server tells Prometheus. Code says what happened; metric names, units and buckets
// stand in the .cc only. Linked against prometheus-cpp there and nowhere else.
namespace softmax::server {

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
  switch (method) {
    case Method::kSoftmax:
      return "Softmax";
    case Method::kSoftmaxStream:
      return "SoftmaxStream";
    case Method::kGetServerInfo:
      return "GetServerInfo";
    case Method::kModelInfer:
      return "ModelInfer";
    case Method::kModelStreamInfer:
      return "ModelStreamInfer";
    case Method::kInferControl:
      return "Control";
  }
  return "unknown";
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
  virtual void RequestArrived(Method method) = 0;
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

// One device, in the order of GetServerInfo's list.
struct DeviceGauges {
  std::string name;
  bool serving = true;
  double bytes_in_flight = 0;  // counted where there are several devices
};

// Regions of one kind of memory.
struct RegionGauges {
  std::string memory;  // "host", or the device's number
  double regions = 0, bytes = 0;
};

// Read at scrape time, on the scraping thread; must be thread-safe and outlive Metrics (or be reset
// by ClearGauges).
struct GaugeSources {
  std::function<double()> requests_in_flight, requests_queued, bytes_queued, bytes_unread;
  std::function<double()> slabs_total, slabs_used, slabs_held_by_answers;
  std::function<double()> receive_blocks_total, receive_blocks_used;
  std::function<double()> connections, unsafe_testing, degraded, ready;
  std::function<std::vector<DeviceGauges>()> devices;
  // CPU time of each queue thread, in seconds.
  std::function<std::vector<double>()> queue_threads_busy;
  // Connections that were ended for what their clients sent or for want of places: reason -> how many so far.
  std::function<std::vector<std::pair<std::string, double>>()> connections_ended;
  // All three null: this server has no regions. Refusals: reason -> how many so far.
  std::function<std::vector<RegionGauges>()> regions;
  std::function<double()> region_connections;
  std::function<std::vector<std::pair<std::string, double>>()> regions_refused;
  // Both null: this server sends no spans. Traced requests: what became of them -> how many so far.
  std::function<std::vector<std::pair<std::string, double>>()> traced_requests;
  std::function<double()> rejected_spans;
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
  virtual void SetGauges(GaugeSources sources) = 0;
  virtual void ClearGauges() = 0;
  // The exposition text, as a scrape of /metrics would see it.
  virtual std::string Render() = 0;

  // Serves /metrics, and `pages` beside it, at host:port (port 0: any free one). Empty: serving; otherwise why not
  // ("address 0.0.0.0:9400 is in use"). At most once.
  virtual std::string Serve(const std::string& address, HttpPages pages = nullptr) = 0;
  virtual int port() const = 0;
};

}  // namespace softmax::server

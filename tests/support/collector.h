#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "opentelemetry/proto/collector/trace/v1/trace_service.grpc.pb.h"
#include "tests/support/eventually.h"

namespace softmax::testing {

// A collector of OpenTelemetry's spans at a free loopback port, which keeps what it is sent.
class Collector final : private opentelemetry::proto::collector::trace::v1::TraceService::Service {
 public:
  using Request = opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest;
  using Response = opentelemetry::proto::collector::trace::v1::ExportTraceServiceResponse;
  using Span = opentelemetry::proto::trace::v1::Span;
  // What it does with a request, before it keeps it if that is OK.
  using Behavior = std::function<grpc::Status(Response*)>;

  explicit Collector(Behavior behavior = {}, int port = 0) : behavior_(std::move(behavior)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:" + std::to_string(port), grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~Collector() override { server_->Shutdown(std::chrono::system_clock::now()); }

  int port() const { return port_; }
  std::string target() const { return "127.0.0.1:" + std::to_string(port_); }
  std::string url() const { return "http://" + target(); }

  std::vector<Request> requests() const {
    MutexLock lock(mu_);
    return requests_;
  }
  std::multimap<std::string, std::string> headers() const {
    MutexLock lock(mu_);
    return headers_;
  }
  int attempts() const {
    MutexLock lock(mu_);
    return attempts_;
  }
  std::vector<Span> spans() const {
    std::vector<Span> spans;
    for (const Request& request : requests()) {
      for (const Span& span : request.resource_spans(0).scope_spans(0).spans()) spans.push_back(span);
    }
    return spans;
  }
  // Of this name; waits until there are so many.
  std::vector<Span> AwaitSpans(const std::string& name, std::size_t count) const {
    std::vector<Span> named;
    Eventually([&] {
      named.clear();
      for (const Span& span : spans()) {
        if (span.name() == name) named.push_back(span);
      }
      return named.size() >= count;
    });
    return named;
  }

 private:
  grpc::Status Export(grpc::ServerContext* context, const Request* request, Response* response) override {
    {
      MutexLock lock(mu_);
      ++attempts_;
    }
    if (behavior_) {
      if (grpc::Status status = behavior_(response); !status.ok()) return status;
    }
    MutexLock lock(mu_);
    requests_.push_back(*request);
    for (const auto& [key, value] : context->client_metadata()) {
      headers_.emplace(std::string(key.data(), key.size()), std::string(value.data(), value.size()));
    }
    return grpc::Status::OK;
  }

  const Behavior behavior_;
  int port_ = 0;
  mutable Mutex mu_;
  std::vector<Request> requests_ ABSL_GUARDED_BY(mu_);
  std::multimap<std::string, std::string> headers_ ABSL_GUARDED_BY(mu_);
  int attempts_ ABSL_GUARDED_BY(mu_) = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace softmax::testing

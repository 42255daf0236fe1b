#include "server/rpc/oip/infer_call.h"

#include <string>
#include <string_view>

namespace softmax::server {

void InferCall::Arm(QueueThread& thread) {
  auto* call = new InferCall(thread);
  call->Offer(thread.server().inference.infer());
}

Cork* InferCall::Announce(std::uint64_t bytes) {
  if (connection() == nullptr || !Cork::IsWorthIt(bytes)) return nullptr;
  connection()->cork().Announce();
  return &connection()->cork();
}

void InferCall::Completed(const Answer& answer) {
  if (!CanAnswer(answer, inference_.deadline())) return;
  ListIfLarge(inference_.largest_output());
  static thread_local std::string header;
  header.clear();
  InferHeaderEnds ends;
  EncodeInferHeader(inference_.request(), /*in_stream=*/false, &header, &ends);
  std::size_t begin = 0;
  for (std::size_t i = 0; i < inference_.outputs(); ++i) {
    const Inference::Output output = inference_.output(i);
    thread().sender().Append(std::string_view(header).substr(begin, ends[i] - begin), output.data, output.bytes,
                             output.span, connection_ref(), answered_at());
    output.span->Reset();  // gRPC has its own, where it needs one
    begin = ends[i];
  }
  thread().recorder().PayloadCopiedIn(inference_.copied_bytes());
  FinishWithAnswer(answer);
}

void InferCall::OnCounted(const RequestSample& sample, const Answer* answer) {
  const InferModel* const model = inference_.request().model;
  if (model == nullptr) return;
  thread().model_counts().Count(*model, sample, inference_.rows(), answer, SteadyClock::now());
}

}  // namespace softmax::server

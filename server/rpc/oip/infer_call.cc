#include "server/rpc/oip/infer_call.h"

#include <string>

#include "common/wire/oip_encode.h"

namespace softmax::server {

void InferCall::Arm(InferGroup& group) {
  auto* call = new InferCall(group);
  call->Offer(group.service());
}

Cork* InferCall::Announce(std::uint64_t bytes) {
  if (connection() == nullptr || !Cork::IsWorthIt(bytes)) return nullptr;
  connection()->cork().Announce();
  return &connection()->cork();
}

void InferCall::Completed(const Answer& answer) {
  if (!CanAnswer(answer, inference_.deadline())) return;
  static thread_local std::string header;
  header.clear();
  AnswerPieces pieces;
  EncodeInferHeader(inference_.request(), /*in_stream=*/false, &header, &pieces);
  absl::InlinedVector<Piece, 1> sent;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    sent.push_back({pieces[i].HeaderIn(header), pieces[i].parts, inference_.places(i), {&inference_.span(i)}});
  }
  thread().recorder.Add(Counter::kCopiedIn, inference_.copied_bytes());
  Send(answer, sent);
  for (std::size_t i = 0; i < pieces.size(); ++i) inference_.span(i).Reset();  // who needs one has its own
}

void InferCall::OnCounted(const RequestSample& sample, const Answer* answer) {
  const InferModel* const model = inference_.request().model;
  if (model == nullptr) return;
  group_.counts().Count(*model, sample, inference_.rows(), answer, SteadyClock::now());
}

}  // namespace softmax::server

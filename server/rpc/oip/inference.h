#pragma once

#include <absl/container/inlined_vector.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/wire/oip_decode.h"
#include "server/batching/admission_queue.h"
#include "server/batching/pending_request.h"
#include "server/rpc/accept/connections.h"
#include "server/rpc/oip/shared_files.h"
#include "server/rpc/queue/answer_sender.h"
#include "server/rpc/queue/message_view.h"
#include "server/rpc/queue/sliced_work.h"

namespace softmax::server {

// One ModelInferRequest on its way: each of its tensors is a request of its own for batching, and when the last is
// complete, its owner answers them together. On the owner's queue thread, but for what PendingRequest says.
class Inference {
 public:
  // The call that the request came with.
  class Owner {
   public:
    virtual ~Owner() = default;
    // The received message; it stays until InputTaken or Completed. Any thread.
    virtual MessageView Message() const = 0;
    // Every tensor has been copied. Any thread.
    virtual void InputTaken() {}
    virtual bool CallerLeft() const = 0;
    // Where texts are printed and files written between other events, in turn with those of other connections.
    virtual SlicedWork& slices() = 0;
    virtual const Connection* connection_of() const = 0;
    // As PendingRequest::AnnounceCompletion, of a tensor with `bytes` of output. Where it leaves together with
    // others of its batch; null: alone.
    virtual Cork* Announce(std::uint64_t /*bytes*/) { return nullptr; }
    // All tensors are complete; `answer` is that of the request: the first error there is, and the longest times. May
    // delete the inference.
    virtual void Completed(const Answer& answer) = 0;
  };

  explicit Inference(Owner* owner) : owner_(owner) {}
  Inference(const Inference&) = delete;
  Inference& operator=(const Inference&) = delete;

  InferRequest& request() { return request_; }
  const InferRequest& request() const { return request_; }

  // Once it is decoded: the files of its tensors that do not lie in the message; `files` may be null where the decoder
  // takes none. The status that it returns is request().status, too: NOT_FOUND, or INVALID_ARGUMENT where a
  // place is not inside of its region.
  absl::Status FindFiles(const SharedFiles* files);

  // `deadline`: the call's; the request's own timeout may be sooner.
  void Submit(AdmissionQueue& admission, ConnectionShare* share, CallKind kind, TimePoint arrived, TimePoint deadline);

  TimePoint arrived() const { return arrived_; }
  TimePoint deadline() const { return deadline_; }
  std::uint64_t rows() const;
  std::uint64_t largest_output() const;
  std::uint64_t copied_bytes() const;
  // The number that the id is, for the log; 0: none.
  std::uint64_t log_id() const;

  // A tensor's answer where it lies, once Completed, and what it lies in.
  const AnswerPlaces& places(std::size_t i) const { return parts_[i].answer; }
  SpanRef& span(std::size_t i) { return parts_[i].span; }

 private:
  class Part final : public PendingRequest {
   public:
    Part(Inference* whole, const InferTensor* tensor, std::shared_ptr<const SharedFile> input);
    void Submit(AdmissionQueue& admission, ConnectionShare* share, CallKind kind) {
      admission.Submit(this, share, kind, arrived_);
    }
    // Bytes of the message that are no tensor's.
    void AddToMessage(std::uint64_t bytes) { message_bytes_ += bytes; }
    void CopyInput(std::byte* destination) override;
    void LendInput(InputPieces* pieces) override;
    const std::uint32_t* lengths() const override { return tensor_->request.lengths.data(); }
    bool CallerLeft() const override { return whole_->owner_->CallerLeft(); }
    void AnnounceCompletion() override { cork_ = whole_->owner_->Announce(spec_.output_bytes()); }

    Answer answer;  // once complete
    SpanRef span;   // what its output is in

   private:
    void Complete(const Answer& completed) override;

    Inference* const whole_;
    const InferTensor* const tensor_;
    const std::shared_ptr<const SharedFile> input_;  // null: it is in the message
    bool is_read_ = true;                            // until it could not be
    Cork* cork_ = nullptr;
  };

  // What is left to do of an answer before it leaves: an output goes to a file.
  struct Writing {
    std::shared_ptr<const SharedFile> file;
    std::size_t tensor;
    InferOutput output;
    std::uint64_t written = 0;
  };

  absl::StatusOr<std::shared_ptr<const SharedFile>> FindFile(const SharedFiles& files, const InferPlace& place,
                                                             const char* list) const;
  void PartCompleted();
  // Prints some of the texts, or writes some of the files; whether those were the last.
  bool FinishSome() { return PrintSome() && WriteSome(); }
  bool PrintSome();
  bool WriteSome();
  void TellOwner();

  Owner* const owner_;
  InferRequest request_;
  TimePoint arrived_;
  TimePoint deadline_ = kNoDeadline;
  absl::InlinedVector<Part, 1> parts_;
  std::vector<std::shared_ptr<const SharedFile>> inputs_;  // of each tensor; empty: none is in a file
  std::vector<Writing> writings_;
  std::size_t writing_ = 0;  // the next of them
  std::size_t incomplete_ = 0;
  ConnectionShare* share_ = nullptr;
  std::optional<OwedAnswer> owed_;  // while texts are being printed, or files written
  std::size_t printing_ = 0;        // the tensor whose texts are being printed
  std::int64_t printed_ = 0;        // of its texts
  std::atomic<std::size_t> not_copied_{0};
};

}  // namespace softmax::server

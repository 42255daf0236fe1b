#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/batching/pending_request.h"
#include "server/rpc/calls/thread_context.h"
#include "server/rpc/queue/call.h"
#include "server/rpc/queue/message_view.h"

namespace softmax::server {

// One SoftmaxStream call; InferStreamCall is one of another contract. Reads ahead until max_in_flight_per_stream
// requests are unanswered, then stops reading, which is HTTP/2's own back-pressure; answers leave as they come, as many
// in a message as are ready and the contract allows. Lives on its queue thread.
class StreamCall : public Call {
 public:
  static void Arm(ThreadContext& thread);
  // It was matched, or never will be.
  void Proceed(bool ok) final;

  // When the write under way began; kNoDeadline when none is.
  TimePoint writing_since() const { return writing_since_; }
  bool writing() const { return writing_since_ != kNoDeadline; }
  // Null: it has gone.
  Connection* connection() const { return connection_.get(); }
  // The client does not read.
  void GiveUp() {
    given_up_ = true;
    context_.TryCancel();
  }
  // Takes answers that have waited since then out of the arena, where they are in others' way.
  void CopyOutOlderThan(TimePoint then);
  // Reads no more; ends with UNAVAILABLE when everything accepted is answered.
  void Drain();

 protected:
  // The call's life; each state is set at one place.
  //
  //   kOffered --matched--> kOpen --(1)--> kEnding --(3)--> kFinishing --status sent--> kFinished --(4)--> deleted
  //                           |              |                  ^
  //                           +-----(2)------+--> kBroken --(3)-+
  //
  //   (1) no more requests: the client half-closed or went, the call was refused, its message cannot be read, or a
  //       drain began
  //   (2) a write failed: answers have nowhere to go, and are dropped
  //   (3) every request of the messages read is answered, and every answer is written or dropped
  //   (4) no read is under way
  //
  // A call that is never matched is deleted in kOffered. Beside the state a read is under way or not (reading) from
  // kOpen on, and in kOpen and kEnding a write (writing): a read may outlive kOpen, and what it brings is refused then.
  enum class State : std::uint8_t { kOffered, kOpen, kEnding, kBroken, kFinishing, kFinished };

  class Request;
  // gRPC allows one operation of each kind at a time: each kind is a tag, and the call itself that of its begin.
  class Operation final : public Tag {
   public:
    Operation(StreamCall* call, void (StreamCall::*done)(bool)) : call_(call), done_(done) {}
    void Proceed(bool ok) override { (call_->*done_)(ok); }

   private:
    StreamCall* const call_;
    void (StreamCall::*const done_)(bool);
  };
  // A received message, shared by the requests in it.
  struct Message {
    grpc::ByteBuffer buffer;
    // Of a message that is taken apart.
    std::optional<MessageView> view;
    StreamRequestReader reader;
    std::uint64_t bytes_left = 0;  // that count to the connection's share until their requests do
  };
  // An encoded answer waiting for the write before it.
  struct Outgoing {
    std::string header;
    AnswerParts parts;    // none: what there is stands in the header
    AnswerPlaces places;  // in `span` or `copy`
    SpanRef span;
    std::shared_ptr<const std::byte[]> copy;
    bool goes_on = false;                 // the next is of the same answer, and so of the same message
    std::optional<RequestSample> sample;  // counted when it is written or dropped; none: it is counted already
    TimePoint ready;
    std::uint64_t turn = 0;  // for MayWrite

    std::uint64_t bytes() const { return header.size() + parts.bytes(); }
    // With what it takes to wait: a message of a few KiB may ask for a hundred times as much in errors.
    std::uint64_t queued_bytes() const { return sizeof(Outgoing) + bytes(); }
  };

  // `joins`: whether several answers may be one message.
  StreamCall(ThreadContext& thread, bool joins);
  ~StreamCall() override;

  // Offers the server this call, of the service's stream.
  void Offer(TensorService* service) {
    service->RequestStream(&context_, &stream_, thread_.queue(), static_cast<Tag*>(this));
  }
  // Offers one more call of the same kind.
  virtual void Rearm() { Arm(thread_); }
  virtual void HandleMessage(const std::shared_ptr<Message>& message);
  // Whether the first of outgoing_ may leave, or waits for an answer that is to come before it.
  virtual bool MayWrite(const Outgoing& /*first*/) const { return true; }

  void OnRead(bool ok);
  void OnWritten(bool ok);
  void OnFinished(bool ok);

  bool reading() const { return incoming_ != nullptr; }
  // Takes no more requests, and ends with this status.
  void End(absl::Status status);
  ConnectionShare* share() const { return connection_ == nullptr ? nullptr : &connection_->share(); }
  void ReadIfRoom();
  // Takes requests of the message that is being taken apart, as far as there is room for them.
  void TakeRequests();
  bool HasRoomForRequest() const;
  // Takes the next of its requests. False: the others have to wait for something.
  bool TakeRequest(TimePoint now);
  // Reads the next request on a thread that has time for it.
  void ReadRequestElsewhere();
  void Accept(const absl::Status& status, DecodedRequest decoded, TimePoint now);
  void DropMessage();
  void Answered(Request* request, const Answer& answer);
  // A request that was complete, booked: what its caller is told, and what is counted when its answer is written.
  struct Booked {
    absl::Status status;
    RequestSample sample;
    bool counts_when_written = false;
  };
  Booked Book(RequestSample sample, absl::Status status, std::uint64_t largest_output, std::uint64_t copied,
              std::uint64_t log_id, const Answer& answer);
  // The next of what is to be written: `header` with the parts of the payload in their places. `span` is copied.
  void QueueOutput(std::string header, const AnswerParts& parts, const AnswerPlaces& places, const SpanRef* span,
                   TimePoint now);
  // Goes on when a request has been answered.
  void Continue();
  // Counts the request of an answer above AnswerSender::kCopyBytes: what is written, or dropped.
  void CountFinished(RequestSample sample, bool written);
  // The next of what is to be written, which counts to the connection until a write takes it.
  void Enqueue(Outgoing out);
  void CountQueued(std::int64_t bytes);
  void CopyOut(Outgoing* out);
  // Whether the client reads its answers too slowly to be asked for more.
  bool IsBehind() const;
  // From `first` on.
  void DropOutgoing(const std::deque<Outgoing>::iterator& first);
  void QueueError(std::string encoded);
  // Answers a request that was never accepted.
  void Refuse(std::string encoded);
  void WriteIfReady();
  // Takes the arrows (3) and (4). Perhaps frees this.
  void FinishIfDone();

  ThreadContext& thread_;
  const bool joins_;
  grpc::ServerContext context_;
  grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> stream_;
  Operation read_{this, &StreamCall::OnRead};
  Operation written_{this, &StreamCall::OnWritten};
  Operation finished_{this, &StreamCall::OnFinished};

  State state_ = State::kOffered;
  std::shared_ptr<Message> incoming_;  // being read; null: no read is under way
  std::shared_ptr<Message> message_;   // with requests that are not taken yet; null: none
  bool reads_elsewhere_ = false;       // the next of them is being read by another thread
  bool will_take_more_ = false;        // in a slice
  std::deque<Outgoing> outgoing_;
  std::vector<RequestSample> writing_samples_;  // of the answers in the write under way
  std::shared_ptr<Connection> connection_;      // null: it has gone
  bool given_up_ = false;
  std::uint32_t in_flight_ = 0;  // requests accepted and not answered
  // What comes before anything else does, so that one message can take all answers: those of a finished batch, and the
  // rest of a message whose requests may be answered at once.
  std::uint32_t gathering_ = 0;
  absl::Status end_status_;
  TimePoint writing_since_ = kNoDeadline;
  std::list<StreamCall*>::iterator place_;
};

}  // namespace softmax::server

#include "server/rpc/queue/answer_sender.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "tests/server/batching/fakes.h"

namespace softmax::server {
namespace {

constexpr std::size_t kSlab = 4096;
constexpr std::size_t kSlabs = 64;
constexpr std::uint64_t kShare = 16u << 10;
constexpr std::uint64_t kLarge = 8u << 10;

class AnswerSenderTest : public ::testing::Test {
 protected:
  AnswerSenderTest() {
    connection_ = connections_.Add("fd:1", open("/dev/null", O_RDWR | O_CLOEXEC), "client", /*server=*/0);
  }
  ~AnswerSenderTest() override {
    EXPECT_EQ(connection_->unread_bytes(), 0u);
    EXPECT_EQ(connections_.unread_budget().used(), 0u);
    EXPECT_EQ(connections_.held_bytes().Sum(), 0);
  }
  bool ShouldReference(std::uint64_t bytes) { return sender_.ShouldReference(bytes, connection_.get()); }
  // An answer with one part of so many bytes, from the arena or from a copy.
  void Append(std::uint64_t bytes, const AnswerMemory& memory, const std::byte* at) {
    AnswerParts parts;
    parts.part[0] = {.header_end = 4, .bytes = bytes};
    parts.count = 1;
    sender_.Append("head", parts, {.output = at}, memory, connection_, now_);
  }
  static std::string TextOf(grpc::ByteBuffer* message) {
    grpc::Slice slice;
    EXPECT_TRUE(message->DumpToSingleSlice(&slice).ok());
    return {reinterpret_cast<const char*>(slice.begin()), slice.size()};
  }

  testing::TestMemory memory_{kSlabs * kSlab};
  Arena arena_{memory_.data(), kSlabs* kSlab, kSlab};
  Backlog backlog_{{.threads = 0}, arena_};
  Connections connections_{{.max_unread_bytes = kShare}};
  testing::CountingRecorder recorder_;
  AnswerSender sender_{arena_, backlog_, connections_, recorder_};
  std::shared_ptr<Connection> connection_;
  const TimePoint now_ = SteadyClock::now();
};

TEST_F(AnswerSenderTest, OnlyALargeAnswerOfAKnownConnectionIsReferredTo) {
  EXPECT_FALSE(ShouldReference(AnswerSender::kCopyBytes));
  EXPECT_TRUE(ShouldReference(AnswerSender::kCopyBytes + 1));
  EXPECT_FALSE(sender_.ShouldReference(kLarge, nullptr));
}

// Those that its client has not read, and those that wait for the write before them, alike.
TEST_F(AnswerSenderTest, AnswersOfAConnectionAreReferredToUpToItsShare) {
  ConnectionShare& share = connection_->share();
  EXPECT_TRUE(ShouldReference(10 * kShare)) << "one alone may be larger";
  share.unread_bytes = kShare - kLarge;
  EXPECT_TRUE(ShouldReference(kLarge));
  EXPECT_FALSE(ShouldReference(kLarge + 1));
  share.queued_bytes = 1;
  EXPECT_FALSE(ShouldReference(kLarge));
  share.unread_bytes = 0;
  share.queued_bytes = kShare - kLarge;
  EXPECT_TRUE(ShouldReference(kLarge));
  EXPECT_FALSE(ShouldReference(kLarge + 1));
  share.queued_bytes = 0;
}

TEST_F(AnswerSenderTest, NothingIsReferredToWhenAnEighthOfTheArenaIsLeft) {
  SpanRef used(&arena_, arena_.TryReserve((kSlabs - kSlabs / 8) * kSlab));
  EXPECT_TRUE(ShouldReference(kLarge));
  const SpanRef one_more(&arena_, arena_.TryReserve(kSlab));
  EXPECT_FALSE(ShouldReference(kLarge));
}

TEST_F(AnswerSenderTest, AnAnswerInTheArenaIsHeldUntilItsSliceIsGone) {
  std::optional<SpanRef> span(std::in_place, &arena_, arena_.TryReserve(kLarge));
  std::memset(span->address(), 'x', kLarge);
  Append(kLarge, {.span = &*span}, span->address());
  grpc::ByteBuffer message = sender_.Take(connection_, now_);
  span.reset();
  EXPECT_EQ(connection_->unread_bytes(), kLarge);
  EXPECT_EQ(connections_.held_bytes().Sum(), static_cast<std::int64_t>(kLarge));
  EXPECT_EQ(connections_.unread_budget().used(), 0u);
  EXPECT_EQ(arena_.slabs_used(), 2u);
  EXPECT_EQ(TextOf(&message), "head" + std::string(kLarge, 'x'));
  message.Clear();
  EXPECT_EQ(arena_.slabs_used(), 0u);
}

TEST_F(AnswerSenderTest, ACopyCountsToTheBudgetOfAll) {
  std::shared_ptr<std::byte[]> copy = std::make_unique<std::byte[]>(kLarge);
  std::memset(copy.get(), 'y', kLarge);
  const std::byte* const at = copy.get();
  Append(kLarge, {.copy = std::move(copy)}, at);
  grpc::ByteBuffer message = sender_.Take(connection_, now_);
  EXPECT_EQ(connection_->unread_bytes(), kLarge);
  EXPECT_EQ(connections_.unread_budget().used(), kLarge);
  EXPECT_EQ(connections_.held_bytes().Sum(), 0);
  EXPECT_EQ(TextOf(&message), "head" + std::string(kLarge, 'y'));
}

// The second is beyond the share: its bytes are text, and as unread as the first.
TEST_F(AnswerSenderTest, WhatIsCopiedIntoTheTextIsAccountedTo) {
  const SpanRef span(&arena_, arena_.TryReserve(4 * kLarge));
  std::memset(span.address(), 'z', span.size());
  Append(2 * kLarge, {.span = &span}, span.address());
  Append(kLarge, {.span = &span}, span.address());
  grpc::ByteBuffer message = sender_.Take(connection_, now_);
  EXPECT_EQ(connection_->unread_bytes(), 3 * kLarge + 4);
  EXPECT_EQ(connections_.unread_budget().used(), kLarge + 4);
  EXPECT_EQ(recorder_.added[Counter::kCopiedOut], kLarge);
  EXPECT_EQ(TextOf(&message), "head" + std::string(2 * kLarge, 'z') + "head" + std::string(kLarge, 'z'));
}

TEST_F(AnswerSenderTest, AMessageOfNothingHasASlice) {
  grpc::ByteBuffer message = sender_.Take(connection_, now_);
  EXPECT_TRUE(message.Valid());
  EXPECT_EQ(message.Length(), 0u);
}

TEST(PayloadCopy, CopiesThePartsOneBehindTheOtherAStepAtATime) {
  const std::string output = "0123456789";
  const std::string summary = "ab--cd";
  AnswerParts parts;
  parts.part[0] = {.header_end = 1, .bytes = 10};
  parts.part[1] = {.header_end = 2, .offset = 4, .bytes = 2, .of_summary = true};
  parts.count = 2;
  const AnswerPlaces places{.output = reinterpret_cast<const std::byte*>(output.data()),
                            .summary = reinterpret_cast<const std::byte*>(summary.data())};
  PayloadCopy copy(parts, places);
  EXPECT_FALSE(copy.Step(7));
  EXPECT_FALSE(copy.Step(4));
  EXPECT_TRUE(copy.Step(100));
  std::string text;
  for (std::size_t i = 0; i < copy.parts().count; ++i) {
    const AnswerParts::Part& part = copy.parts().part[i];
    EXPECT_EQ(part.header_end, i + 1);
    text.append(reinterpret_cast<const char*>(AnswerSender::AddressOf(part, copy.places())), part.bytes);
  }
  EXPECT_EQ(text, "0123456789cd");
}

}  // namespace
}  // namespace softmax::server

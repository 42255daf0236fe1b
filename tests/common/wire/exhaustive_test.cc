// Every message up to a bounded size over a small alphabet, cut into slices in every way, against the generated parser
// and the models: what random messages (differential_test.cc) meet by luck, these meet for certain.
// SOFTMAX_TEST_EXHAUSTIVE says of how many bytes: 4 (the default) takes seconds, 5 minutes, 6 half an hour; messages of
// fields grow alike.
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <bitset>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/wire/decode.h"
#include "common/wire/oip_decode.h"
#include "tests/common/wire/native_comparison.h"
#include "tests/common/wire/oip_comparison.h"
#include "tests/common/wire/sliced_message.h"
#include "tests/support/wire_builder.h"

namespace softmax::testing {
namespace {

std::size_t MostBytes() {
  const char* const most = std::getenv("SOFTMAX_TEST_EXHAUSTIVE");
  return most == nullptr ? 4 : static_cast<std::size_t>(std::atoi(most));
}

// Code that asks for numbers is run with each answer to each question: what it asks may depend on earlier answers.
class EveryChoice {
 public:
  // Begins the next run; false: there was every one.
  bool Next() {
    while (!path_.empty() && path_.back().chosen + 1 == path_.back().limit) path_.pop_back();
    if (path_.empty() && begun_) return false;
    if (!path_.empty()) ++path_.back().chosen;
    depth_ = 0;
    begun_ = true;
    return true;
  }
  // 0 to limit - 1.
  std::size_t Below(std::size_t limit) {
    if (depth_ == path_.size()) path_.push_back({0, limit});
    return path_[depth_++].chosen;
  }
  const std::string& OneOf(const std::vector<std::string>& pieces) { return pieces[Below(pieces.size())]; }
  // Up to `most` of them, one after another.
  std::string Several(const std::vector<std::string>& pieces, std::size_t most) {
    std::string all;
    for (std::size_t count = Below(most + 1); count > 0; --count) all += OneOf(pieces);
    return all;
  }

 private:
  struct Choice {
    std::size_t chosen;
    std::size_t limit;
  };
  std::vector<Choice> path_;
  std::size_t depth_ = 0;
  bool begun_ = false;
};

// A message in slices that lie apart, with bytes between them that no varint ends with.
class Cutter {
 public:
  using Places = std::bitset<128>;  // bit i: a slice ends behind byte i

  // The slices are good until the next call. `empties`: an empty slice follows each.
  Slices Cut(std::string_view bytes, const Places& cuts, bool empties) {
    constexpr std::size_t kGap = 11;
    storage_.assign(bytes.size() * (kGap + 1), 0x80);
    slices_.clear();
    std::uint8_t* place = storage_.data();
    std::uint8_t* begin = place;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      *place++ = static_cast<std::uint8_t>(bytes[i]);
      if (!cuts[i] && i + 1 < bytes.size()) continue;
      slices_.emplace_back(begin, place);
      if (empties && i + 1 < bytes.size()) slices_.emplace_back(place, place);
      place += kGap;
      begin = place;
    }
    return slices_;
  }

 private:
  std::vector<std::uint8_t> storage_;
  std::vector<std::span<const std::uint8_t>> slices_;
};

struct Native {
  static void Decode(Slices slices, DecodedRequest* decoded) {
    static const WireLimits limits = TightLimits();
    DecodeRequest(slices, limits, decoded);
  }
  void Compare(const std::string& bytes, Slices slices, const DecodedRequest& decoded) {
    testing::Compare(bytes, slices, decoded, TightLimits(), &tally);
  }
  DecodedRequest whole, cut;
  NativeTally tally;
};

struct Oip {
  static void Decode(Slices slices, InferRequest* decoded) {
    static const WireLimits limits = TightOipLimits();
    DecodeInferRequest(slices, limits, decoded);
  }
  void Compare(const std::string& bytes, Slices slices, const InferRequest& decoded) {
    testing::Compare(bytes, slices, decoded, &tally);
  }
  InferRequest whole, cut;
  OipTally tally;
};

template <typename Door>
class Exhaustive : public ::testing::Test {
 protected:
  // Whole against the generated parser, then in pieces against the whole.
  void Check(const std::string& bytes, const std::vector<Cutter::Places>& ways) {
    ++messages_;
    ASSERT_LE(bytes.size(), Cutter::Places().size());
    const SlicedMessage message(bytes);
    Door::Decode(message.slices(), &door_.whole);
    door_.Compare(bytes, message.slices(), door_.whole);
    ASSERT_FALSE(this->HasFailure()) << Hex(bytes);
    for (const Cutter::Places& cuts : ways) {
      for (const bool empties : {false, true}) {
        ++decoded_;
        Door::Decode(cutter_.Cut(bytes, cuts, empties), &door_.cut);
        const std::string difference = Difference(door_.whole, door_.cut);
        ASSERT_EQ(difference, "") << Hex(bytes) << ", cut at " << cuts << (empties ? " with empty slices" : "");
      }
    }
  }

  // All of up to `most` of these bytes, each in every way to cut it.
  void CheckBytes(std::string_view alphabet, std::size_t most) {
    for (std::size_t size = 0; size <= most; ++size) {
      std::vector<Cutter::Places> ways;
      for (unsigned cuts = 0; cuts < 1u << (size > 0 ? size - 1 : 0); ++cuts) ways.emplace_back(cuts);
      std::string bytes(size, '\0');
      EveryChoice choice;
      while (choice.Next()) {
        for (char& byte : bytes) byte = alphabet[choice.Below(alphabet.size())];
        Check(bytes, ways);
        if (this->HasFatalFailure()) return;
      }
    }
    Report();
  }

  // All messages that `make` makes, each cut once at every place, and into single bytes.
  template <typename Make>
  void CheckFields(Make make) {
    EveryChoice choice;
    std::vector<Cutter::Places> ways;
    while (choice.Next()) {
      const std::string bytes = make(choice);
      ways.assign(1, Cutter::Places().set());
      for (std::size_t i = 0; i + 1 < bytes.size(); ++i) ways.push_back(Cutter::Places().set(i));
      Check(bytes, ways);
      if (this->HasFatalFailure()) return;
    }
    Report();
  }

  void Report() {
    std::printf("%llu messages, %llu times cut and decoded; %ld accepted\n", static_cast<unsigned long long>(messages_),
                static_cast<unsigned long long>(decoded_), door_.tally.accepted);
  }

  google::protobuf::LogSilencer quiet_;  // it says of each string that it is no UTF-8
  Door door_;
  Cutter cutter_;
  std::uint64_t messages_ = 0;
  std::uint64_t decoded_ = 0;
};

using EveryNativeMessage = Exhaustive<Native>;
using EveryOipMessage = Exhaustive<Oip>;

TEST_F(EveryNativeMessage, OfAFewBytesIsReadAsTheGeneratedParserReadsIt) {
  // Tags of ids, shapes, data, summaries, lengths and groups, which are lengths and values as well; the end of a
  // varint that goes on.
  constexpr std::string_view kBytes("\x00\x01\x02\x04\x08\x0b\x0c\x10\x12\x32\x42\x7a\x80\xff", 14);
  CheckBytes(kBytes, MostBytes());
  EXPECT_GT(door_.tally.refused_by_parser, 10'000);
  EXPECT_GT(door_.tally.refused_by_contract, 1'000);
  EXPECT_EQ(door_.tally.accepted > 0, MostBytes() >= 6);  // an empty tensor
}

TEST_F(EveryNativeMessage, OfAFewFieldsIsReadAsTheGeneratedParserReadsIt) {
  const std::vector<std::string> tensor = {
      Dtype(1),     Dtype(2),           Dtype(9), Shape({0}), Shape({1, 2}),
      Scalar(2, 1), Scalar(2, 2),       Data(2),  Data(4),    Tag(2, 2) + "\x02\x01\x80",
      Groups(3, 2), Tag(15, 2) + "\x7f"};
  const std::vector<std::string> beside = {"",
                                           Scalar(1, 300),
                                           Scalar(2, 2),
                                           Scalar(2, 3),
                                           Scalar(3, 0),
                                           Scalar(3, -2),
                                           Double(4, 0.5),
                                           Double(4, -1),
                                           Scalar(5, 4),
                                           Lengths({1}),
                                           Scalar(6, 1),
                                           Scalar(7, 5),
                                           Block(8, Scalar(1, 1)),
                                           Block(8, Block(2, std::string(4, '\0'))),
                                           Input(Scalar(2, 1)),
                                           Input(Dtype(3)),
                                           Groups(9, 2),
                                           Tag(15, 0) + "\x01",
                                           "\x7a"};
  const std::size_t most = MostBytes() - 2;
  CheckFields([&](EveryChoice& choice) {
    const std::string before = choice.OneOf(beside);
    const std::string input = Input(choice.Several(tensor, most));
    return before + input + choice.OneOf(beside);
  });
  EXPECT_GT(door_.tally.accepted, 10);
  EXPECT_GT(door_.tally.with_lengths + door_.tally.with_summary, 0);
  EXPECT_GT(door_.tally.refused_by_parser, 1'000);
  EXPECT_GT(door_.tally.refused_by_contract, 1'000);
}

TEST_F(EveryOipMessage, OfAFewBytesIsReadAsTheGeneratedParserReadsIt) {
  constexpr std::string_view kBytes("\x00\x01\x02\x04\x0a\x0b\x0c\x12\x1a\x22\x2a\x3a\x80\xff", 14);
  CheckBytes(kBytes, MostBytes());
  EXPECT_GT(door_.tally.refused_by_parser, 10'000);
  EXPECT_GT(door_.tally.refused_by_rules, 1'000);
}

TEST_F(EveryOipMessage, OfAFewFieldsIsReadAsTheGeneratedParserReadsIt) {
  const auto parameter = [](std::string_view key, std::string_view value) {
    return Block(4, Block(1, key) + Block(2, value));
  };
  const std::string four(4, '\x3c');
  const std::vector<std::string> tensor = {Block(1, "X"),
                                           Block(1, "Y"),
                                           Block(1, "\xff"),
                                           Block(2, "FP16"),
                                           Block(2, "FP32"),
                                           Packed(3, {1}),
                                           Packed(3, {0}),
                                           Scalar(3, 1),
                                           Scalar(3, 2),
                                           Block(5, Block(6, four)),
                                           Block(5, Tag(6, 5) + four),
                                           Block(5, Scalar(2, 1)),
                                           parameter("x", ""),
                                           Block(4, Block(1, "shared_memory_region")),
                                           Groups(9, 2),
                                           Tag(5, 2) + "\x7f"};
  const std::vector<std::string> models = {"", Block(1, "softmax"), Block(1, "log_softmax_bf16"), Block(1, "\xff")};
  const std::vector<std::string> after = {"",
                                          Block(7, "xx"),
                                          Block(7, four),
                                          Block(7, ""),
                                          Block(2, "1"),
                                          Block(2, "2"),
                                          Block(3, "\xc3\xa9"),
                                          parameter("axis", Scalar(2, -1)),
                                          parameter("scale", Double(4, 0.5)),
                                          parameter("output_dtype", Block(3, "BF16")),
                                          parameter("top_k", Scalar(5, 1)),
                                          parameter("unknown", ""),
                                          Block(4, Scalar(1, 1)),
                                          Block(6, Block(1, "Y")),
                                          Block(6, Block(1, "Y_entropy")),
                                          Groups(9, 2),
                                          "\x2a"};
  const std::string begin[] = {"", Block(1, "X") + Block(2, "FP16"), Block(1, "X") + Block(2, "FP32")};
  const std::size_t most = MostBytes() - 3;
  CheckFields([&](EveryChoice& choice) {
    const std::string model = choice.OneOf(models);
    const std::string input = Block(5, begin[choice.Below(3)] + choice.Several(tensor, most));
    return model + input + choice.OneOf(after);
  });
  EXPECT_GT(door_.tally.accepted, 10);
  EXPECT_GT(door_.tally.refused_by_parser, 100);
  EXPECT_GT(door_.tally.refused_by_rules, 100);
}

}  // namespace
}  // namespace softmax::testing

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/rpc/guard/frame_head.h"

namespace softmax::server {
namespace {

using ::testing::ElementsAre;

std::string Frame(char type, char flags, char stream, std::size_t bytes) {
  return std::string{0, static_cast<char>(bytes >> 8), static_cast<char>(bytes), type, flags, 0, 0, 0, stream} +
         std::string(bytes, '\x05');
}

TEST(SentFrames, TellsWhichCallsTheServerEnds) {
  const std::string sent = Frame(4, 0, 0, 30) + Frame(1, 4, 1, 20) + Frame(0, 0, 1, 1000) +  // SETTINGS, an answer,
                           Frame(1, 5, 1, 10) + Frame(1, 5, 3, 70) +                         // trailers, an error,
                           Frame(3, 0, 3, 4) + Frame(6, 1, 0, 8) + Frame(0, 1, 5, 0);  // RST_STREAM, PING's, DATA's end
  for (const std::size_t piece : {std::size_t{1}, std::size_t{5}, std::size_t{9}, std::size_t{13}, sent.size()}) {
    SentFrames frames;
    std::vector<std::uint32_t> ended;
    for (std::size_t at = 0; at < sent.size(); at += piece) {
      std::string_view bytes = std::string_view(sent).substr(at, piece);
      while (const auto stream = frames.Take(&bytes)) ended.push_back(*stream);
      EXPECT_TRUE(bytes.empty());
    }
    EXPECT_THAT(ended, ElementsAre(1, 3, 3, 5)) << piece;
  }
}

}  // namespace
}  // namespace softmax::server

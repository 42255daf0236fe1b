#include "server/rpc/accept/room.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace softmax::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class RoomTest : public ::testing::Test {
 protected:
  // So long it has been so.
  void Add(int fd, Use use, const std::string& network, Nanoseconds age) {
    occupants_.push_back({fd, use, network, now_ - age});
    ++networks_[network];
  }
  void AddBusy(const std::string& network, std::size_t connections) { networks_[network] += connections; }
  Room Look(std::size_t places = 8) const { return Room(occupants_, networks_, places, now_, milliseconds(2)); }
  // Who goes for `newcomers` newcomers; -1: nobody.
  std::vector<int> Go(const std::string& newcomer, std::size_t newcomers) const {
    Room room = Look();
    std::vector<int> gone;
    for (std::size_t i = 0; i < newcomers; ++i) {
      const auto occupant = room.MakeFor(newcomer, now_);
      gone.push_back(occupant.has_value() ? occupant->fd : -1);
    }
    return gone;
  }

  const TimePoint now_ = SteadyClock::now();
  std::vector<Room::Occupant> occupants_;
  Room::Networks networks_;
};

TEST_F(RoomTest, WhoUsesItsPlaceLeastGoesFirstAndOfThoseTheOldest) {
  Add(1, Use::kIdle, "a", seconds(60));
  Add(2, Use::kUnused, "a", seconds(20));
  Add(3, Use::kUnused, "a", seconds(30));
  Add(4, Use::kHandshake, "a", seconds(5));
  Add(5, Use::kHandshake, "a", seconds(6));
  Add(6, Use::kSilent, "a", seconds(4));
  Add(7, Use::kIdle, "a", seconds(70));
  EXPECT_EQ(Go("a", 8), (std::vector<int>{6, 5, 4, 3, 2, 7, 1, -1}));
}

TEST_F(RoomTest, WhoHasJustComeStaysWhileOthersHaveHadTheTimeToBegin) {
  Add(1, Use::kHandshake, "a", milliseconds(1));
  Add(2, Use::kSilent, "a", milliseconds(1));
  Add(3, Use::kUnused, "a", seconds(4));
  Add(4, Use::kIdle, "a", seconds(60));
  EXPECT_EQ(Go("a", 4), (std::vector<int>{3, 2, 1, 4}));
}

// Newcomers in a rush do not drive each other out while another network has more than its share.
TEST_F(RoomTest, WhoHasJustComeStaysWhileANetworkHasMoreThanItsShare) {
  for (int i = 0; i < 6; ++i) Add(i, Use::kIdle, "a", milliseconds(100 - i));
  Add(6, Use::kHandshake, "b", milliseconds(1));
  Add(7, Use::kHandshake, "b", milliseconds(1));
  EXPECT_EQ(Go("b", 2), (std::vector<int>{0, 1}));
}

TEST_F(RoomTest, TheNetworkWithTheMostConnectionsGivesUpItsOwnFirst) {
  Add(1, Use::kHandshake, "few", seconds(9));
  for (int i = 2; i < 6; ++i) Add(i, Use::kHandshake, "many", milliseconds(10 - i));
  AddBusy("few", 1);
  EXPECT_EQ(Go("new", 2), (std::vector<int>{2, 3}));
}

// Connections with calls under way count, though none of them goes.
TEST_F(RoomTest, BusyConnectionsMakeANetworkLarger) {
  Add(1, Use::kUnused, "few", seconds(9));
  Add(2, Use::kUnused, "many", seconds(1));
  AddBusy("many", 5);
  EXPECT_EQ(Go("new", 1), (std::vector<int>{2}));
}

TEST_F(RoomTest, ACrowdOfNewcomersDrivesOutNobodyOfASmallerNetworkThatIsBeginning) {
  for (const Use use : {Use::kSilent, Use::kHandshake, Use::kUnused}) {
    occupants_.clear();
    networks_.clear();
    Add(1, use, "honest", Room::kTimeToBegin - milliseconds(1));
    AddBusy("crowd", 7);
    EXPECT_EQ(Go("crowd", 1), (std::vector<int>{-1}));
    EXPECT_EQ(Go("honest", 1), (std::vector<int>{1}));  // its own
  }
  Add(2, Use::kHandshake, "late", Room::kTimeToBegin);
  EXPECT_EQ(Go("crowd", 1), (std::vector<int>{2}));
}

TEST_F(RoomTest, NewcomersAreCountedWithTheirNetwork) {
  for (int i = 0; i < 4; ++i) Add(i, Use::kHandshake, "a", milliseconds(100 - i));
  // Three of b's drive out a's until a has no more than b.
  EXPECT_EQ(Go("b", 3), (std::vector<int>{0, 1, -1}));
}

TEST_F(RoomTest, IdleConnectionsOfANetworkWithinItsShareHaveTimeBetweenCalls) {
  for (int i = 0; i < 4; ++i) Add(i, Use::kIdle, "a", Room::kTimeBetweenCalls - milliseconds(1 + i));
  AddBusy("b", 2);
  EXPECT_EQ(Go("new", 1), (std::vector<int>{0}));  // 4 of 8 places for each of 3 networks are more than its share
  networks_.erase("b");
  EXPECT_EQ(Go("new", 1), (std::vector<int>{-1}));  // and for each of 2 its share
  EXPECT_EQ(Go("a", 1), (std::vector<int>{-1}));
  Add(9, Use::kIdle, "c", Room::kTimeBetweenCalls);
  EXPECT_EQ(Go("new", 1), (std::vector<int>{0}));
  networks_["a"] = 2;
  EXPECT_EQ(Go("new", 1), (std::vector<int>{9}));
}

// A proxy that many clients are behind has all places, and they are in use.
TEST_F(RoomTest, ALoneNetworkIsAboveNoShare) {
  for (int i = 0; i < 8; ++i) Add(i, Use::kIdle, "proxy", seconds(i));
  EXPECT_EQ(Go("proxy", 1), (std::vector<int>{-1}));
  EXPECT_EQ(Go("new", 1), (std::vector<int>{7}));
}

TEST_F(RoomTest, ALookIsGoodForATimeInProportion) {
  const Room room = Look();
  EXPECT_FALSE(room.IsOutdated(now_ + milliseconds(19)));
  EXPECT_TRUE(room.IsOutdated(now_ + milliseconds(20)));
}

// Those who came since are looked at before a newcomer is refused for want of an occupant.
TEST_F(RoomTest, ALookIsGoodForATenthOfThePlaces) {
  for (int i = 0; i < 20; ++i) Add(i, Use::kSilent, "a", seconds(4));
  Room room = Look(/*places=*/20);
  ASSERT_TRUE(room.MakeFor("a", now_).has_value());
  EXPECT_FALSE(room.IsOutdated(now_));
  ASSERT_TRUE(room.MakeFor("a", now_).has_value());
  EXPECT_TRUE(room.IsOutdated(now_));
}

}  // namespace
}  // namespace softmax::server

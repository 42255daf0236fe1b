#include "common/base/duration.h"

#include <gtest/gtest.h>

namespace softmax {
namespace {

TEST(ReadDuration, TakesANumberInAnyOfTheUnits) {
  EXPECT_EQ(ReadDuration("7ns")->ns, 7);
  EXPECT_EQ(ReadDuration("200us")->ns, 200e3);
  EXPECT_EQ(ReadDuration("2ms")->ns, 2e6);
  EXPECT_EQ(ReadDuration("1.5s")->ns, 1.5e9);
  EXPECT_EQ(ReadDuration("1.5s")->number, 1.5);
  EXPECT_EQ(ReadDuration("3m")->ns, 180e9);
  EXPECT_EQ(ReadDuration("2h")->ns, 7200e9);
}

TEST(ReadDuration, OnlyZeroNeedsNoUnit) {
  EXPECT_EQ(ReadDuration("0")->ns, 0);
  EXPECT_EQ(ReadDuration("0.0")->ns, 0);
  EXPECT_EQ(ReadDuration("0h")->ns, 0);
  EXPECT_FALSE(ReadDuration("1"));
  EXPECT_FALSE(ReadDuration("0x"));
}

TEST(ReadDuration, RefusesWhatIsNoDuration) {
  for (const char* text : {"", "s", "-1s", "+1s", "1 s", " 1s", "1s ", "1S", "1d", "1m30s", "1e3s", "nans", "infs"}) {
    EXPECT_FALSE(ReadDuration(text)) << text;
  }
}

TEST(ReadDuration, UnitsAndExponentsAreTheCallersChoice) {
  constexpr Unit kUnits[] = {{"", 10}, {"x", 100}};
  EXPECT_EQ(ReadDuration("2", kUnits)->ns, 20);
  EXPECT_EQ(ReadDuration("2x", kUnits)->ns, 200);
  EXPECT_FALSE(ReadDuration("2s", kUnits));
  EXPECT_EQ(ReadDuration("1e3ms", kDurationUnits, std::chars_format::general)->ns, 1e9);
  EXPECT_FALSE(ReadDuration("nan", kUnits, std::chars_format::general));
  EXPECT_FALSE(ReadDuration("inf", kUnits, std::chars_format::general));
}

}  // namespace
}  // namespace softmax

#include "server/rpc/health/health.h"

#include <gtest/gtest.h>

namespace softmax::server {
namespace {

using Status = Health::Status;

TEST(Health, EachServiceHasTheStatusOfItsTable) {
  for (const bool ready : {false, true}) {
    for (const bool live : {false, true}) {
      for (const bool unsafe : {false, true}) {
        Health health;
        health.SetReady(ready);
        health.SetLive(live);
        health.SetUnsafeTesting(unsafe);
        const auto expect = [&](const char* service, bool serving) {
          EXPECT_EQ(health.Check(service), serving ? Status::kServing : Status::kNotServing)
              << service << " ready " << ready << " live " << live << " unsafe " << unsafe;
        };
        expect("", ready && live);
        expect("readiness", ready && live);
        expect("softmax.v1.SoftmaxService", ready && live && !unsafe);
        expect("inference.GRPCInferenceService", ready && live && !unsafe);
        expect("liveness", live);
        EXPECT_EQ(health.ready(), ready && live);
        EXPECT_EQ(health.Check("another"), Status::kUnknownService);
      }
    }
  }
}

TEST(Health, BeginsAliveAndNotReady) {
  const Health health;
  EXPECT_EQ(health.Check("liveness"), Status::kServing);
  EXPECT_FALSE(health.ready());
}

TEST(Health, ListenersHearOfChangesAndOfNothingElse) {
  Health health;
  int heard = 0;
  health.AddListener([&] {
    ++heard;
    (void)health.Check("");  // no lock is held
  });
  health.SetReady(false);
  EXPECT_EQ(heard, 0);
  health.SetReady(true);
  health.SetLive(false);
  health.SetUnsafeTesting(true);
  EXPECT_EQ(heard, 3);
}

}  // namespace
}  // namespace softmax::server

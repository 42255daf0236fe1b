#include "server/execution/topology.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temp_folder.h"

namespace softmax::server {
namespace {

using Order = std::vector<std::uint32_t>;

// A machine of made-up devices and cores.
class TopologyTest : public ::testing::Test {
 protected:
  void AddDevice(const std::string& address, const std::string& local_cores) {
    const std::string device = root_ + "/sys/bus/pci/devices/" + address;
    std::filesystem::create_directories(device);
    std::ofstream(device + "/local_cpulist") << local_cores << "\n";
  }
  // Two devices on each of so many nodes of eight cores.
  std::vector<std::string> AddNodes(int nodes) {
    std::vector<std::string> addresses;
    for (int device = 0; device < 2 * nodes; ++device) {
      const int core = device / 2 * 8;
      addresses.push_back("0000:c" + std::to_string(device) + ":00.0");
      AddDevice(addresses.back(), std::to_string(core) + "-" + std::to_string(core + 7));
    }
    return addresses;
  }
  std::string CoresOf(const Topology& topology, std::uint32_t thread) {
    return FormatCores(topology.HomeOf(thread).cores);
  }

  const softmax::testing::TempFolder folder_;
  const std::string root_ = folder_.path("root");
};

TEST_F(TopologyTest, OnOneNodeThreadsTakeTurnsAndRunAnywhere) {
  const Topology topology = ReadTopology(root_, AddNodes(1), ParseCores("0-7"));
  for (std::uint32_t thread = 0; thread < 6; ++thread) {
    EXPECT_EQ(topology.HomeOf(thread).device, thread % 2);
    EXPECT_TRUE(topology.HomeOf(thread).cores.none());
  }
  EXPECT_EQ(topology.DevicesFrom(1), (Order{1, 0}));
  EXPECT_EQ(topology.Describe(6), "");
}

TEST_F(TopologyTest, OnTwoNodesThreadsStayNearTheirDevice) {
  const Topology topology = ReadTopology(root_, AddNodes(2), ParseCores("0-15"));
  EXPECT_EQ(CoresOf(topology, 0), "0-7");
  EXPECT_EQ(CoresOf(topology, 1), "0-7");
  EXPECT_EQ(CoresOf(topology, 2), "8-15");
  EXPECT_EQ(CoresOf(topology, 7), "8-15");
  EXPECT_EQ(topology.HomeOf(7).device, 3u);
  EXPECT_EQ(topology.Describe(8),
            "4 threads on cores 0-7 near devices 0, 1; 4 threads on cores 8-15 near devices 2, 3");
}

TEST_F(TopologyTest, DevicesOfTheSameNodeComeFirst) {
  const Topology topology = ReadTopology(root_, AddNodes(4), ParseCores("0-31"));
  EXPECT_EQ(topology.DevicesFrom(0), (Order{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(topology.DevicesFrom(3), (Order{3, 2, 4, 5, 6, 7, 0, 1}));
  EXPECT_EQ(topology.DevicesFrom(7), (Order{7, 6, 0, 1, 2, 3, 4, 5}));
}

TEST_F(TopologyTest, OnlyAsManyThreadsStayAsTheCoresHaveQueuesFor) {
  AddDevice("0000:c1:00.0", "0-7");
  const Topology topology = ReadTopology(root_, {"0000:C1:00.0"}, ParseCores("0-15"));
  for (std::uint32_t thread = 0; thread < 8; ++thread) EXPECT_EQ(CoresOf(topology, thread), thread < 6 ? "0-7" : "");
  EXPECT_EQ(topology.Describe(8), "6 threads on cores 0-7 near devices 0");
}

TEST_F(TopologyTest, TheMaskNarrowsNodesAndMayLeaveOneEmpty) {
  const std::vector<std::string> devices = AddNodes(2);
  const Topology narrow = ReadTopology(root_, devices, ParseCores("6-9"));
  EXPECT_EQ(CoresOf(narrow, 0), "6-7");
  EXPECT_EQ(CoresOf(narrow, 2), "8-9");
  const Topology first = ReadTopology(root_, devices, ParseCores("0-7"));
  for (std::uint32_t thread = 0; thread < 4; ++thread) EXPECT_EQ(CoresOf(first, thread), "");
  const Topology odd = ReadTopology(root_, devices, ParseCores("0-3,40"));
  EXPECT_EQ(CoresOf(odd, 0), "0-3");
  EXPECT_EQ(CoresOf(odd, 2), "") << "no core is near, so any will do";
}

TEST_F(TopologyTest, WhatIsNotToldIsNotGuessed) {
  AddDevice("0000:c1:00.0", "");
  AddDevice("0000:c2:00.0", "-1");
  AddDevice("0000:c3:00.0", "8-15");
  const Topology topology =
      ReadTopology(root_, {"0000:c1:00.0", "0000:c2:00.0", "0000:c3:00.0", "0000:c4:00.0", ""}, ParseCores("0-15"));
  for (const std::uint32_t thread : {0u, 1u, 3u, 4u}) EXPECT_EQ(CoresOf(topology, thread), "") << thread;
  EXPECT_EQ(CoresOf(topology, 2), "8-15");
  EXPECT_EQ(topology.DevicesFrom(3), (Order{3, 4, 0, 1, 2}));
}

}  // namespace
}  // namespace softmax::server

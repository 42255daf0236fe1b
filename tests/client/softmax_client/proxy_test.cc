#include <gtest/gtest.h>

#include "client/softmax_client/target.h"
#include "tests/client/support/scoped_environment.h"

namespace softmax::client {
namespace {

TEST(ProxyTest, WhatIsOnThisMachineIsKnown) {
  for (const char* target : {"localhost:1",
                             "LOCALHOST:1",
                             "localhost.:1",
                             "a.localhost:1",
                             "127.0.0.1:1",
                             "127.8.9.10:1",
                             "127.1:1",
                             "[::1]:1",
                             "[0:0::1]:1",
                             "[::1%lo]:1",
                             "[::ffff:127.0.0.1]:1",
                             "0.0.0.0:1",
                             "[::]:1",
                             "ipv4:127.0.0.1:1",
                             "ipv6:[::1]:1",
                             "dns:localhost:1",
                             "dns:///localhost:1",
                             "dns://10.0.0.1/localhost:1",
                             "unix:/a",
                             "unix:///a",
                             "unix-abstract:a",
                             "ip6-localhost:1"}) {
    EXPECT_TRUE(IsOnThisMachine(target)) << target;
  }
  for (const char* target :
       {"host:1", "localhost.example:1", "notlocalhost:1", "10.127.0.1:1", "128.0.0.1:1", "[::2]:1", "ipv4:10.0.0.1:1",
        "dns:///host:1", "dns://127.0.0.1/host:1", "127.0.0.1.example:1", "[::ffff:10.0.0.1]:1", "unixhost:1"}) {
    EXPECT_FALSE(IsOnThisMachine(target)) << target;
  }
}

TEST(ProxyTest, TheProxyIsTheOneThatGrpcTakes) {
  ScopedEnvironment none({{"grpc_proxy", nullptr}, {"https_proxy", nullptr}, {"http_proxy", nullptr}});
  EXPECT_FALSE(ProxyOf("host:1"));
  ScopedEnvironment some({{"http_proxy", "http://user:secret@proxy:3128/"}, {"no_proxy", "example.com,10.0.0.9"}});
  const auto proxy = ProxyOf("host:1");
  ASSERT_TRUE(proxy);
  EXPECT_EQ(proxy->address, "proxy:3128");
  EXPECT_EQ(proxy->variable, "http_proxy");
  EXPECT_FALSE(ProxyOf("localhost:1"));
  EXPECT_FALSE(ProxyOf("unix:/a"));
  EXPECT_FALSE(ProxyOf("dns:///a.EXAMPLE.com:1"));
  EXPECT_FALSE(ProxyOf("ipv4:10.0.0.9:1"));
  EXPECT_TRUE(ProxyOf("ipv4:10.0.0.8:1"));
  ScopedEnvironment more({{"grpc_proxy", "http://other:1"}, {"no_grpc_proxy", ""}});
  EXPECT_EQ(ProxyOf("a.example.com:1")->variable, "grpc_proxy");
  ScopedEnvironment empty({{"grpc_proxy", ""}});
  EXPECT_FALSE(ProxyOf("host:1"));
}

}  // namespace
}  // namespace softmax::client

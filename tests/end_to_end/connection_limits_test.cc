// Calls that meet a connection at the server's limits for it. Closing in the moment in which a call comes is rare; the
// tests of the client's library (closing_test.cc) make it happen, and these show that nothing else comes of it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/end_to_end/server_process.h"
#include "tests/support/run_program.h"

namespace softmax::testing {
namespace {

// What one attempt for each of more than `requests` requests came to.
void ExpectNoneLost(const std::string& limit, std::vector<std::string> load, int requests) {
  const ServerProcess server({limit});
  load.insert(load.end(), {"--address", server.target(), "--shape", "1x16", "--connect-timeout", "60", "--json", "-"});
  const client::ProgramResult result = client::RunProgram(SOFTMAX_LOADGEN, load);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json run = nlohmann::json::parse(result.out)["runs"][0];
  EXPECT_EQ(run["errors"], nlohmann::json::object()) << run["first_error"];
  EXPECT_EQ(run["warmup_errors"], nlohmann::json::object()) << run["first_error"];
  EXPECT_GT(run["sent"], requests);
}

TEST(ConnectionLimits, NoCallIsLostWhenConnectionsReachTheirAge) {
  ExpectNoneLost("--max-connection-age=1s", {"--connections", "16", "--in-flight", "4", "--duration", "10"}, 1000);
}

// gRPC closes a connection 2 s after its last call when the limit is 1 s: just when the next one comes here, where the
// machine keeps up. A server that lags behind closes connections whose next call has come and is not read yet.
TEST(TimedConnectionLimits, NoCallIsLostThatComesWhenItsConnectionHasBeenWithoutOneForTooLong) {
  ExpectNoneLost("--max-connection-idle=1s",
                 {"--connections", "400", "--rate", "200", "--duration", "12", "--max-in-flight", "4000"}, 2000);
}

}  // namespace
}  // namespace softmax::testing

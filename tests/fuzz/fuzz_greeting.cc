// libFuzzer over the judgement of a connection's first bytes. Byte 0, bit 0: a TLS port.
#include "server/rpc/accept/greeting.h"
#include "tests/fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using softmax::server::Greeting;
  using softmax::testing::Require;
  if (size == 0) return 0;
  const softmax::testing::ExactCopy copy(data + 1, size - 1);
  const auto protocol = (data[0] & 1) != 0 ? softmax::server::Protocol::kTls : softmax::server::Protocol::kHttp2;
  // As it arrives, byte by byte: what is right once stays right, and what is wrong never turns right.
  Greeting before = Greeting::kIncomplete;
  for (std::size_t length = 0; length <= copy.text().size() && length <= 40; ++length) {
    const softmax::testing::ExactCopy arrived(data + 1, length);
    const Greeting now = softmax::server::JudgeGreeting(protocol, arrived.text());
    if (before == Greeting::kRight) Require(now == Greeting::kRight, "a right greeting stays right");
    if (before == Greeting::kWrong || before == Greeting::kHttp1) {
      Require(now != Greeting::kRight && now != Greeting::kIncomplete, "a wrong greeting stays wrong");
    }
    before = now;
  }
  return 0;
}

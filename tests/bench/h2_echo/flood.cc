// One of the floods of tests/end_to_end/floods.cc against a server, by hand: prints after how many seconds the server
// ended it, or "not ended".
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iostream>

#include "tests/end_to_end/floods.h"

int main(int argc, char** argv) {
  CLI::App app("Sends a flood of HTTP/2 frames to a server on 127.0.0.1");
  std::string address, name;
  double seconds = 2;
  app.add_option("--address", address, "127.0.0.1:port");
  app.add_option("--attack", name, "by name; without one, the names are listed");
  app.add_option("--duration", seconds, "at most, seconds")->check(CLI::Range(0.0, 60.0));
  CLI11_PARSE(app, argc, argv);
  const std::vector<softmax::testing::Attack> attacks = softmax::testing::Attacks();
  if (name.empty()) {
    for (const auto& attack : attacks) std::cout << attack.name << "\n";
    return 0;
  }
  const auto found = std::find_if(attacks.begin(), attacks.end(), [&](const auto& one) { return one.name == name; });
  if (found == attacks.end()) {
    std::cerr << "--attack " << name << ": no such flood\n";
    return 2;
  }
  const auto most =
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
  const auto ended = softmax::testing::Flood(address, *found, most);
  if (ended) {
    std::cout << std::chrono::duration<double>(*ended).count() << "\n";
  } else {
    std::cout << "not ended\n";
  }
}

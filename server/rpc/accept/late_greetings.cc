#include "server/rpc/accept/late_greetings.h"

#include <algorithm>

namespace softmax::server {

void LateGreetings::Ended(const std::string& network, TimePoint now) {
  if (network.empty()) return;
  MutexLock lock(mu_);
  const auto it = by_name_.find(network);
  if (it == by_name_.end()) {
    by_name_[network] = networks_.insert(networks_.end(), Network{network, now, kFirst});
  } else {
    Network& known = *it->second;
    known.delay = now - known.ended < kForgottenAfter ? std::min(2 * known.delay, kMost) : kFirst;
    known.ended = now;
    networks_.splice(networks_.end(), networks_, it->second);
  }
  while (networks_.size() > kNetworks || now - networks_.front().ended >= kForgottenAfter) {
    by_name_.erase(networks_.front().name);
    networks_.pop_front();
  }
}

TimePoint LateGreetings::GreetAt(const std::string& network, TimePoint now) const {
  MutexLock lock(mu_);
  const auto it = by_name_.find(network);
  return it == by_name_.end() ? now : std::max(now, it->second->ended + it->second->delay);
}

std::size_t LateGreetings::size() const {
  MutexLock lock(mu_);
  return networks_.size();
}

}  // namespace softmax::server

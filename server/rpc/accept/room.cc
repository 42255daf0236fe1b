#include "server/rpc/accept/room.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace softmax::server {

Room::Room(std::vector<Occupant> occupants, Networks networks, std::size_t places, TimePoint looked, Nanoseconds took)
    : occupants_(std::move(occupants)),
      networks_(std::move(networks)),
      places_(places),
      look_again_(looked + kTimesALook * took) {
  std::sort(occupants_.begin(), occupants_.end(), [this](const Occupant& a, const Occupant& b) {
    return std::tuple(a.use, Has(b.network), a.since) < std::tuple(b.use, Has(a.network), b.since);
  });
}

std::optional<Room::Occupant> Room::MakeFor(const std::string& newcomer, TimePoint now) {
  for (const Pressed pressed : {Pressed::kNo, Pressed::kYes}) {
    const auto it = std::find_if(occupants_.begin(), occupants_.end(),
                                 [&](const Occupant& occupant) { return MayGo(occupant, newcomer, now, pressed); });
    if (it == occupants_.end()) continue;
    Occupant goes = std::move(*it);
    occupants_.erase(it);
    ++gone_;
    --networks_[goes.network];
    ++networks_[newcomer];
    return goes;
  }
  return std::nullopt;
}

bool Room::MayGo(const Occupant& occupant, const std::string& newcomer, TimePoint now, Pressed pressed) const {
  const bool is_idle = occupant.use == Use::kIdle;
  const bool had_time = now - occupant.since >= (is_idle ? kTimeBetweenCalls : kTimeToBegin);
  const bool did_not_begin = had_time && !is_idle;
  const std::size_t its = Has(occupant.network);
  if (occupant.network != newcomer && its <= Has(newcomer)) return did_not_begin;
  const std::size_t networks = networks_.size() + (networks_.contains(newcomer) ? 0 : 1);
  if (its > places_ / networks) return true;
  return pressed == Pressed::kYes ? had_time || !is_idle : did_not_begin;
}

std::size_t Room::Has(const std::string& network) const {
  const auto it = networks_.find(network);
  return it == networks_.end() ? 0 : it->second;
}

}  // namespace softmax::server

// Which servers of a cluster are there, in a run whose servers may leave and come back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace moelab {

struct ServersPresent {
  explicit ServersPresent(std::size_t servers) : up(servers, 1), may_return(servers, 0) {}

  std::vector<std::uint8_t> up;          // by server: whether it is
  std::vector<std::uint8_t> may_return;  // by server: whether it will come back, or may at random
  std::size_t serving = 0;               // servers that have requests left
};

/// One of them. What it waits for while it is away it looks for every `look_every` seconds.
struct ServerPresence {
  ServersPresent* all = nullptr;  // nullptr: it never leaves
  std::size_t number = 0;
  double look_every_s = 1;

  bool up() const { return all == nullptr || all->up[number] != 0; }
  bool may_return() const { return all->may_return[number] != 0; }
};

}  // namespace moelab

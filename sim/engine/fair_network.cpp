#include "sim/engine/fair_network.hpp"

#include <utility>

#include "sim/engine/invariant.hpp"
#include "sim/network_input.hpp"

namespace moelab::engine {

FairNetwork::FairNetwork(const NetworkLaw& law)
    : mesh_(law.topology == NetworkLaw::Topology::mesh), nodes_(law.nodes) {
  if (law.topology == NetworkLaw::Topology::platform)
    refuse_network(
        law.platform_file,
        "a platform file is SimGrid's: use executor simgrid, or a star or mesh with executor fast");
  check_network(law);
  if (mesh_) return;
  links_.resize(2 * nodes_.size());
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    links_[i].bandwidth = nodes_[i].out;
    links_[nodes_.size() + i].bandwidth = nodes_[i].in;
  }
}

// A mesh of thousands of nodes has millions of links, of which few are in use.
std::uint32_t FairNetwork::link_of_pair(NodeId from, NodeId to) {
  const auto [found, is_new] = link_of_pair_.try_emplace(pair(from, to), 0);
  if (is_new) {
    if (free_links_.empty()) {
      free_links_.push_back(static_cast<std::uint32_t>(links_.size()));
      links_.emplace_back();
    }
    found->second = free_links_.back();
    free_links_.pop_back();
    links_[found->second].pair = pair(from, to);
  }
  links_[found->second].bandwidth = bandwidth(from, to);  // it may have changed while there were no flows
  return found->second;
}

void FairNetwork::mark(std::uint32_t link, double now) {
  now_ = now;
  if (std::exchange(links_[link].changed, true)) return;
  changed_.push_back(link);
}

void FairNetwork::put(std::uint32_t flow, std::size_t side, std::uint32_t link) {
  flows_[flow].links[side] = link;
  if (link == kNoLink) return;
  flows_[flow].places[side] = static_cast<std::uint32_t>(links_[link].flows.size());
  links_[link].flows.push_back(flow);
}

void FairNetwork::leave(std::uint32_t flow, std::size_t side) {
  const std::uint32_t link = flows_[flow].links[side], place = flows_[flow].places[side];
  if (link == kNoLink) return;
  std::vector<std::uint32_t>& there = links_[link].flows;
  const std::uint32_t moved = there.back();  // it takes the place
  there[place] = moved;
  flows_[moved].places[flows_[moved].links[0] == link ? 0 : 1] = place;
  there.pop_back();
}

void FairNetwork::join(const InFlight& flow, NodeId from, NodeId to, double bytes) {
  if (free_flows_.empty()) {
    free_flows_.push_back(static_cast<std::uint32_t>(flows_.size()));
    flows_.emplace_back();
    ends_.add();
  }
  const std::uint32_t number = free_flows_.back();
  free_flows_.pop_back();
  flows_[number] = {flow.graph, flow.op, bytes, 0, flow.end, {}, {}};
  put(number, 0, mesh_ ? link_of_pair(from, to) : from);
  put(number, 1, mesh_ ? kNoLink : static_cast<std::uint32_t>(nodes_.size() + to));
  for (const std::uint32_t link : flows_[number].links)
    if (link != kNoLink) mark(link, flow.end);
}

InFlight FairNetwork::take_next(double now) {
  const std::uint32_t number = ends_.first();
  const Flow& flow = flows_[number];
  ends_.set(number, MomentHeap::kNever);
  for (std::size_t side = 0; side < 2; ++side) {
    leave(number, side);
    if (flow.links[side] != kNoLink) mark(flow.links[side], now);
  }
  free_flows_.push_back(number);
  return {now, flow.graph, flow.op};
}

void FairNetwork::set_bandwidth(std::uint32_t link, double bandwidth, double now) {
  if (links_[link].bandwidth == bandwidth) return;
  links_[link].bandwidth = bandwidth;
  mark(link, now);
}

void FairNetwork::set_node(NodeId node, NetworkLaw::Node bandwidth_of_node, double now) {
  check_node(node, bandwidth_of_node);
  nodes_[node] = bandwidth_of_node;
  if (!mesh_) {
    set_bandwidth(node, bandwidth_of_node.out, now);
    set_bandwidth(static_cast<std::uint32_t>(nodes_.size() + node), bandwidth_of_node.in, now);
    return;
  }
  for (std::uint32_t link = 0; link < links_.size(); ++link) {
    const auto from = static_cast<NodeId>(links_[link].pair >> 32);
    const auto to = static_cast<NodeId>(links_[link].pair);
    if (!links_[link].flows.empty() && (from == node || to == node))
      set_bandwidth(link, bandwidth(from, to), now);
  }
}

void FairNetwork::set_rate(std::uint32_t number) {
  Flow& flow = flows_[number];
  double rate = links_[flow.links[0]].share;
  if (flow.links[1] != kNoLink) rate = std::min(rate, links_[flow.links[1]].share);
  if (rate == flow.rate) return;
  check_invariant(now_ >= flow.since, "a network's time runs forward");
  if (now_ > flow.since) flow.left = std::max(flow.left - flow.rate * (now_ - flow.since), 0.0);
  flow.since = now_;
  flow.rate = rate;
  ends_.set(number, now_ + flow.left / rate);
}

void FairNetwork::settle() {
  for (const std::uint32_t number : changed_) {
    Link& link = links_[number];
    link.share = link.bandwidth / static_cast<double>(std::max<std::size_t>(link.flows.size(), 1));
  }
  for (const std::uint32_t number : changed_) {
    Link& link = links_[number];
    link.changed = false;
    for (const std::uint32_t flow : link.flows) set_rate(flow);
    if (!mesh_ || !link.flows.empty()) continue;
    link_of_pair_.erase(link.pair);
    free_links_.push_back(number);
  }
  changed_.clear();
}

}  // namespace moelab::engine

#include "sim/serving/common_parts.hpp"

#include <algorithm>

namespace moelab {
namespace {

using Nodes = std::vector<RequestParts::Node>;
constexpr std::uint32_t kNone = RequestParts::kNone;

/// By part: how many parts of `shared` requests stand behind it at most, itself counted; 0: none share it.
std::vector<std::uint32_t> longest_behind(const Nodes& nodes, const std::vector<std::uint32_t>& shared) {
  std::vector<std::uint32_t> longest(nodes.size(), 0);
  for (const std::uint32_t node : shared)
    if (node != kNone) longest[node] = 1;
  for (std::size_t node = nodes.size(); node-- > 0;)  // parts stand behind those before them
    if (const std::uint32_t before = nodes[node].before; before != kNone && longest[node] > 0)
      longest[before] = std::max(longest[before], longest[node] + 1);
  return longest;
}

/// By part: the one that follows it in its array.
std::vector<std::uint32_t> followers(const Nodes& nodes, const std::vector<std::uint32_t>& longest) {
  std::vector<std::uint32_t> next(nodes.size(), kNone);
  for (std::uint32_t node = 0; node < nodes.size(); ++node) {
    const std::uint32_t before = nodes[node].before;
    if (before == kNone || longest[node] == 0) continue;
    if (next[before] == kNone || longest[next[before]] < longest[node]) next[before] = node;
  }
  return next;
}

std::vector<TokenPart> parts_before(const Nodes& nodes, std::uint32_t node) {
  std::vector<TokenPart> parts;
  for (node = nodes[node].before; node != kNone; node = nodes[node].before)
    parts.push_back({nodes[node].part.of, nodes[node].part.end});
  std::ranges::reverse(parts);
  return parts;
}

}  // namespace

std::vector<CommonParts> common_parts(const RequestParts& parts, std::size_t requests) {
  const Nodes& nodes = parts.nodes();
  std::vector<std::uint32_t> shared(requests);
  for (std::size_t i = 0; i < requests; ++i) shared[i] = parts.last_shared(i);
  const std::vector<std::uint32_t> longest = longest_behind(nodes, shared);
  const std::vector<std::uint32_t> next = followers(nodes, longest);
  std::vector<CommonParts> by_node(nodes.size());
  for (std::uint32_t head = 0; head < nodes.size(); ++head) {
    const std::uint32_t before = nodes[head].before;
    if (longest[head] == 0 || (before != kNone && next[before] == head)) continue;
    auto array = std::make_shared<std::vector<TokenPart>>(parts_before(nodes, head));
    array->reserve(array->size() + longest[head]);
    for (std::uint32_t node = head; node != kNone; node = next[node]) {
      array->push_back({nodes[node].part.of, nodes[node].part.end});
      by_node[node] = {array, array->size()};
    }
  }
  std::vector<CommonParts> all(requests);
  for (std::size_t i = 0; i < requests; ++i)
    if (shared[i] != kNone) all[i] = by_node[shared[i]];
  return all;
}

}  // namespace moelab

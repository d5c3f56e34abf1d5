#include "traces/request_parts.hpp"

#include <algorithm>
#include <limits>

namespace moelab {

RequestParts::RequestParts(std::span<const RequestRecord> requests) {
  constexpr std::uint64_t kMostTokens = std::numeric_limits<std::uint32_t>::max();
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const RequestRecord& request = requests[i];
    std::uint32_t before = kNone;
    if (request.shared_tokens > 0) {
      before = part_at(last_[request.shared_with], request.shared_tokens);
      const Node there = nodes_[before];
      if (there.part.end > request.shared_tokens)
        before = add({there.part.of, request.shared_tokens}, there.before);
    }
    const std::uint64_t own =
        std::min(std::uint64_t{request.prompt_tokens} + request.output_tokens, kMostTokens);
    const bool has_own = before == kNone || own > nodes_[before].part.end;
    last_.push_back(has_own ? add({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(own)}, before)
                            : before);
  }
  find_shared(requests.size());
}

std::uint32_t RequestParts::add(SharedPart part, std::uint32_t before) {
  const auto node = static_cast<std::uint32_t>(nodes_.size());
  nodes_.push_back({part, before});
  if (before == kNone) {
    depth_.push_back(0);
    jump_.push_back(node);
    return node;
  }
  const std::uint32_t over = jump_[before];
  const bool equal = depth_[before] - depth_[over] == depth_[over] - depth_[jump_[over]];
  depth_.push_back(depth_[before] + 1);
  jump_.push_back(equal ? jump_[over] : before);
  return node;
}

std::uint32_t RequestParts::part_at(std::uint32_t node, std::uint32_t tokens) const {
  for (;;) {
    const std::uint32_t before = nodes_[node].before;
    if (before == kNone || nodes_[before].part.end < tokens) return node;
    node = nodes_[jump_[node]].part.end >= tokens ? jump_[node] : before;
  }
}

void RequestParts::find_shared(std::size_t requests) {
  // Of each request, the part that others have most of: its own one, where some go on behind it, or one that
  // was made for them.
  std::vector<std::uint32_t> most(requests, kNone);
  const auto has = [&](std::uint32_t node) {
    std::uint32_t& known = most[nodes_[node].part.of];
    if (known == kNone || nodes_[known].part.end < nodes_[node].part.end) known = node;
  };
  for (std::uint32_t node = 0; node < nodes_.size(); ++node) {
    if (nodes_[node].before != kNone) has(nodes_[node].before);
    if (last_[nodes_[node].part.of] != node) has(node);
  }
  for (std::size_t i = 0; i < requests; ++i)
    if (nodes_[last_[i]].part.of != i) has(last_[i]);
  for (std::size_t i = 0; i < requests; ++i) {
    const Node& last = nodes_[last_[i]];
    const bool own = last.part.of == i;
    last_shared_.push_back(!own ? last_[i] : most[i] != kNone ? most[i] : last.before);
  }
}

std::vector<SharedPart> RequestParts::path(std::uint32_t node) const {
  std::vector<SharedPart> parts;
  for (; node != kNone; node = nodes_[node].before) parts.push_back(nodes_[node].part);
  std::ranges::reverse(parts);
  return parts;
}

}  // namespace moelab

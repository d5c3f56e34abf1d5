// What the requests of a log are made of, where they share tokens with others: parts of requests before them,
// then their own. Kept as a tree, in which a request has its parts in common with those that it shares them
// with, so that a conversation takes memory by its turns, not by the square of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "traces/requests.hpp"

namespace moelab {

/// Tokens of a request as far as `end` from its first, behind those of the part before, which are the tokens
/// of request number `of` there.
struct SharedPart {
  std::uint32_t of = 0, end = 0;
  bool operator==(const SharedPart&) const = default;
};

class RequestParts {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  /// A part and the one before it, by its place among nodes(), where it stands in front; kNone: it is the
  /// first.
  struct Node {
    SharedPart part;
    std::uint32_t before = kNone;
  };

  /// `requests` have no sharing_problem(). Takes n log n steps.
  explicit RequestParts(std::span<const RequestRecord> requests);

  /// At most two for each request.
  const std::vector<Node>& nodes() const { return nodes_; }
  /// The last part of a request, which is its own: of its prompt and its answer.
  std::uint32_t last(std::size_t request) const { return last_[request]; }
  /// The last part that other requests have too; kNone: it shares nothing.
  std::uint32_t last_shared(std::size_t request) const { return last_shared_[request]; }
  /// The first part, of those that end with `node`, that ends at `tokens` or behind; `node` where none does.
  std::uint32_t part_at(std::uint32_t node, std::uint32_t tokens) const;

  /// All parts of a request, in order.
  std::vector<SharedPart> whole(std::size_t request) const { return path(last_[request]); }
  /// The same without what no other request has.
  std::vector<SharedPart> shared(std::size_t request) const { return path(last_shared_[request]); }

 private:
  std::uint32_t add(SharedPart part, std::uint32_t before);
  std::vector<SharedPart> path(std::uint32_t node) const;
  void find_shared(std::size_t requests);

  std::vector<Node> nodes_;
  /// By node: how many stand before it, and one of these, so chosen that a walk to any takes log n steps
  /// (Myers, An applicative random-access stack, 1983).
  std::vector<std::uint32_t> depth_, jump_;
  std::vector<std::uint32_t> last_, last_shared_;
};

}  // namespace moelab

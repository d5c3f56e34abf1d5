// What requests have in common with others (BatchRequest::parts), kept once: one whose parts begin as
// another's lies in the same array.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "policies/batching/batching.hpp"
#include "traces/request_parts.hpp"

namespace moelab {

/// The first `count` parts of an array, which it keeps alive.
struct CommonParts {
  std::shared_ptr<const std::vector<TokenPart>> array = nullptr;
  std::size_t count = 0;  // 0 where there is no array

  std::span<const TokenPart> parts() const {
    return array ? std::span(*array).first(count) : std::span<const TokenPart>();
  }
};

/// Of each request what it shares, RequestParts::shared(); ids are numbers of requests. A conversation of any
/// number of turns is one array with a part for each; where several requests go on differently behind the
/// same part, the longest of the conversations has its array, and each of the others one with a copy of what
/// came before.
std::vector<CommonParts> common_parts(const RequestParts& parts, std::size_t requests);

}  // namespace moelab

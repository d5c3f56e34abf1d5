// @name@: a pressure policy. Of the memory that experts and the KV cache share, requests get what they need
// as long as half of it is left for experts.
#include <moelab/policy/policy_library.hpp>

namespace {

std::size_t requests(const moelab::PressureTerms& terms, const moelab::PolicyParameters&) {
  std::size_t count = 1;
  while (count < terms.kv_bytes.size() && terms.kv_bytes[count] <= terms.room_bytes / 2) ++count;
  return count;
}

moelab::PressurePolicyEntry mine() {
  return {.info = {.name = "@name@", .help = "experts keep half of the memory", .source = "mine"},
          .requests = requests};
}

}  // namespace

MOELAB_POLICIES(mine())

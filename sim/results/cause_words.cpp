#include "sim/results/cause_words.hpp"

#include <functional>
#include <map>

namespace moelab {

std::string words_of_cause(const std::string& cause) {
  static const std::map<std::string, std::string, std::less<>> kWords = {
      {"ssd_read", "SSD reads"},
      {"page_cache_read", "page cache reads"},
      {"decompress", "decompression"},
      {"recover", "joining of planes"},
      {"expert_compute", "experts computing"},
      {"dense_compute", "dense layers"},
      {"host", "host overhead"},
      {"prefetch", "fetches under way"},
      {"expert_load", "loads of experts"},
      {"low_score_load", "loads of low-score experts"},
      {"cpu_experts", "experts on the CPU"},
      {"activations", "activations over the link"},
      {"prediction", "prediction of gates"},
      {"all_reduce", "all-reduces"},
      {"kv_swap", "swaps of the KV cache"},
      {"network", "network"},
      {"remote_experts", "experts on other GPUs"},
      {"recovery", "recovery from faults"},
      {"exchange", "exchange of rows over GPUs"},
      {"idle", "waiting for requests"}};
  const auto found = kWords.find(cause);
  return found == kWords.end() ? cause : found->second;
}

}  // namespace moelab

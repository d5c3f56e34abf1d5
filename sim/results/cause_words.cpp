#include "sim/results/cause_words.hpp"

#include <functional>
#include <map>

#include "sim/results/text_table.hpp"

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
      {"drafting", "drafting of tokens"},
      {kWaitingCause, "waiting for requests"},
      {kAwayCause, "waiting for a server that is away"},
      {kQueueCause, "waiting in the queue"}};
  const auto found = kWords.find(cause);
  return found == kWords.end() ? cause : found->second;
}

std::string bound_words(const std::string& cause, const std::string& place, double share) {
  const std::string words = words_of_cause(cause) + (place.empty() ? "" : " (" + place + ")");
  if (share < 0.0005) return words;  // of a time that nearly all is waiting for requests
  return words + ", " + fixed(100 * share, 1) + " % of the time";
}

}  // namespace moelab

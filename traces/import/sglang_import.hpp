// Imports what SGLang's expert distribution recorder writes with torch.save (server option
// --expert-distribution-recorder-mode; python/sglang/srt/eplb/expert_distribution.py of sgl-project/sglang):
//   per_token  {"records": [{"forward_pass_id", "rank", "forward_mode" (1 extend, 2 decode), "input_ids",
//              "positions", "extend_seq_lens", "topk_ids_of_layer" [layers, tokens, 8], ...}],
//              "last_physical_to_logical_map" [layers, physical experts]}; -1 where a layer has no experts,
//              and in the places past k
//   per_pass   {"records": [{"global_physical_count" [layers, physical experts], ...}], the same map}
//   stat       {"logical_count" [steps, layers, experts], ...}
#pragma once

#include <cstdint>
#include <filesystem>

#include "traces/import/token_assembler.hpp"

namespace moelab {

struct SglangImported {
  bool counts = false;       // a counts file was written, not a routing trace
  std::uint64_t amount = 0;  // tokens, or sets of counts
};

/// A per_token recording becomes a routing trace, the others counts (a set a pass, or a step). The recording
/// does not say which tokens of a batch belong to which request: with one request at a time, rows are put
/// together by the passes' modes and positions; with several, `pass_is_request` makes each pass a request of
/// its own, and without it such a recording is refused. Physical experts become logical ones by the map.
/// `target.experts` 0: as many as the map has. Throws InputError.
SglangImported import_sglang(const std::filesystem::path& input, const ImportTarget& target,
                             bool pass_is_request);

}  // namespace moelab

// NumPy's .npz. The first byte says which arrays there are and whether what follows is an archive or its
// members, to be put together here with the right checksums.
#include "tests/fuzz/fuzz_support.hpp"
#include "tests/traces/import_files.hpp"
#include "traces/import/array_import.hpp"

using namespace moelab;
using namespace moelab::fuzz;

namespace {

constexpr std::array<const char*, 6> kNames{"ids", "scores", "router", "offsets", "phases", "other"};

std::string archive_of(Input& input) {
  std::vector<std::pair<std::string, std::string>> members;
  for (const auto& [tag, text] : input.parts())
    members.emplace_back(std::string(kNames[tag % kNames.size()]) + ".npy", text);
  return test::zip(members);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const std::uint8_t form = input.byte();
  ArrayNames names;
  ImportTarget target = small_target();
  names.ids = "ids";
  if ((form & 2U) != 0) names.scores = "scores";
  if ((form & 4U) != 0) {
    names.router_scores = "router";
    target.router_scores = RouterScores::logits;
  }
  if ((form & 8U) != 0) names.offsets = "offsets";
  if ((form & 16U) != 0) names.phases = "phases";
  names.scores_bf16 = (form & 32U) != 0;
  const auto path = memory_file((form & 1U) != 0 ? std::string(input.rest()) : archive_of(input));
  if (accepted([&] { import_arrays(ArrayKind::npz, path, names, target, {}); })) touch_imported();
  return 0;
}

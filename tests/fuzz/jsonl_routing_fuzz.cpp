// import_routing_jsonl. The first byte chooses the form of a line, the rest is the lines.
#include "tests/fuzz/fuzz_support.hpp"
#include "traces/import/table_import.hpp"

using namespace moelab;
using namespace moelab::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const std::uint8_t form = input.byte();
  RowNames names;
  names.experts = {"a.e"};
  if ((form & 1U) != 0) names.token = "token";
  if ((form & 2U) != 0) names.layer = "layer";
  if ((form & 4U) != 0) names.request = "request";
  if ((form & 8U) != 0) names.scores = {"a.s"};
  if ((form & 16U) != 0) names.rank = "rank";
  if ((form & 32U) != 0) names.phase = "phase";
  if ((form & 64U) != 0) names.domain = "domain";
  if ((form & 128U) != 0) names.prompt_tokens = "prompt";
  const auto path = memory_file(input.rest());
  if (accepted([&] { import_routing_jsonl(path, names, small_target(), {}); })) touch_imported();
  return 0;
}

// import_routing_csv. The first byte chooses the columns, the rest is the table.
#include "tests/fuzz/fuzz_support.hpp"
#include "traces/import/table_import.hpp"

using namespace moelab;
using namespace moelab::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const std::uint8_t form = input.byte();
  RowNames names;
  names.token = "token";
  names.layer = "layer";
  names.experts = {"e"};
  if ((form & 1U) != 0) names.experts = {"e", "e1"};
  if ((form & 2U) != 0) names.scores = {"s"};
  if ((form & 3U) == 3) names.scores = {"s", "s1"};
  if ((form & 4U) != 0) names.request = "request";
  if ((form & 8U) != 0) names.rank = "rank";
  if ((form & 16U) != 0) names.phase = "phase";
  if ((form & 32U) != 0) names.domain = "domain";
  ImportTarget target = small_target();
  if ((form & 64U) != 0) target.skip_layers = {0};
  names.any_order = (form & 64U) != 0;
  if ((form & 128U) != 0) names.token.clear();
  const auto path = memory_file(input.rest());
  const char delimiter = (form & 128U) != 0 ? ';' : ',';
  if (accepted([&] { import_routing_csv(path, names, target, delimiter, {}); })) touch_imported();
  return 0;
}

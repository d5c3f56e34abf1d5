// Counts from CSV and JSON. The first byte chooses the form.
#include "tests/fuzz/fuzz_support.hpp"
#include "traces/import/counts_import.hpp"

using namespace moelab;
using namespace moelab::fuzz;

namespace {

CountColumns columns_of(std::uint8_t form) {
  CountColumns columns;
  columns.layer = "layer";
  if ((form & 2U) != 0) {
    columns.experts = {"e0", "e1"};
  } else {
    columns.expert = "expert";
    columns.count = "count";
    columns.expert_count = 8;
  }
  if ((form & 4U) != 0) columns.prompt = {"prompt"};
  if ((form & 8U) != 0) columns.where = {{"kind", "a"}};
  if ((form & 16U) != 0) columns.except = {{"kind", "b"}};
  if ((form & 32U) != 0) columns.scale = 10000;
  return columns;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const std::uint8_t form = input.byte();
  const auto path = memory_file(input.rest());
  CountsTable table;
  const bool read = accepted([&] {
    table = (form & 1U) != 0 ? import_counts_json(path) : import_counts_csv(path, columns_of(form), {});
  });
  if (!read) return 0;
  require(table.counts.size() == table.prompts * table.layers * table.experts && !table.counts.empty());
  accepted([&] { write_counts(table, small_target()); });
  return 0;
}

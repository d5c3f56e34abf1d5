// Counts from files of torch.save and importance matrices. The first byte chooses: an importance matrix (bit
// 0), else an archive (bit 1) or its members, put together here with the right checksums.
#include "tests/fuzz/fuzz_support.hpp"
#include "tests/traces/import_files.hpp"
#include "traces/import/counts_import.hpp"

using namespace moelab;
using namespace moelab::fuzz;

namespace {

std::string torch_archive(Input& input) {
  std::vector<std::pair<std::string, std::string>> members;
  for (const auto& [tag, text] : input.parts())
    members.emplace_back(tag == 0 ? "a/data.pkl" : "a/data/" + std::to_string(tag - 1), text);
  return test::zip(members);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const std::uint8_t form = input.byte();
  const bool matrix = (form & 1U) != 0;
  const auto path =
      memory_file(matrix || (form & 2U) != 0 ? std::string(input.rest()) : torch_archive(input));
  CountsTable table;
  const bool read = accepted([&] {
    table =
        matrix ? import_counts_imatrix(path) : import_counts_torch(path, (form & 4U) != 0 ? "counts" : "");
  });
  if (!read) return 0;
  require(table.counts.size() == table.prompts * table.layers * table.experts && !table.counts.empty());
  accepted([&] { write_counts(table, small_target()); });
  return 0;
}

// import_sglang. The first byte says whether a pass is a request, whether the number of experts is given, and
// whether what follows is an archive or its members, to be put together here with the right checksums.
#include "tests/fuzz/fuzz_support.hpp"
#include "tests/traces/import_files.hpp"
#include "traces/counts_trace.hpp"
#include "traces/import/sglang_import.hpp"

using namespace moelab;
using namespace moelab::fuzz;

namespace {

std::string archive_of(Input& input) {
  std::vector<std::pair<std::string, std::string>> members;
  for (const auto& [tag, text] : input.parts()) {
    const std::string name = tag == 0     ? "data.pkl"
                             : tag == 255 ? "byteorder"
                                          : "data/" + std::to_string(tag - 1);
    members.emplace_back("archive/" + name, text);
  }
  return test::zip(members);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const std::uint8_t form = input.byte();
  ImportTarget target = small_target();
  if ((form & 4U) == 0) target.experts = 0;
  const auto path = memory_file((form & 1U) != 0 ? std::string(input.rest()) : archive_of(input));
  SglangImported made;
  if (!accepted([&] { made = import_sglang(path, target, (form & 2U) != 0); })) return 0;
  // A routing trace is checked as it is written; counts may add up to more than their reader takes.
  if (made.counts)
    accepted([] { read_counts_trace(output_path()); });
  else
    touch_imported();
  return 0;
}

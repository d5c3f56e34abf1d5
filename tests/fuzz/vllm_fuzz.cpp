// import_vllm. The first byte says whether the last row is dropped.
#include "tests/fuzz/fuzz_support.hpp"
#include "traces/import/table_import.hpp"

using namespace moelab;
using namespace moelab::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const bool drop_last = (input.byte() & 1U) != 0;
  const auto path = memory_file(input.rest());
  if (accepted([&] { import_vllm(path, small_target(), drop_last, {}); })) touch_imported();
  return 0;
}

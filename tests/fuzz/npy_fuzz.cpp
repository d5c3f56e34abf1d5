// NumPy's .npy: the array by itself, as expert ids, as counts.
#include <filesystem>

#include "tests/fuzz/fuzz_support.hpp"
#include "traces/counts_trace.hpp"
#include "traces/import/array_import.hpp"
#include "traces/import/counts_import.hpp"

using namespace moelab;
using namespace moelab::fuzz;

namespace {

void read_as_numbers(const std::filesystem::path& path) {
  NpyArray array{InputStream(path)};
  float number = 0;
  while (array.offset() < input_file_size(path)) array.read(std::span(&number, 1), "numbers");
}

void import_counts(const std::filesystem::path& path) {
  CountsTable table;
  if (!accepted([&] { table = import_counts_npy(path, {}); })) return;
  // The sum may be above 2^64 and the axes longer than a file's may be: that is for the writer to refuse.
  accepted([&] { write_counts(table, small_target()); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const auto path = memory_file(input.rest());
  accepted([&] { read_as_numbers(path); });
  if (accepted([&] { import_arrays(ArrayKind::npy, path, {}, small_target(), {}); })) touch_imported();
  import_counts(path);
  return 0;
}

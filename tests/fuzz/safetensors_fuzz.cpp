// SafetensorsFile::open; the header by itself too, in memory where one byte too far is seen.
#include <cstring>

#include "tests/fuzz/fuzz_support.hpp"
#include "traces/safetensors_header.hpp"

using namespace moelab;
using namespace moelab::fuzz;

namespace {

void touch_file(const SafetensorsFile& file) {
  std::uint64_t bytes = 0;
  for (const Tensor& tensor : file.tensors()) {
    require(tensor.file_offset + tensor.data.size() <= file.file_bytes());
    require(tensor_bytes(tensor.dtype, tensor.shape) == tensor.data.size());
    require(file.find(tensor.name) == &tensor);
    touch(tensor.data);
    bytes += tensor.data.size();
  }
  require(bytes <= file.file_bytes());
  for (const auto& [name, text] : file.metadata()) {
    touch(name);
    touch(text);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  if (input.rest().size() >= kHeaderStart) {
    std::uint64_t length = 0;
    std::memcpy(&length, data, sizeof length);
    const std::string_view text = input.rest().substr(kHeaderStart, length);
    const std::vector<char> header(text.begin(), text.end());
    accepted([&] { parse_safetensors_header("header", {header.data(), header.size()}); });
  }
  accepted([&] {
    const SafetensorsFile file = SafetensorsFile::open(memory_file(input.rest()));
    touch_file(file);
    // What was accepted can be written, and reads back the same.
    write_safetensors(output_path(), file.tensors(), file.metadata());
    const SafetensorsFile again = SafetensorsFile::open(output_path());
    touch_file(again);
    require(again.tensors().size() == file.tensors().size() && again.metadata() == file.metadata());
  });
  return 0;
}

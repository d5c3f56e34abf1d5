// A GGUF file's header: the architecture that comes of it is one that a model file can say and read back,
// where it can be said at all.
#include "models/gguf_import.hpp"
#include "models/yaml_reader.hpp"
#include "tests/fuzz/fuzz_support.hpp"

using namespace moelab;
using namespace moelab::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  Architecture model;
  if (!accepted([&] { model = import_gguf(memory_file(input.rest()), "fuzzed"); })) return 0;
  std::string text;
  if (!accepted([&] { text = architecture_to_yaml(model); })) return 0;
  Problems problems;
  const Architecture again = read_architecture(YamlDocument::from_text("model.yaml", text, problems));
  problems.throw_if_any();
  require(again.layers == model.layers && again.hidden == model.hidden && again.vocab == model.vocab);
  return 0;
}

// Model files: what is accepted is written, where a file can say it, and reads back the same.
#include "models/architecture.hpp"
#include "models/yaml_reader.hpp"
#include "tests/fuzz/fuzz_support.hpp"

using namespace moelab;
using namespace moelab::fuzz;

namespace {

Architecture read(std::string_view text) {
  Problems problems;
  const Architecture a = read_architecture(YamlDocument::from_text("model.yaml", text, problems));
  problems.throw_if_any();
  return a;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  Architecture model;
  if (!accepted([&] { model = read(input.rest()); })) return 0;
  require(total_weights(model) >= active_weights(model) || model.embedding_copies == 1);
  require(non_expert_bytes(model).value() >= 0);
  std::string text;
  if (accepted([&] { text = architecture_to_yaml(model); })) require(read(text) == model);
  return 0;
}

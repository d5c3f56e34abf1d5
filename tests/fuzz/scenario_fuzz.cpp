// A scenario, or a system file. The first byte chooses.
#include <filesystem>

#include "models/yaml_reader.hpp"
#include "sim/scenario.hpp"

#include "tests/fuzz/fuzz_support.hpp"

using namespace moelab;
using namespace moelab::fuzz;

namespace {

// A scenario is taken for a path by its ending.
std::filesystem::path with_ending(const std::filesystem::path& file) {
  const std::filesystem::path link = output_path("scenario.yaml");
  if (!std::filesystem::is_symlink(link)) std::filesystem::create_symlink(file, link);
  return link;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  if ((input.byte() & 1U) != 0) {
    accepted([&] {
      Problems problems;
      read_system(YamlDocument::from_text("system.yaml", input.rest(), problems));
      problems.throw_if_any();
    });
  } else {
    const auto path = with_ending(memory_file(input.rest()));
    accepted([&] { require(!load_scenario(path.string()).systems.empty()); });
  }
  return 0;
}

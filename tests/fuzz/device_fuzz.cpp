// Device profiles.
#include "models/device.hpp"
#include "models/yaml_reader.hpp"

#include "tests/fuzz/fuzz_support.hpp"

using namespace moelab;
using namespace moelab::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  accepted([&] {
    Problems problems;
    const DeviceProfile device = read_device(YamlDocument::from_text("device.yaml", input.rest(), problems));
    problems.throw_if_any();
    require(device.cpu.threads.value >= 1 && !device.ssd.readers.value.empty());
    for (const std::string& line : device.provenance) touch(line);
  });
  return 0;
}

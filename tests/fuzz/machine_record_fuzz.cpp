// Records of machines: what is accepted can be shown, and reads back the same when it is written again.
#include <array>

#include "hw/validate/machine_record_table.hpp"
#include "tests/fuzz/fuzz_support.hpp"

using namespace moelab;
using namespace moelab::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  accepted([&] {
    const MachineRecord record = read_machine_record("record.json", std::string(input.rest()));
    require(!record.groups.empty() && record.machine.cores >= 1);
    touch(machine_records_report(std::array{record}, {.markdown = true}));
    require(read_machine_record("again.json", machine_record_json(record)) == record);
  });
  return 0;
}

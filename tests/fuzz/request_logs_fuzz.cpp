// Request logs of all kinds. The first byte chooses, the rest is the log.
#include <filesystem>

#include "tests/fuzz/fuzz_support.hpp"
#include "traces/import/request_import.hpp"

using namespace moelab;
using namespace moelab::fuzz;

namespace {

std::vector<RequestRecord> read(std::uint8_t form, const std::filesystem::path& path) {
  if ((form & 7U) == 4) return read_request_log(path);
  RequestImport how;
  how.kind = static_cast<RequestLogKind>(form & 3U);
  if ((form & 7U) == 5) how.kind = RequestLogKind::benchmark;
  if ((form & 7U) == 6) how.kind = RequestLogKind::sharegpt;
  if ((form & 7U) == 7) how.kind = (form & 64U) != 0 ? RequestLogKind::bailian : RequestLogKind::servegen;
  how.skip_failed = (form & 8U) != 0;
  if ((form & 16U) != 0) how.arrival = "arrival";
  if ((form & 32U) != 0) how.arrival_units_per_s = 1000;
  return import_requests(path, how, {}).requests;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const std::uint8_t form = input.byte();
  std::vector<RequestRecord> requests;
  if (!accepted([&] { requests = read(form, memory_file(input.rest())); })) return 0;
  write_request_log(requests, output_path());
  require(read_request_log(output_path()) == requests);
  return 0;
}

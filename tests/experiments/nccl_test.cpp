// The constant of sums over NVLink, held against NCCL's own times (../shared/data/hw-aiconfigurator).
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "models/machine_parts.hpp"
#include "models/runtime.hpp"
#include "traces/import/input_stream.hpp"

namespace moelab::nccl_test {
namespace {

struct Sum {
  std::string gpu;
  int gpus;
  double bytes, seconds;
};

std::string unpacked(const std::filesystem::path& file) {
  InputStream in(file);
  std::string text;
  std::array<std::byte, 1 << 16> part{};
  for (std::size_t read = part.size(); read == part.size();) {
    read = in.read(part);
    text.append(reinterpret_cast<const char*>(part.data()), read);
  }
  return text;
}

/// Sums of 1 to 64 MiB of 16-bit numbers on boards with NVLink.
std::vector<Sum> sums_of(const std::filesystem::path& file) {
  const std::map<std::string, std::string> boards{
      {"a100_sxm", "a100-80gb"}, {"h100_sxm", "h100-80gb"}, {"h200_sxm", "h200-141gb"}};
  std::istringstream lines(unpacked(file));
  std::vector<Sum> sums;
  std::string line;
  std::getline(lines, line);
  REQUIRE(line == "system,device,nccl_version,op,dtype,gpus,message_size,latency_ms");
  while (std::getline(lines, line)) {
    std::istringstream cells(line);
    std::array<std::string, 8> row;
    for (std::string& cell : row) std::getline(cells, cell, ',');
    const auto& [system, device, version, op, dtype, gpus, elements, milliseconds] = row;
    const auto board = boards.find(system);
    if (board == boards.end() || op != "all_reduce" || dtype != "half") continue;
    const double bytes = 2 * std::stod(elements);
    if (bytes < 0x1p20 || bytes > 0x1p26) continue;
    sums.push_back({board->second, std::stoi(gpus), bytes, 1e-3 * std::stod(milliseconds)});
  }
  return sums;
}

/// Mean absolute logarithm of predicted over measured, of one board or of all ("").
double error_of(const std::vector<Sum>& sums, const RuntimeCosts& costs, const std::string& gpu = "") {
  double all = 0, count = 0;
  for (const Sum& sum : sums) {
    if (!gpu.empty() && sum.gpu != gpu) continue;
    const MachineParts machine = machine_of({.gpu = sum.gpu, .gpus = sum.gpus, .cpu = "Ryzen 9 7950X"});
    all += std::abs(std::log(machine.all_reduce(sum.gpus, costs)(sum.bytes) / sum.seconds));
    ++count;
  }
  return all / count;
}

}  // namespace

TEST_CASE("nccl: no other share of NVLink is nearer to the times, and it is as near as it says") {
  const std::filesystem::path file = MOELAB_SOURCE_DIR "/../shared/data/hw-aiconfigurator/nccl.csv.gz";
  if (!std::filesystem::exists(file)) {
    WARN("skipped: NCCL's times are not beside the repository");
    return;
  }
  const std::vector<Sum> sums = sums_of(file);
  REQUIRE(sums.size() == 3 * 3 * 7);  // boards; 2, 4 and 8 GPUs; sizes
  RuntimeCosts costs = load_runtime("common");
  const double stated = costs.peer_bandwidth, error = error_of(sums, costs);
  for (int hundredths = 1; hundredths <= 100; ++hundredths) {
    costs.peer_bandwidth = hundredths / 100.0;
    CHECK(error_of(sums, costs) >= error);
  }
  // As configs/runtimes/common.yaml says of it, in whole percent.
  costs.peer_bandwidth = stated;
  CHECK(std::round(100 * error) == 15);
  CHECK(std::round(100 * error_of(sums, costs, "a100-80gb")) == 23);
  CHECK(std::round(100 * error_of(sums, costs, "h100-80gb")) == 11);
  CHECK(std::round(100 * error_of(sums, costs, "h200-141gb")) == 11);
}

}  // namespace moelab::nccl_test

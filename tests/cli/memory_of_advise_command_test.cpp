// What moelab advise says of memory: items that add up to what has to fit.
#include <catch2/catch.hpp>

#include "models/json.hpp"
#include "tests/cli/run_program.hpp"

namespace moelab::memory_of_advise_test {

using Json = nlohmann::json;

TEST_CASE("advise: memory by items, whose sum is the table's") {
  const ProgramResult result = run_program(
      MOELAB_PROGRAM, {"advise", "--model", "gpt-oss-120b", "--gpu", "rtx-3090-24gb", "--cpu", "i9-14900K",
                       "--memory", "ddr5-6000", "--no-policies", "--format", "json"});
  REQUIRE(result.status == 0);
  const Json all = Json::parse(result.out);
  int of_llama = 0, of_others = 0;
  for (const Json& a : all.at("ways")) {
    const auto bytes = [&](const char* item) { return a.at(item).get<double>(); };
    const double gpu = bytes("gpu_weights_bytes") + bytes("gpu_kv_bytes") + bytes("gpu_compute_bytes") +
                       bytes("gpu_context_bytes") + bytes("gpu_reserve_bytes");
    CHECK(bytes("gpu_bytes") == Approx(gpu).epsilon(1e-12));
    CHECK(bytes("gpu_bytes") <= 24 * 0x1p30);
    CHECK(bytes("host_bytes") == Approx(bytes("host_weights_bytes") + bytes("host_compute_bytes")));
    const bool llama = a.at("runtime") == "llama.cpp-cuda";
    ++(llama ? of_llama : of_others);
    CHECK((bytes("gpu_reserve_bytes") == 0) == llama);
    CHECK((bytes("gpu_compute_bytes") > 0) == llama);
  }
  CHECK(of_llama > 0);
  CHECK(of_others > 0);
}

}  // namespace moelab::memory_of_advise_test

// Advice: the best of all that a runtime offers, that fits.
#include "sim/advise/advice.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "models/input_error.hpp"
#include "models/stored_weights.hpp"

namespace moelab::advice_test {
namespace {

AdviceRequest request_of(const char* model, const MachineText& machine) {
  AdviceRequest request;
  request.model = load_architecture(model);
  request.machine = machine_of(machine);
  return request;
}

const MachineText kDesktop{.gpu = "rtx-3090-24gb", .cpu = "i9-14900K", .memory = "ddr5-6000 x 2"};

TEST_CASE("advice: no other split of the same runtime and format decodes faster", "[advise]") {
  for (const char* model : {"gpt-oss-120b", "qwen3-30b-a3b", "glm-4.5-air", "mixtral-8x7b"}) {
    const AdviceRequest request = request_of(model, kDesktop);
    for (const Advice& a : advise(request)) {
      INFO(model << " " << a.runtime << " " << a.weights);
      if (a.runtime != "llama.cpp-cuda") continue;
      Architecture stored = request.model;
      stored.stored = stored_as(stored, a.weights);
      const Runtime runtime = load_runtime(a.runtime);
      const int layers = static_cast<int>(stored.moe_layers().size());
      for (int n = 0; n <= layers; ++n) {
        const ServingEstimate other(stored, request.machine, runtime, {.cpu_expert_layers = n});
        if (other.impossible(request.context).empty())
          REQUIRE(other.decode(1, request.context).total() >= a.decode_s * (1 - 1e-12));
      }
      // What is advised fits, and less on the CPU would not.
      CHECK(a.memory.gpu() <= 24 * 0x1p30);
      if (a.split.cpu_expert_layers > 0) {
        const Split more{.cpu_expert_layers = a.split.cpu_expert_layers - 1};
        CHECK(!ServingEstimate(stored, request.machine, runtime, more).impossible(request.context).empty());
        CHECK(a.command.find("-ncmoe " + std::to_string(a.split.cpu_expert_layers)) != std::string::npos);
      }
    }
  }
}

TEST_CASE("advice: fastest first, and each way is of the runtimes and formats asked for", "[advise]") {
  AdviceRequest request = request_of("qwen3-30b-a3b", kDesktop);
  const std::vector<Advice> all = advise(request);
  for (std::size_t i = 1; i < all.size(); ++i) CHECK(all[i].decode_s >= all[i - 1].decode_s);
  request.runtimes = {"llama.cpp-cuda"};
  request.weights = {"gguf-q8_0", "gguf-q4_k_m"};
  const std::vector<Advice> two = advise(request);
  REQUIRE(two.size() == 2);
  CHECK(two.front().weights == "gguf-q4_k_m");  // fits whole, Q8_0 does not
  CHECK(two.front().split == Split{});
  CHECK(two.back().split.cpu_expert_layers > 0);
}

TEST_CASE("advice: what fits in no way is refused with what it lacks", "[advise]") {
  MachineText small = kDesktop;
  small.ram = "8 GiB";
  try {
    advise(request_of("deepseek-v3", small));
    FAIL("accepted");
  } catch (const InputError& error) {
    CHECK(std::string(error.what()).find("memory needs") != std::string::npos);
  }
  AdviceRequest unknown = request_of("qwen3-30b-a3b", kDesktop);
  unknown.runtimes = {"llamacpp"};
  CHECK_THROWS_AS(advise(unknown), InputError);
}

}  // namespace
}  // namespace moelab::advice_test

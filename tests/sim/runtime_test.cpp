// Runtimes and machines of catalogue parts in the simulator: a token takes what the closed form of
// models/serving_estimate.hpp says, which charges the same work without engine, cache or graph.
#include "models/runtime.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <variant>

#include "models/input_error.hpp"
#include "models/machine_profile.hpp"
#include "models/serving_estimate.hpp"
#include "models/timing.hpp"
#include "sim/run.hpp"
#include "sim/scenario.hpp"
#include "sim/scenario_trace.hpp"
#include "sim/serving/expert_costs.hpp"
#include "sim/serving/memory_plan.hpp"
#include "tests/models/random_architecture.hpp"
#include "tests/random_runs.hpp"
#include "tests/scratch_folder.hpp"

namespace moelab::runtime_test {
namespace {

constexpr std::uint32_t kPrompt = 5, kOutput = 4;
const char* const kMachine = "{gpu: rtx-4090-24gb, cpu: ryzen-9-7950x, memory: ddr5-6000 x 2, ram: 64 GiB}";

/// A model that one stage can serve: no encoder.
Architecture random_decoder(test::Dice& dice, bool shared) {
  while (true) {
    Architecture a = test::random_architecture(dice);
    if (a.has_encoder()) continue;
    if (!shared)
      for (Layer& layer : a.layers)
        layer.feed_forward.shared_gate = false, layer.feed_forward.shared_width = 0;
    a.name = "random";
    return a;
  }
}

std::string random_runtime_text(test::Dice& dice) {
  std::string text = "name: random\nsources: {any: {kind: assumed, text: drawn}}\nconstants:\n";
  for (const Runtime::Constant& c : Runtime::constants()) {
    const double high = c.unit == Runtime::Constant::Unit::count ? 1 : std::min(c.high, 1e9);
    const double value = std::max(c.low, high * dice.from(1, 100) / 100);
    std::string shown = std::to_string(value);
    if (c.unit == Runtime::Constant::Unit::count)
      shown = std::to_string(dice.from(static_cast<int>(c.low), 1));
    if (c.name == "slowdown") shown = std::to_string(dice.from(50, 200) / 100.0);
    if (c.name == "micro_batch") shown = std::to_string(dice.from(1, 2 * static_cast<int>(kPrompt)));
    if (c.unit == Runtime::Constant::Unit::seconds) shown = std::to_string(value * 1e6) + " us";
    if (c.unit == Runtime::Constant::Unit::bytes) shown = std::to_string(std::llround(value)) + " B";
    text += "  " + std::string(c.name) + ": {value: " + shown + ", source: any}\n";
  }
  return text;
}

std::string indented(const std::string& text) {
  std::string out = "  ";
  for (const char c : text) out += c == '\n' ? std::string("\n  ") : std::string(1, c);
  return out + "\n";
}

/// Requests that are served together on the machine above.
std::string scenario_text(const Architecture& model, const std::string& runtime, const std::string& system,
                          const std::string& more, int together = 1) {
  return "name: one\nmodel:\n" + indented(architecture_to_yaml(model)) + "machine: " + kMachine +
         "\nruntime: " + runtime + "\n" + more + "workload: {requests: " + std::to_string(together) +
         ", batch: " + std::to_string(together) + ", prompt_tokens: " + std::to_string(kPrompt) +
         ", output_tokens: " + std::to_string(kOutput) + "}\nsystems:\n  - " + system + "\n";
}

RunResult run_text(const std::string& text, Scenario* read = nullptr) {
  const Scenario s = scenario_of_document("scenario", text);
  if (read != nullptr) *read = s;
  const RoutingTrace trace = scenario_trace(s);
  check_scenario(s, trace);
  return run_system(s, s.systems.front(), trace, {});
}

/// Seconds of the closed form for the token of each gap; `on_cpu`: MoE layers whose experts the CPU has.
double expected_gap(const Scenario& s, int on_cpu, std::size_t gap) {
  const ServingEstimate estimate(s.model, *s.machine, *s.runtime, {.cpu_expert_layers = on_cpu});
  const TimingModel timing(scenario_of_system(s, s.systems.front()).device);
  const Bytes activations(2.0 * s.model.hidden);  // there and back, which the closed form has in cpu_layer
  const double moved = (timing.store(activations) + timing.load(activations)).value();
  return estimate.decode(1, kPrompt + static_cast<double>(gap) + 1).total() + on_cpu * moved;
}

void check_gaps(const Scenario& s, const RunResult& r, int on_cpu) {
  REQUIRE(r.metrics.token_gaps_s.size() == kOutput - 1);
  for (std::size_t gap = 0; gap < r.metrics.token_gaps_s.size(); ++gap)
    REQUIRE(r.metrics.token_gaps_s[gap] == Approx(expected_gap(s, on_cpu, gap)).epsilon(1e-9));
}

struct RuntimeFile {
  test::ScratchFolder scratch;
  std::string write(const std::string& text) const {
    const std::filesystem::path path = scratch / "random.yaml";
    std::ofstream(path) << text;
    return path.string();
  }
};

TEST_CASE("runtime: with all on the GPU a token takes what the closed form says") {
  test::Dice dice(71);
  const RuntimeFile file;
  for (int i = 0; i < test::random_runs(400, 10); ++i) {
    Architecture model = random_decoder(dice, true);
    model.stored.kv = i % 3 == 0 ? 2 : i % 3 == 1 ? 34 / 32.0 : 1;  // 16 bits, q8_0, FP8
    const std::string runtime = file.write(random_runtime_text(dice));
    for (const char* system :
         {"{name: kept, weights: whole, cache: {policy: fixed-layers}, execution: {policy: cpu-only}}",
          "{name: paged, weights: paged, paging: {backends: [resident]}}"}) {
      if (kv_bytes_per_token(model) == Bytes(0) && std::string_view(system).starts_with("{name: paged"))
        continue;  // there is nothing to page
      Scenario s;
      INFO(i << " " << system);
      const RunResult r = run_text(scenario_text(model, runtime, system, ""), &s);
      check_gaps(s, r, 0);
    }
  }
}

TEST_CASE("runtime: experts of some layers on the CPU take what the closed form says") {
  test::Dice dice(72);
  const RuntimeFile file;
  int split = 0;
  for (int i = 0; i < test::random_runs(400, 10); ++i) {
    const Architecture model = random_decoder(dice, false);
    const std::string runtime = file.write(random_runtime_text(dice));
    const std::string system =
        "{name: kept, weights: whole, cache: {policy: fixed-layers, from_last: 1}, execution: {policy: "
        "cpu-only}}";
    Scenario s;
    RunResult r = run_text(scenario_text(model, runtime, system, ""), &s);
    // Room for so many layers' experts, and a little of one more, which then stays where it is. Up to whole
    // bytes: a model's experts may be so small that down would leave too few for the rest.
    const int layers = static_cast<int>(model.moe_layers().size()), there = dice.from(0, layers - 1);
    // A cache counts an expert's matrices, without what biases it has.
    const double of_layer = model.moe().experts * model.moe().matrices *
                            expert_tensor_weights(model, model.moe()) * model.stored.of(WeightPart::experts);
    const Bytes budget = r.memory.budget - r.memory.expert_cache + Bytes((there + 0.01) * of_layer);
    INFO(i << ": " << there << " of " << layers);
    r = run_text(scenario_text(model, runtime, system,
                               "budget: " + std::to_string(std::llround(std::ceil(budget.value()))) + " B\n"),
                 &s);
    const int on_cpu = layers - there;
    REQUIRE(r.metrics.execution.on_cpu ==
            static_cast<std::uint64_t>(on_cpu * model.moe().top_k) * (kOutput - 1));
    check_gaps(s, r, on_cpu);
    split += there > 0 ? 1 : 0;
  }
  CHECK(split > 0);
}

constexpr const char* kAllOnGpu =
    "{name: kept, weights: whole, cache: {policy: fixed-layers}, execution: {policy: cpu-only}}";

/// A model every step of which has as many distinct experts as the closed form expects: all of them.
Architecture random_decoder_of_all_experts(test::Dice& dice) {
  Architecture model = random_decoder(dice, true);
  for (Layer& layer : model.layers)
    if (layer.feed_forward.kind == FeedForward::Kind::moe)
      layer.feed_forward.top_k = layer.feed_forward.experts;
  return model;
}

TEST_CASE("runtime: requests together take what the closed form says") {
  test::Dice dice(74);
  const RuntimeFile file;
  for (int i = 0; i < test::random_runs(400, 10); ++i) {
    const Architecture model = random_decoder_of_all_experts(dice);
    const std::string runtime = file.write(random_runtime_text(dice));
    const auto together = static_cast<std::size_t>(dice.from(2, 5));
    INFO(i << ": " << together);
    Scenario s;
    const RunResult r =
        run_text(scenario_text(model, runtime, kAllOnGpu, "", static_cast<int>(together)), &s);
    const ServingEstimate estimate(s.model, *s.machine, *s.runtime, {});
    REQUIRE(r.metrics.token_gaps_s.size() == together * (kOutput - 1));
    // Before the first of them others' prompts may have run.
    for (std::size_t gap = together; gap < r.metrics.token_gaps_s.size(); ++gap) {
      const double context = kPrompt + static_cast<double>(gap / together) + 1;
      REQUIRE(r.metrics.token_gaps_s[gap] ==
              Approx(estimate.decode(static_cast<double>(together), context).total()).epsilon(1e-9));
    }
  }
}

TEST_CASE("runtime: prompts in micro-batches take what the closed form says") {
  test::Dice dice(73);
  const RuntimeFile file;
  int several = 0;
  for (int i = 0; i < test::random_runs(400, 10); ++i) {
    const Architecture model = random_decoder_of_all_experts(dice);
    const std::string runtime = file.write(random_runtime_text(dice));
    Scenario s;
    INFO(i);
    const RunResult r = run_text(scenario_text(model, runtime, kAllOnGpu, ""), &s);
    const StepEstimate prompt = ServingEstimate(s.model, *s.machine, *s.runtime, {}).prompt(kPrompt);
    REQUIRE(r.metrics.ttft_s.size() == 1);
    CHECK(r.metrics.ttft_s[0] == Approx(prompt.total()).epsilon(1e-9));
    several += s.runtime->micro_batch < kPrompt ? 1 : 0;
  }
  CHECK(several > 0);
}

TEST_CASE("runtime: of a profile that says what its machine achieves only times are taken") {
  const Scenario plain = load_scenario("smoe-deepseek-3080ti", {{"runtime", "none"}}, {"llama-cpp"});
  const Scenario in_llama =
      load_scenario("smoe-deepseek-3080ti", {{"runtime", "llama.cpp-cuda"}}, {"llama-cpp"});
  const DeviceProfile device = scenario_of_system(in_llama, in_llama.systems.front()).device;
  const Runtime runtime = load_runtime("llama.cpp-cuda");
  CHECK(device.gpu->own->bandwidth == plain.device.gpu->own->bandwidth);
  CHECK(device.software->launch == runtime.launch);
  CHECK(device.software->dense_bandwidth == 1);
  CHECK(device.software->cpu_bandwidth == 1);
  CHECK(in_llama.systems.front().host_per_pass.value() == runtime.step);
  const Architecture& model = plain.model;
  const Work head = head_work(model, 1);
  const double bytes = head.weight_bytes.value() / device.gpu->own->bandwidth.value.value();
  CHECK(TimingModel(device).kernel(head).value() == Approx(bytes + head.kernels * runtime.launch));
}

TEST_CASE("runtime: of a system or of the scenario, in the place of host_overhead") {
  const auto systems = [](const std::string& scenario_has, const std::string& system_has) {
    const std::string text = std::string("name: two\nmodel: olmoe-1b-7b\nmachine: ") + kMachine + "\n" +
                             scenario_has + "workload: {requests: 1, prompt_tokens: 4, output_tokens: 3}\n" +
                             "systems:\n  - {name: a, weights: whole, cache: {policy: lru}" + system_has +
                             "}\n";
    return scenario_of_document("two", text);
  };
  const std::string overhead = ", host_overhead: {per_layer: 1 ms, source: test}";
  const Scenario of_scenario = systems("runtime: vllm\n", overhead);
  CHECK(of_scenario.systems.front().runtime->name == "vllm");
  CHECK(of_scenario.systems.front().host_per_layer == Seconds(0));
  const Scenario of_system = systems("runtime: vllm\n", ", runtime: transformers");
  CHECK(of_system.systems.front().runtime->name == "transformers");
  CHECK(of_system.runtime->name == "vllm");
  // On the bare hardware a system keeps what its framework costs.
  CHECK_FALSE(systems("", overhead).systems.front().runtime);
  CHECK(systems("", overhead).systems.front().host_per_layer == Seconds(1e-3));
  // So it does where the scenario says that there is no runtime.
  CHECK(systems("runtime: none\n", overhead).systems.front().host_per_layer == Seconds(1e-3));
  const auto refusal = [&](const std::string& scenario_has, const std::string& system_has) {
    try {
      systems(scenario_has, system_has);
      return std::string("accepted");
    } catch (const InputError& error) {
      return std::string(error.what());
    }
  };
  CHECK(refusal("", ", runtime: vllm" + overhead).find("said twice") != std::string::npos);
  CHECK(refusal("runtime: vlm\n", "").find("did you mean 'vllm'") != std::string::npos);
  CHECK(refusal("", ", runtime: vlm").find("did you mean 'vllm'") != std::string::npos);
  CHECK(refusal("device: a100-40gb\n", "").find("on one of the two") != std::string::npos);
  CHECK(refusal("overrides: {device: {title: x}}\n", "").find("put together from parts") !=
        std::string::npos);
}

TEST_CASE("runtime: a scenario's says from which batches on a cpu-only system has experts copied") {
  const auto streams_from = [](const char* runtime, const char* execution) {
    const Scenario s =
        load_scenario("smoe-deepseek-3080ti",
                      {{"runtime", runtime}, {"overrides.system.execution", execution}}, {"llama-cpp"});
    const PolicyParameters& parameters = s.systems.front().execution.parameters;
    return parameters.contains("stream_from") ? parameters.find("stream_from")->second : 0;
  };
  CHECK(streams_from("llama.cpp-cuda", "{policy: cpu-only}") == 32);  // op_offload_min_batch_size
  CHECK(streams_from("llama.cpp-cuda", "{policy: cpu-only, stream_from: 0}") == 0);
  CHECK(streams_from("llama.cpp-cuda", "{policy: cpu-only, stream_from: 64}") == 64);
  CHECK(streams_from("llama.cpp-cuda", "{policy: fiddler}") == 0);  // which weighs that itself
  CHECK(streams_from("vllm", "{policy: cpu-only}") == 2);  // says 1: a token alone stays with the CPU
  CHECK(streams_from("none", "{policy: cpu-only}") == 0);
}

TEST_CASE("runtime: what software costs is not said twice, by a scenario and for a run") {
  const std::vector<std::pair<std::string, std::string>> cost = {
      {"overrides.system.host_overhead", "{per_layer: 1 ms, source: measured}"}};
  try {
    load_scenario("smoe-deepseek-3080ti", cost, {"smoe"});
    FAIL("accepted");
  } catch (const InputError& error) {
    CHECK(std::string(error.what()).find("expected 'runtime: none' beside it") != std::string::npos);
  }
  auto beside = cost;
  beside.emplace_back("runtime", "none");
  CHECK(load_scenario("smoe-deepseek-3080ti", beside, {"smoe"}).systems.front().host_per_layer ==
        Seconds(1e-3));
}

TEST_CASE("machine: without a budget a system has all that its runtime leaves") {
  const std::string text = std::string("name: all\nmodel: olmoe-1b-7b\nmachine: ") + kMachine +
                           "\nworkload: {requests: 1, prompt_tokens: 4, output_tokens: 3}\nsystems:\n"
                           "  - {name: a, weights: whole, cache: {policy: lru}, runtime: vllm}\n"
                           "  - {name: b, weights: whole, cache: {policy: lru}, runtime: llama.cpp-cuda}\n";
  const Scenario s = scenario_of_document("all", text);
  const Bytes of_vllm = scenario_of_system(s, s.systems[0]).budget,
              of_llama = scenario_of_system(s, s.systems[1]).budget;
  CHECK(of_vllm == Bytes(24 * 1073741824.0) - Bytes(load_runtime("vllm").gpu_reserve));
  CHECK(of_llama == Bytes(24 * 1073741824.0) - Bytes(load_runtime("llama.cpp-cuda").gpu_reserve));
  // The document of a run says the same again.
  const Scenario again = scenario_of_document("again", s.document);
  CHECK(scenario_of_system(again, again.systems[1]).budget == of_llama);
  CHECK(scenario_of_system(again, again.systems[0]).device == scenario_of_system(s, s.systems[0]).device);
}

TEST_CASE("machine: the host's memory needs only what a cache that never changes leaves there") {
  // 63.5 GB of gpt-oss-120b over 24 GiB of GPU and 48 GiB of host.
  const std::string text =
      "name: split\nmodel: gpt-oss-120b\nmachine: {gpu: rtx-3090-24gb, cpu: i9-14900K, memory: ddr5-6000 x "
      "2, "
      "ram: 48 GiB}\nruntime: llama.cpp-cuda\nworkload: {requests: 1, prompt_tokens: 2, output_tokens: 2}\n"
      "systems:\n  - llama-cpp\n  - fiddler\n  - {name: lru, weights: whole, cache: {policy: lru}}\n";
  const Scenario s = scenario_of_document("split", text);
  const RoutingTrace trace = scenario_trace(s);
  const FeedForward& ff = s.model.moe();
  // A cache counts an expert's matrices, without what biases it has.
  const double expert = ff.matrices * expert_tensor_bytes(s.model).value();
  const double layers = static_cast<double>(s.model.moe_layers().size()), of_layer = ff.experts * expert;
  const auto plan = [&](std::size_t i) {
    const Scenario own = scenario_of_system(s, s.systems[i]);
    return plan_memory(own, s.systems[i], expert_costs(own.model, TimingModel(own.device), s.systems[i]),
                       trace);
  };
  const MemoryPlan whole_layers = plan(0), single = plan(1), changing = plan(2);
  REQUIRE(layers * of_layer > 48 * 1073741824.0);
  CHECK_FALSE(whole_layers.experts_on_ssd);
  const double held = std::floor(whole_layers.expert_cache.value() / of_layer);
  CHECK(whole_layers.host_experts.value() == Approx((layers - held) * of_layer));
  CHECK_FALSE(single.experts_on_ssd);
  CHECK(single.host_experts.value() ==
        Approx(layers * of_layer - std::floor(single.expert_cache.value() / expert) * expert));
  // What a cache may let go must be there to be read again.
  CHECK(changing.experts_on_ssd);
}

TEST_CASE("machine: set for a run it takes the place of the scenario's device") {
  const Scenario s = load_scenario("smoe-deepseek-3080ti", {{"machine.gpu", "rtx-3090-24gb"}}, {"smoe"});
  CHECK(s.device.title == "NVIDIA GeForce RTX 3090");
  CHECK(s.document.find("\"device\"") == std::string::npos);
}

TEST_CASE("machine: a runtime that it does not have is refused") {
  const auto refusal = [](const std::string& gpu, const std::string& runtime) {
    try {
      load_scenario("smoe-deepseek-3080ti", {{"machine.gpu", gpu}, {"runtime", runtime}}, {"smoe"});
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(refusal("rtx-3090-24gb", "mlx").find("'mlx' does not run on NVIDIA GeForce RTX 3090") !=
        std::string::npos);
  CHECK(refusal("rx-7900-xt-20gb", "llama.cpp-cuda").find("does not run on") != std::string::npos);
  CHECK(refusal("rtx-3090-24gb", "llama.cpp-cuda").empty());
  CHECK(refusal("rx-7900-xt-20gb", "llama.cpp-vulkan").empty());
}

TEST_CASE("machine: profiles of all GPUs, and of a CPU alone, hold what their parts say") {
  const Runtime bare = load_runtime(kBareRuntime);
  for (const GpuPart& part : gpu_parts()) {
    INFO(part.name);
    const MachineParts machine =
        part.unified() ? machine_of({.gpu = part.name, .ram = "8 GiB"})
                       : machine_of({.gpu = part.name, .cpu = "ryzen-9-7950x", .ram = "64 GiB"});
    const DeviceProfile d = profile_of(machine, bare, {});
    CHECK(d.is_discrete() == !part.unified());
    CHECK(d.unmeasured);
    CHECK((d.is_discrete() ? d.gpu->own->bandwidth.value : d.memory.bandwidth->value) == part.bandwidth);
    CHECK(d.gpu->peak.value == part.peak);
    CHECK(d.usable_memory() > Bytes(0));
  }
  const DeviceProfile cpu = profile_of(machine_of({.cpu = "i7-8700", .ram = "32 GiB"}), bare, {});
  CHECK_FALSE(cpu.gpu);
  CHECK(cpu.cpu.bandwidth->value.value() == Approx(2 * 8 * 2666e6));
  for (const MachineText& text : {MachineText{.cpu = "i7-8700"}, MachineText{.gpu = "apple-m4-pro"}}) {
    try {
      profile_of(machine_of(text), bare, {});
      FAIL_CHECK("no error");
    } catch (const InputError& error) {
      CHECK(std::string(error.what()).find("ram: 64 GiB") != std::string::npos);
    }
  }
}

TEST_CASE("machine: a board decompresses as its cores were measured, at their clock; others as a stand-in") {
  const Runtime bare = load_runtime(kBareRuntime);
  const auto profile = [&](const MachineText& text) { return profile_of(machine_of(text), bare, {}); };
  const auto speed = [](const DeviceProfile& d, const char* codec) {
    return std::get<Sourced<BytesPerSecond>>(d.codecs.at(codec).decompress).value.value();
  };
  const DeviceProfile shipped = load_device("jetson-agx-orin-32gb");
  const struct {
    const char* gpu;
    double clock;
    int threads;
  } boards[] = {{"jetson-agx-orin-32gb", 2.2, 8},
                {"jetson-agx-orin-64gb", 2.2, 12},
                {"jetson-orin-nx-16gb", 2.0, 8},
                {"jetson-orin-nano-8gb", 1.5, 6},
                {"jetson-orin-nano-super", 1.7, 6}};
  for (const auto& board : boards) {
    INFO(board.gpu);
    const DeviceProfile d = profile({.gpu = board.gpu});
    for (const char* codec : {"lz4hc", "zstd"})
      CHECK(speed(d, codec) == Approx(speed(shipped, codec) * board.clock / 2.2));
    CHECK(d.cpu.threads.value == board.threads);
    CHECK(d.sources.at("decompress").kind == Source::Kind::derived);
    CHECK((d.sources.at("decompress").text.find("GHz") != std::string::npos) == (board.clock != 2.2));
  }
  // What was not measured has a stand-in's speed, assumed, and its source says of which cores.
  for (const char* gpu : {"apple-m4-max", "strix-halo", "jetson-thor"}) {
    const Source source = profile({.gpu = gpu, .ram = "64 GiB"}).sources.at("decompress");
    CHECK(source.kind == Source::Kind::assumed);
    CHECK(source.text.find("cores were not measured: as fast as one core of an AMD Zen 3") !=
          std::string::npos);
  }
  CHECK(profile({.gpu = "rtx-4090", .cpu = "ryzen-9-5950x"}).sources.at("decompress").kind ==
        Source::Kind::derived);
}

TEST_CASE("machine: each number is said to be of the part that has it") {
  const DeviceProfile d = profile_of(machine_of({.gpu = "jetson-orin-nano-8gb", .ssd = "pcie4-x4"}),
                                     load_runtime(kBareRuntime), {});
  const auto line = [&](const std::string& path) {
    for (const std::string& one : d.provenance)
      if (one.starts_with(path + ": ")) return one;
    return std::string();
  };
  CHECK(line("ssd.read").find("four lanes of PCIe 4") != std::string::npos);
  CHECK(line("ssd.read").find("3.938 GB/s at most (pcie3-x4)") != std::string::npos);
  CHECK(line("gpu.peak").find("Jetson Orin Nano") != std::string::npos);
  CHECK(line("gpu.peak").find("PCIe 4") == std::string::npos);
  CHECK(line("memory.total").find("machine") != std::string::npos);
}

TEST_CASE("machine: a scenario's document has a part of the user's own, not its file") {
  const test::ScratchFolder folder;
  const std::string path = (folder / "my-gpu.yaml").string();
  std::ofstream(path) << "name: my-card\nmaker: nvidia\ngeneration: ampere\nmemory: 12 GB\nbandwidth: 912 "
                         "GB/s\npeak: 68.2 TFLOP/s\nbyte_products: 4\nlink: pcie4-x16\nsource: its box\n";
  const Scenario s = load_scenario("smoe-deepseek-3080ti", {{"machine.gpu", path}}, {"smoe"});
  std::filesystem::remove(path);
  const Scenario again = scenario_of_document("again", s.document);
  CHECK(again.device.title == "my-card");
  CHECK(again.document == s.document);
  CHECK(s.document.find("my-gpu.yaml") == std::string::npos);
  CHECK(again.device.sources.at("gpu").text == "what the machine's user says of my-card: its box");
  // The catalogue's RTX 3080 Ti has the same figures.
  const Scenario shipped =
      load_scenario("smoe-deepseek-3080ti", {{"machine.gpu", "rtx-3080-ti-12gb"}}, {"smoe"});
  CHECK(again.device.gpu->peak.value == shipped.device.gpu->peak.value);
  CHECK(again.budget == shipped.budget);
}

}  // namespace
}  // namespace moelab::runtime_test

// The closed form of a settled split: against formulas written out for a model of one layer, and what must
// hold of any model, machine and runtime.
#include "models/serving_estimate.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>

#include "models/config_store.hpp"
#include "models/input_error.hpp"
#include "models/stored_weights.hpp"
#include "models/yaml_reader.hpp"
#include "tests/models/model_files.hpp"
#include "tests/models/random_architecture.hpp"
#include "tests/random_runs.hpp"
#include "tests/scratch_folder.hpp"

namespace moelab::serving_estimate_test {
namespace {

MachineParts desktop() {
  return machine_of({.gpu = "rtx-4090-24gb", .cpu = "Ryzen 9 7950X", .memory = "ddr5-6000 x 2"});
}

/// Everything free but what a test sets.
Runtime ideal() {
  Runtime r;
  r.name = "ideal";
  r.attention_peak = r.expert_peak = r.dense_peak = 1;
  return r;
}

const char* const kTiny =
    "name: tiny\nhidden: 1024\nvocab: 1000\nlayers: 1\nattention: {heads: 8, kv_heads: 2, head_dim: 128}\n"
    "moe: {experts: 16, top_k: 4, width: 512}\n";

TEST_CASE("estimate: decoding reads what a token uses, at the share of bandwidth", "[estimate]") {
  const Architecture model = test::model_of_text(kTiny);
  const MachineParts machine = desktop();
  Runtime r = ideal();
  r.dense_bandwidth = 0.5;
  r.expert_bandwidth = 0.25;
  // Written out: projections 1024 x (1024 + 2 x 256) + 1024 x 1024, two norms, router, head with its norm.
  const double dense = 1024.0 * 1536 + 1024 * 1024 + 2 * 1024 + 16 * 1024 + 1000 * 1024 + 1024;
  const double experts = 4 * 3 * 1024.0 * 512;
  const ServingEstimate all(model, machine, r, {});
  const double expected = 2 * dense / (0.5 * 1008e9) + 2 * experts / (0.25 * 1008e9);
  CHECK(all.decode(1, 0).total() == Approx(expected).epsilon(1e-9));
  // Keys and values of 1000 tokens: 2 x 2 heads x 128 values of 2 bytes each.
  CHECK(all.decode(1, 1000).attention == Approx(1000 * 2 * 2 * 128 * 2 / 1008e9).epsilon(1e-9));
  // On the CPU instead: 96 GB/s.
  const StepEstimate cpu = ServingEstimate(model, machine, r, {.cpu_expert_layers = 1}).decode(1, 0);
  CHECK(cpu.cpu == Approx(2 * experts / 96e9).epsilon(1e-9));
  CHECK(cpu.gpu_memory == Approx(2 * dense / (0.5 * 1008e9)).epsilon(1e-9));
  // Half of the experts there: both work at once.
  const StepEstimate half = ServingEstimate(model, machine, r, {.gpu_expert_share = 0.5}).decode(1, 0);
  CHECK(half.gpu_memory + half.cpu == Approx(2 * dense / (0.5 * 1008e9) + experts / 96e9).epsilon(1e-9));
}

TEST_CASE("estimate: what bounds a step is weights' bytes for one token, their arithmetic for a long prompt",
          "[estimate]") {
  const Architecture model = test::model_of_text(kTiny);
  Runtime r = ideal();
  r.launch = r.launch_batched = 0;
  const ServingEstimate all(model, desktop(), r, {});
  CHECK(all.decode(1, 0).bound() == "reading weights from the GPU's memory");
  CHECK(all.decode(1, 0).gpu_products == 0);
  // An RTX 4090 does 164 operations of 16 bits with sums in 32 in the time of a byte: a weight of two bytes,
  // which a token takes two operations of, is read as long as 164 tokens are computed with it.
  CHECK(all.prompt(2048, 2048).bound() == "the GPU's arithmetic with weights");
  CHECK(all.prompt(2048, 2048).gpu_products > all.prompt(8192, 8192).gpu_memory);
  CHECK(all.prompt(16, 16).bound() == "reading weights from the GPU's memory");
}

TEST_CASE("estimate: GPUs that share layers sum up behind each part of a layer", "[estimate]") {
  const MachineParts two =
      machine_of({.gpu = "rtx-4090-24gb", .gpus = 2, .cpu = "Ryzen 9 7950X", .memory = "ddr5-6000 x 2"});
  Runtime r = ideal();
  r.tensor_parallel = 1;
  r.all_reduce = 1e-5;
  // Twice a row's 16-bit values over half of PCIe 4.0 x16, which is what `link` leaves for sums.
  const double value_s = 2 / (16 * 16e9 / 8 * 128 / 130 * r.link / 2);
  const auto reduces = [&](const char* model, int parts, double rows) {
    const Architecture a = test::model_of_file(model);
    const ServingEstimate estimate(a, two, r, {});
    const double one = 1e-5 + rows * a.hidden * value_s;
    CHECK((rows == 1 ? estimate.decode(1, 100) : estimate.prompt(rows)).reduces ==
          Approx(parts * one).epsilon(1e-9));
  };
  for (const double rows : {1.0, 300.0}) {
    reduces("qwen3-30b-a3b", 48 * 2, rows);
    reduces("granite-4.0-h-tiny", 40 * 2, rows);
    reduces("nemotron-3-nano-30b-a3b", 52, rows);  // one part a layer
  }
}

TEST_CASE("estimate: GPUs with links of their own sum up in a ring over them", "[estimate]") {
  const Architecture a = test::model_of_file("qwen3-30b-a3b");
  Runtime r = ideal();
  r.tensor_parallel = 1;
  r.all_reduce = 1e-5;
  r.peer_bandwidth = 0.5;
  r.micro_batch = 1000;
  for (const int gpus : {2, 3, 8}) {
    const MachineParts node =
        machine_of({.gpu = "h100-80gb", .gpus = gpus, .cpu = "Ryzen 9 7950X", .memory = "ddr5-6000 x 2"});
    // Each GPU sends (n - 1) / n of the bytes twice; NVLink 4 has 18 links of 25 GB/s each way.
    const double bytes = 1000.0 * a.hidden * 2;
    const double ring = 2.0 * (gpus - 1) / gpus * bytes / (0.5 * 18 * 25e9);
    CHECK(ServingEstimate(a, node, r, {}).prompt(1000).reduces ==
          Approx(48 * 2 * (1e-5 + ring)).epsilon(1e-9));
  }
}

TEST_CASE("estimate: GPUs that share layers have all rows each", "[estimate]") {
  const Architecture a = test::model_of_file("qwen3-30b-a3b");
  Runtime r = ideal();
  r.tensor_parallel = 1;
  r.activation_bytes = 4;
  const auto launches = [&](int gpus) {
    const MachineParts node =
        machine_of({.gpu = "h100-80gb", .gpus = gpus, .cpu = "Ryzen 9 7950X", .memory = "ddr5-6000 x 2"});
    return ServingEstimate(a, node, r, {}).prompt(1000).launches;
  };
  CHECK(launches(1) > 0);
  CHECK(launches(8) == Approx(launches(1)).epsilon(1e-9));
}

TEST_CASE("estimate: launches, layers on the CPU and steps cost what they cost", "[estimate]") {
  const Architecture model = test::model_of_text(kTiny);
  const MachineParts machine = desktop();
  Runtime r = ideal();
  r.launch = 1e-3;
  r.step = 10;
  r.cpu_layer = 100;
  const int kernels = attention_work(model, model.layers[0], 1, 0).kernels + head_work(model, 1).kernels +
                      expert_work(model, model.moe(), 1).kernels;
  CHECK(ServingEstimate(model, machine, r, {}).decode(1, 5).launches == Approx(10 + kernels * 1e-3));
  CHECK(ServingEstimate(model, machine, r, {.cpu_expert_layers = 1}).decode(1, 5).handing_over == 100);
}

TEST_CASE("estimate: a prompt's layers wait for a host that launches their kernels one by one",
          "[estimate]") {
  const Architecture model = test::model_of_text(kTiny);
  const MachineParts machine = desktop();
  Runtime r = ideal();
  const StepEstimate prompt = ServingEstimate(model, machine, r, {}).prompt(4);
  r.eager_layer = 1;  // attention of four tokens takes microseconds
  const StepEstimate waiting = ServingEstimate(model, machine, r, {}).prompt(4);
  const Work attention = attention_work(model, model.layers[0], 4, 2.5);
  const double reading = attention.weight_bytes.value() / 1008e9;
  CHECK(waiting.total() == Approx(prompt.total() - reading - prompt.attention + 1).epsilon(1e-9));
  CHECK(ServingEstimate(model, machine, r, {}).decode(1, 4).total() < 1e-3);  // by a graph
  CHECK(ServingEstimate(model, machine, r, {.cpu_layers = 1}).prompt(4).total() <
        1);  // the CPU launches nothing
  r.eager_layer = 1e-9;
  CHECK(ServingEstimate(model, machine, r, {}).prompt(4).total() == prompt.total());
}

TEST_CASE("estimate: a prompt's experts are copied or computed where they lie", "[estimate]") {
  const Architecture model = test::model_of_text(kTiny);
  const MachineParts machine = desktop();
  Runtime r = ideal();
  const double distinct = 16 * (1 - std::pow(0.75, 1000)), bytes = distinct * 3 * 1024 * 512 * 2;
  r.stream_from = 32;
  r.link = 0.5;
  r.micro_batch = 1000;
  const StepEstimate copied = ServingEstimate(model, machine, r, {.cpu_expert_layers = 1}).prompt(1000);
  const double copy = bytes / (0.5 * link_rate("pcie4-x16").value());
  const double flops = 2 * 4000.0 * 3 * 1024 * 512 / 165.2e12, memory = bytes / 1008e9;
  // Behind as many tokens again there is more to attend to, and nothing else.
  const StepEstimate behind =
      ServingEstimate(model, machine, r, {.cpu_expert_layers = 1}).prompt(1000, {}, 1000);
  CHECK(behind.attention > copied.attention);
  CHECK(behind.total() - behind.attention == Approx(copied.total() - copied.attention));
  CHECK(copied.copies == Approx(copy - std::max(flops, memory)).epsilon(1e-9));
  CHECK(copied.cpu == 0);
  r.stream_from = 0;
  r.cpu_peak = 0.1;
  const StepEstimate there = ServingEstimate(model, machine, r, {.cpu_expert_layers = 1}).prompt(1000);
  const double peak = 0.1 * find_cpu("Ryzen 9 7950X").peak().value();
  CHECK(there.cpu == Approx(std::max(2 * 4000.0 * 3 * 1024 * 512 / peak, bytes / 96e9)).epsilon(1e-9));
  CHECK(there.copies == 0);
}

TEST_CASE("estimate: 8-bit products serve quantised weights alone, where CPU and runtime have them",
          "[estimate]") {
  Architecture model = test::model_of_text(kTiny);
  Runtime r = ideal();
  const auto seconds = [&](const char* cpu) {
    const MachineParts machine = machine_of({.gpu = "rtx-4090-24gb", .cpu = cpu});
    // What arithmetic takes: so little of the peak that memory never takes longer.
    return ServingEstimate(model, machine, r, {.cpu_expert_layers = 1}).prompt(1000).cpu *
           find_cpu(cpu).peak().value();
  };
  r.cpu_peak = 0.001;
  const double plain = 2 * 4000.0 * 3 * 1024 * 512 / 0.001;
  for (const double bytes : {2.0, 0.5625}) {
    model.stored = StoredWeights::plain(bytes);
    for (const double instructions : {0.0, 1.0}) {
      r.cpu_bytes = instructions;
      // Zen 4 and Cascade Lake have VNNI, Zen 3 has not.
      for (const char* cpu : {"ryzen-9-7950x", "xeon-gold-6230"})
        CHECK(seconds(cpu) == Approx(plain / (bytes < 1 && instructions == 1 ? 4 : 1)).epsilon(1e-9));
      CHECK(seconds("ryzen-7-5800x") == Approx(plain).epsilon(1e-9));
    }
  }
}

TEST_CASE("estimate: layers in the host's memory come over the link whole, or are the CPU's", "[estimate]") {
  const Architecture model = test::model_of_text(kTiny);
  const MachineParts machine = desktop();
  Runtime r = ideal();
  r.link = 0.5;
  r.cpu_layer = 1;
  const double link = 0.5 * link_rate("pcie4-x16").value();
  // Projections with their norms and router, and 16 experts of which a token uses 4; the head stays.
  const double dense = 1024.0 * 1536 + 1024 * 1024 + 2 * 1024 + 16 * 1024, expert = 3 * 1024.0 * 512;
  const double head = 1000.0 * 1024 + 1024;
  const ServingEstimate linked(model, machine, r, {.link_layers = 1});
  CHECK(linked.decode(1, 0).total() ==
        Approx(2 * (dense + 16 * expert) / link + 2 * head / 1008e9).epsilon(1e-9));
  CHECK(linked.decode(1, 0).bound_word() == "link");
  // It computes keys and values, which it has: of 1000 tokens 2 x 2 heads x 128 values of 2 bytes each.
  const double kv = 1000.0 * 2 * 2 * 128 * 2;
  CHECK(linked.memory(1000).gpu_kv == kv);
  CHECK(linked.memory(1000).gpu_experts == 0);
  CHECK(linked.memory(0).gpu_weights == Approx(2 * head));
  const ServingEstimate on_cpu(model, machine, r, {.cpu_layers = 1});
  const StepEstimate step = on_cpu.decode(1, 1000);
  CHECK(step.cpu == Approx(2 * (dense + 4 * expert) / 96e9).epsilon(1e-9));
  CHECK(step.attention == Approx(kv / 96e9).epsilon(1e-9));
  CHECK(step.handing_over == 1);  // once a step, not once a layer
  CHECK(on_cpu.memory(1000).gpu_kv == 0);
  CHECK(on_cpu.memory(1000).host - on_cpu.memory(0).host == Approx(kv));
  // A long prompt's weights are copied to the GPU, where runtimes do that.
  r.stream_from = 32;
  const StepEstimate prompt = ServingEstimate(model, machine, r, {.cpu_layers = 1}).prompt(1000, 1000.0);
  CHECK(prompt.cpu == 0);
  CHECK(prompt.copies > 0);
  // A GPU that works in the host's memory has no link, and all is there.
  const MachineParts unified = machine_of({.gpu = "gb10", .ram = "128 GiB"});
  CHECK(ServingEstimate(model, unified, r, {.link_layers = 1}).decode(1, 0).copies == 0);
}

/// A random runtime: constants within their ranges.
Runtime random_runtime(test::Dice& dice) {
  Runtime r;
  for (const Runtime::Constant& c : Runtime::constants()) {
    const double high = c.unit == Runtime::Constant::Unit::count ? std::min(c.high, 100.0) : c.high;
    r.*c.value = c.low + (high - c.low) * dice.from(0, 100) / 100;
  }
  if (dice.coin()) r.mask_bytes = 0;
  r.micro_batch = dice.from(1, 64);
  // Between one token and several, and where copies begin, a runtime changes its way: no order holds there.
  r.stream_from = dice.from(0, 1);
  r.batched_bandwidth = r.expert_bandwidth;
  r.launch_batched = r.launch;
  return r;
}

TEST_CASE("estimate: what holds of any model and runtime", "[estimate]") {
  test::Dice dice(31);
  const MachineParts machine = desktop();
  for (int i = 0; i < moelab::test::random_runs(500); ++i) {
    const Architecture model = random_architecture(dice);
    const Runtime r = random_runtime(dice);
    const int layers = static_cast<int>(model.moe_layers().size());
    const Split split{.cpu_expert_layers = dice.from(0, layers), .gpu_expert_share = dice.from(0, 4) / 4.0};
    const ServingEstimate estimate(model, machine, r, split);
    const double now = estimate.decode(1, 10).total();
    REQUIRE((std::isfinite(now) && now > 0));
    // More to attend to, more users or more tokens never take less.
    REQUIRE(estimate.decode(1, 20).total() >= now);
    REQUIRE(estimate.decode(3, 10).attention >= estimate.decode(1, 10).attention);
    REQUIRE(estimate.prompt(40).total() >= estimate.prompt(20).total() * (1 - 1e-12));
    // Nothing on the CPU is no CPU's time; and what lies where adds up to the whole.
    const ServingEstimate resident(model, machine, r, {});
    REQUIRE(resident.decode(1, 10).cpu == 0);
    REQUIRE(resident.decode(1, 10).handing_over == 0);
    // llama.cpp has a tied embedding twice; it keeps states in 32 bits.
    const bool llama = r.has_buffers();
    const double twice = llama && model.embedding_copies == 1
                             ? embedding_weights(model) * model.stored.of(WeightPart::head)
                             : 0;
    const int first = dice.from(0, static_cast<int>(model.layers.size()));
    const ServingEstimate linked(model, machine, r, {.link_layers = first});
    const ServingEstimate below(model, machine, r, {.cpu_layers = first});
    for (const ServingEstimate* e : {&estimate, &resident, &linked, &below}) {
      const SplitMemory m = e->memory(0);
      const double state = (llama ? 2 : 1) * state_bytes_per_request(model).value();
      REQUIRE(m.gpu_weights + m.gpu_kv + m.host ==
              Approx(total_bytes(model).value() + twice + state).epsilon(1e-9));
      if (!llama)
        REQUIRE(e->memory(7).gpu_kv + e->memory(7).host - m.gpu_kv - m.host ==
                Approx(7 * kv_bytes_per_token(model).value()).margin(1));
      REQUIRE(m.gpu_experts <= routed_bytes(model).value() * (1 + 1e-9));
      REQUIRE((m.gpu_reserve == 0 || !llama));
      REQUIRE((m.gpu_compute + m.gpu_context + m.host_compute == 0 || llama));
    }
    REQUIRE(linked.decode(1, 10).total() >= resident.decode(1, 10).total() * (1 - 1e-12));
    const SplitMemory cpu = ServingEstimate(model, machine, r, {.cpu_only = true}).memory(0);
    REQUIRE(cpu.gpu() == 0);
    const double states = (llama ? 2 : 1) * state_bytes_per_request(model).value();
    REQUIRE(cpu.host == Approx(total_bytes(model).value() + states));
  }
}

TEST_CASE("estimate: what does not fit is said with what is missing", "[estimate]") {
  Architecture model = test::model_of_file("qwen3-30b-a3b");
  MachineParts machine = desktop();
  const Runtime r = ideal();
  CHECK(ServingEstimate(model, machine, r, {}).impossible(0).find("the GPU's memory needs") == 0);
  model.stored = stored_as(model, "gguf-q4_k_m");
  CHECK(ServingEstimate(model, machine, r, {}).impossible(1000).empty());
  machine.ram = Bytes(1e9);
  CHECK(ServingEstimate(model, machine, r, {.gpu_expert_share = 0}).impossible(0).find("the host's memory") ==
        0);
  machine.cpu.reset();
  machine.ram.reset();
  machine.memory = {};
  CHECK(ServingEstimate(model, machine, r, {.gpu_expert_share = 0}).impossible(0).find("which CPU") !=
        std::string::npos);
}

TEST_CASE("estimate: buffers count against the GPU's memory, and bigger micro-batches need more of it",
          "[estimate]") {
  Architecture model = test::model_of_file("qwen3-30b-a3b");
  model.stored = stored_as(model, "gguf-q4_k_m");
  const MachineParts machine = desktop();
  const Runtime llama = load_runtime("llama.cpp-cuda");
  const ServingEstimate estimate(model, machine, llama, {.cpu_expert_layers = 4});
  const SplitMemory m = estimate.memory(32768);
  CHECK(m.gpu() == m.gpu_weights + m.gpu_kv + m.gpu_compute + m.gpu_context);
  CHECK(m.gpu_context == 0.5e9);
  // 48 layers of 4 x 128 keys and as many values, 16-bit.
  CHECK(m.gpu_kv == 48 * 2 * 4 * 128 * 2 * 32768.0);
  CHECK(estimate.impossible(32768).empty());
  CHECK(estimate.impossible(32768, {.micro_batch = 65536}).find("the GPU's memory needs") == 0);
  // A runtime without the law has its reserve, whatever the micro-batch.
  const Runtime vllm = load_runtime("vllm");
  const ServingEstimate other(model, machine, vllm, {});
  CHECK(other.memory(32768).gpu_reserve == vllm.gpu_reserve);
  CHECK(other.memory(32768, {.micro_batch = 65536}).gpu() == other.memory(32768).gpu());
}

TEST_CASE("runtimes: every file reads, names its sources, and stands on one that is there", "[runtimes]") {
  for (const std::string& name : config_names("runtimes")) {
    INFO(name);
    const Runtime r = load_runtime(name);
    CHECK(r.name == name);
    CHECK(!r.own.empty());
    // A source for each number of its own: constants, and factors of generations.
    std::size_t factors = 0;
    for (const auto& [generation, on_it] : r.classes) factors += on_it.own;
    CHECK(r.provenance.size() == r.own.size() + factors);
    for (const Runtime::Constant& c : Runtime::constants()) {
      CHECK(r.*c.value >= c.low);
      CHECK(r.*c.value <= c.high);
    }
  }
  // What a file does not say is its base's; one without a base says all.
  const Runtime base = load_runtime("llama.cpp-cuda"), rocm = load_runtime("llama.cpp-rocm");
  CHECK(rocm.cpu_bandwidth == base.cpu_bandwidth);
  CHECK(rocm.slowdown != base.slowdown);
  CHECK(base.based_on == "common");
  CHECK(base.launch == load_runtime("common").launch);
  Problems problems;
  const YamlDocument document = YamlDocument::from_text(
      "r", "name: r\nsources: {a: {kind: assumed, text: x}}\nconstants: {launch: {value: 2 s, source: b}}\n",
      problems);
  (void)read_runtime(document.root());
  const auto needed = std::count_if(Runtime::constants().begin(), Runtime::constants().end(),
                                    [](const Runtime::Constant& c) { return !c.optional; });
  CHECK(problems.all().size() > static_cast<std::size_t>(needed) - 2);  // each missing, one out of range
}

TEST_CASE("runtimes: which GGUF files one reads, and its open faults, are what it stands on says and its own",
          "[runtimes]") {
  const test::ScratchFolder folder;
  const auto read = [&](const std::string& more) {
    std::ofstream(folder / "mine.yaml")
        << "name: mine\nbased_on: ktransformers\nsources: {a: {kind: assumed, text: x}}\n"
        << "constants: {}\n"
        << more;
    return load_runtime((folder / "mine.yaml").string());
  };
  const Runtime base = load_runtime("ktransformers"), plain = read("");
  CHECK(plain.gguf.types == base.gguf.types);
  CHECK(plain.gguf.width_multiple == 256);
  REQUIRE(plain.caveats.size() == base.caveats.size());
  CHECK(load_runtime("llama.cpp-cuda").gguf.types.empty());
  CHECK_THROWS_WITH(read("gguf: {types: [q4_k_n], source: a}\n"),
                    Catch::Contains("'q4_k_n' is no type of GGUF files (did you mean 'q4_k_m'?)"));
  CHECK_THROWS_WITH(read("gguf: {types: [], source: a}\n"), Catch::Contains("names none"));
  const Runtime own =
      read("gguf: {types: [q8_0], source: a}\ncaveats: [{models: [glm], what: fails, source: a}]\n");
  CHECK(own.gguf.types == std::vector<std::string>{"q8_0"});
  CHECK(own.gguf.width_multiple == 256);
  REQUIRE(own.caveats.size() == base.caveats.size() + 1);
  CHECK(own.caveats.back().what == "fails (x)");
  CHECK(own.caveats.back().concerns("glm-4.5-air", "fp8"));
  CHECK_FALSE(own.caveats.back().concerns("gpt-oss-20b", "fp8"));
  CHECK(base.caveats.front().concerns("deepseek-r1", "gguf-q4_k_m"));
  CHECK_FALSE(base.caveats.front().concerns("deepseek-r1", "bf16"));
  CHECK_THROWS_WITH(read("gguf: {types: [q8_0], source: b}\n"), Catch::Contains("'b' is not among"));
  CHECK_THROWS_WITH(read("caveats: [{models: [glm], waht: fails, source: a}]\n"),
                    Catch::Contains("did you mean 'what'"));
}

TEST_CASE("runtimes: a file that another stands on is found beside it", "[runtimes]") {
  const test::ScratchFolder folder;
  const auto write = [&](const char* name, const std::string& text) { std::ofstream(folder / name) << text; };
  const std::string sources = "sources: {a: {kind: assumed, text: x}}\n";
  write("below.yaml", "name: below\nbased_on: llama.cpp-cuda\n" + sources +
                          "constants: {launch: {value: 11 us, source: a}}\n");
  write("mine.yaml", "name: mine\nbased_on: ./below.yaml\n" + sources + "constants: {}\n");
  const Runtime mine = load_runtime((folder / "mine.yaml").string());
  CHECK(mine.launch == Approx(11e-6));
  CHECK(mine.cpu_bandwidth == load_runtime("llama.cpp-cuda").cpu_bandwidth);
  // Its own file has no constants, the one beside it one.
  CHECK(runtime_provenance(mine).size() == 1 + runtime_provenance(load_runtime("llama.cpp-cuda")).size());
}

TEST_CASE("runtimes: a slowdown is of launches and of the peak, 8-bit products of what is quantised",
          "[runtimes]") {
  Runtime r = load_runtime("llama.cpp-cuda");
  r.slowdown = 1.25;
  r.classes = {{"ada", {.slowdown = 2}}};
  r.launch = 8e-6;
  r.launch_batched = 12e-6;
  r.dense_peak = 0.2;
  r.expert_peak = 0.5;
  r.attention_peak = 0.4;
  const GpuPart geforce = find_gpu("rtx-4090-24gb"), workstation = find_gpu("rtx-a6000-48gb"),
                volta = find_gpu("v100-32gb");
  // By the white papers of Ada and Ampere: 660.6 TOP/s of INT8 beside 165.2 TFLOP/s, 309.7 beside 154.8.
  CHECK(geforce.byte_products * geforce.peak.value() == Approx(660.6e12).epsilon(0.001));
  CHECK(workstation.byte_products * workstation.peak.value() == Approx(309.7e12).epsilon(0.001));
  CHECK(volta.byte_products == 1);
  StoredWeights mixed;  // 16 bits but for the experts
  mixed.set(WeightPart::experts, 0.5625);
  const StoredWeights all = StoredWeights::uniform("q8_0", 1.0625);
  const RuntimeCosts ada = r.on(geforce, mixed), ampere = r.on(workstation, all), plain = r.on(geforce, {});
  CHECK(ada.launch == 8e-6 * 2.5);
  CHECK(ada.launch_batched == 12e-6 * 2.5);
  CHECK(ada.dense_peak == 0.2 / 2.5);
  CHECK(ada.expert_peak == 4 * (0.5 / 2.5));
  CHECK(ada.attention_peak == 0.4 / 2.5);
  CHECK(ampere.launch == 8e-6 * 1.25);
  CHECK(ampere.dense_peak == 2 * (0.2 / 1.25));
  CHECK(ampere.expert_peak == 2 * (0.5 / 1.25));
  CHECK(ampere.attention_peak == 0.4 / 1.25);
  CHECK(plain.expert_peak == 0.5 / 2.5);
  CHECK(r.on(volta, all).expert_peak == 0.5 / 1.25);
  // No share of what there is exceeds it.
  r.slowdown = 0.1;
  CHECK(r.on(workstation, all).expert_peak == 2);
  CHECK(r.on(workstation, all).attention_peak == 1);
  // A runtime without such kernels has 16 bits; one file's slowdown is also that of those that stand on it.
  r.gpu_bytes = 0;
  CHECK(r.on(workstation, all).expert_peak == 1);
  const Runtime fork = load_runtime("ik_llama.cpp-cuda"), cuda = load_runtime("llama.cpp-cuda");
  CHECK(fork.on(geforce, all).launch == cuda.on(geforce, all).launch);
  CHECK(cuda.on(geforce, all).launch == cuda.launch * cuda.classes.at("ada").slowdown);
}

TEST_CASE("runtimes: a class of GPUs has constants of its own, one by name before its generation's",
          "[runtimes]") {
  const test::ScratchFolder folder;
  std::ofstream(folder / "mine.yaml")
      << "name: mine\nbased_on: vllm\nsources:\n  x: {kind: assumed, text: x}\n"
         "constants: {step: {value: 1 ms, source: x}}\nclasses:\n"
         "  ampere: {slowdown: {value: 2, source: x}}\n"
         "  a100: {expert_peak: {value: 0.3, source: x}, launch: {value: 5 us, "
         "source: x}}\n"
         "  a100/mxfp4: {expert_peak: {value: 0.4, source: x}}\n";
  const Runtime base = load_runtime("vllm"), mine = load_runtime((folder / "mine.yaml").string());
  const RuntimeCosts a100 = mine.on(find_gpu("a100-80gb-pcie"), {}), a10 = mine.on(find_gpu("a10-24gb"), {}),
                     h100 = mine.on(find_gpu("h100-80gb"), {});
  const StoredWeights mxfp4 = StoredWeights::uniform("experts mxfp4, else bf16", 0.53);
  const RuntimeCosts quantised = mine.on(find_gpu("a100-80gb"), mxfp4);
  CHECK(a100.expert_peak == 0.3);
  CHECK(a100.launch == Approx(5e-6));
  CHECK(quantised.expert_peak >= 0.4);  // times what the GPU's 8-bit products are faster, where it has them
  CHECK(quantised.launch == Approx(5e-6));
  CHECK(a100.dense_peak == base.dense_peak);
  CHECK(a10.expert_peak == base.expert_peak / 2);
  CHECK(a10.launch == base.launch * 2);
  CHECK(h100.expert_peak == base.expert_peak);
  // A class that says nothing, and a constant that there is not.
  for (const char* wrong : {"  a100: {}\n", "  a100: {expert_peek: {value: 0.3, source: x}}\n"}) {
    std::ofstream(folder / "wrong.yaml")
        << "name: wrong\nbased_on: vllm\nsources:\n  x: {kind: assumed, text: "
           "x}\nconstants: {step: {value: 1 ms, source: x}}\nclasses:\n"
        << wrong;
    CHECK_THROWS_AS(load_runtime((folder / "wrong.yaml").string()), InputError);
  }
}

TEST_CASE("runtimes: sums over GPUs that have links of their own have a time of their own", "[runtimes]") {
  RuntimeCosts costs;
  costs.all_reduce = 48e-6;
  MachineParts machine;
  machine.gpu = find_gpu("h100-80gb");
  CHECK(machine.all_reduce(4, costs)(0) == Approx(48e-6));
  costs.peer_all_reduce = 11e-6;
  CHECK(machine.all_reduce(4, costs)(0) == Approx(11e-6));
  machine.gpu = find_gpu("l40s");
  CHECK(machine.all_reduce(4, costs)(0) == Approx(48e-6));
}

}  // namespace
}  // namespace moelab::serving_estimate_test

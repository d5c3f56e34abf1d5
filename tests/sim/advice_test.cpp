// Advice: held against an exhaustive search written anew here, over all splits, formats, numbers of GPUs and
// micro-batches; and its flags against what llama.cpp's and vLLM's documentation says they do.
#include "sim/advise/advice.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "models/input_error.hpp"
#include "models/stored_weights.hpp"
#include "models/tensor_parallel.hpp"
#include "sim/advise/policy_trial.hpp"
#include "tests/random_runs.hpp"

namespace moelab::advice_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

AdviceRequest request_of(const std::string& model, const MachineText& machine) {
  AdviceRequest request;
  request.model = load_architecture(model);
  request.machine = machine_of(machine);
  return request;
}

const MachineText kDesktop{.gpu = "rtx-3090-24gb", .cpu = "i9-14900K", .memory = "ddr5-6000 x 2"};

struct Pair {
  const char* model;
  MachineText machine;
};

const std::vector<Pair>& pairs() {
  static const std::vector<Pair> all{
      {"gpt-oss-120b", kDesktop},
      {"qwen3-30b-a3b", {.gpu = "rtx-4060-8gb", .cpu = "ryzen-9-7950x", .ram = "64 GiB"}},
      {"mixtral-8x7b", {.gpu = "rtx-4090-24gb", .cpu = "ryzen-9-7950x", .ram = "96 GiB"}},
      {"deepseek-v3", {.gpu = "rtx-5090-32gb", .cpu = "epyc-9355", .ram = "768 GiB"}},
      {"glm-4.5-air", {.gpu = "apple-m4-max", .ram = "128 GiB"}},
      {"qwen3-30b-a3b", {.gpu = "jetson-agx-orin-64gb", .ram = "64 GiB"}},
      {"gpt-oss-120b", {.gpu = "gb10", .ram = "128 GiB"}},
      {"gpt-oss-120b", {.gpu = "radeon-8060s", .ram = "128 GiB"}},
      {"mixtral-8x7b", {.cpu = "epyc-9355", .ram = "256 GiB"}},
      {"glm-4.5-air", {.gpu = "rtx-3090-24gb", .gpus = 2, .cpu = "i9-14900K", .ram = "128 GiB"}},
      {"qwen3-30b-a3b", {.gpu = "rtx-3090-24gb", .gpus = 2, .cpu = "i9-14900K", .ram = "128 GiB"}},
      {"mixtral-8x7b", {.gpu = "rx-7900-xtx-24gb", .cpu = "ryzen-9-7950x", .ram = "96 GiB"}}};
  return all;
}

// The search, written from what the runtimes' documentation offers.

struct Offer {
  const char* runtime;
  std::vector<std::string> weights;
};

bool is_gguf_runtime(const std::string& runtime) {
  return runtime.find("llama.cpp") != std::string::npos;
}

/// `whole`: discrete GPUs hold the smallest usual weights, and nothing smaller is tried.
std::vector<Offer> offers(const AdviceRequest& q, bool whole) {
  const bool oss = q.model.name.starts_with("gpt-oss");  // published in MXFP4
  std::vector<std::string> gguf =
      oss ? std::vector<std::string>{"gguf-mxfp4"}
          : std::vector<std::string>{"gguf-q4_k_m", "gguf-q5_k_m", "gguf-q6_k", "gguf-q8_0"};
  std::vector<std::string> fork{gguf.front()};  // of ik_llama.cpp
  if (!whole && !oss)
    for (std::vector<std::string>* list : {&gguf, &fork})
      list->insert(list->end(), {"gguf-q4_k_s", "gguf-iq4_xs"});
  const std::vector<std::string> cuda =
      oss ? std::vector<std::string>{"mxfp4"} : std::vector<std::string>{"bf16", "fp8", "awq"};
  if (!q.machine.gpu) return {{"llama.cpp-cpu", gguf}, {"ik_llama.cpp-cpu", fork}};
  if (q.machine.gpu->maker == "apple")
    return {{"llama.cpp-metal", gguf}, {"mlx", {"mlx-4bit", "mlx-6bit", "mlx-8bit"}}};
  if (q.machine.gpu->maker == "amd") return {{"llama.cpp-rocm", gguf}, {"llama.cpp-vulkan", gguf}};
  std::vector<Offer> all{{"llama.cpp-cuda", gguf}, {"vllm", cuda}};
  if (q.machine.gpu->unified()) return all;
  if (!whole) all.push_back({"ik_llama.cpp-cuda", fork});
  std::vector<std::string> kt;
  // KTransformers' kernels for weights that are no GGUF file ask for AVX-512, which of these CPUs one lacks.
  if (q.machine.cpu->title != "Intel Core i9-14900K") kt.emplace_back(oss ? "mxfp4" : "bf16");
  // Its kernels for GGUF files take experts whose width is a multiple of 256.
  if (!oss && q.model.moe().width % 256 == 0) kt.emplace_back("gguf-q4_k_m");
  if (!kt.empty()) all.push_back({"ktransformers", kt});
  return all;
}

/// Bytes of the rows that llama.cpp computes at once: logits of each in four bytes (its graph for prompts has
/// an output for each token), and what a layer makes of it in two.
double rows_bytes(const Architecture& m, double rows) {
  double widest = 0;
  for (const Layer& layer : m.layers) {
    const FeedForward& ff = layer.feed_forward;
    const double up = ff.matrices - 1.0;
    const double values = ff.kind == FeedForward::Kind::moe
                              ? ff.top_k * (up * ff.width + m.hidden) + up * ff.shared_width
                              : up * ff.width;
    widest = std::max(widest, values);
  }
  return rows * (4.0 * m.vocab + 2 * (2.0 * m.hidden + widest));
}

/// The fullest of so many GPUs that hold layers of their own, by trying every way to cut the list (each GPU's
/// best begin for each end).
double fullest(const std::vector<double>& sizes, int gpus) {
  const std::size_t n = sizes.size();
  std::vector<double> before(n + 1, kInfinity);
  before[0] = 0;
  for (int g = 0; g < gpus; ++g) {
    std::vector<double> now = before;
    for (std::size_t end = 1; end <= n; ++end) {
      double sum = 0;
      for (std::size_t begin = end; begin-- > 0;) {
        sum += sizes[begin];
        now[end] = std::min(now[end], std::max(before[begin], sum));
      }
    }
    before = now;
  }
  return before[n];
}

struct Way {
  int gpus;
  Split split;
  double micro_batch, decode_s;
};

class Exhaustive {
 public:
  Exhaustive(const AdviceRequest& q, const std::string& runtime, const std::string& weights)
      : q_(q), runtime_(load_runtime(runtime)), model_(q.model) {
    model_.stored = stored_as(model_, weights);
    for (int g = 0; g <= q.machine.gpus; ++g) {
      machines_.push_back(q.machine);
      machines_.back().gpus = g;
    }
    for (int gpus = std::min(1, q.machine.gpus); gpus <= q.machine.gpus; ++gpus)
      for (const Split& split : splits()) try_split(gpus, split);
  }
  const std::vector<Way>& ways() const { return ways_; }
  double fastest() const {
    double least = kInfinity;
    for (const Way& w : ways_) least = std::min(least, w.decode_s);
    return least;
  }
  /// The least that a prompt and its answer take.
  double fastest_request() const {
    double least = kInfinity;
    for (const Way& w : ways_)
      least = std::min(
          least, estimate(w.gpus, w.split).prompt(q_.prompt, w.micro_batch).total() + q_.answer * w.decode_s);
    return least;
  }
  const Architecture& model() const { return model_; }

 private:
  ServingEstimate estimate(int gpus, const Split& split) const {
    return {model_, machines_[static_cast<std::size_t>(gpus)], runtime_, split};
  }
  std::vector<Split> splits() const {
    if (!q_.machine.gpu) return {{.cpu_only = true}};
    std::vector<Split> all{{}};
    if (q_.machine.gpu->unified()) return all;
    const int layers = static_cast<int>(model_.layers.size()),
              moe = static_cast<int>(model_.moe_layers().size());
    if (runtime_.name == "vllm")
      for (int n = 1; n <= layers; ++n) all.push_back({.link_layers = n});
    if (runtime_.name == "ktransformers")
      for (int n = 0; n < model_.moe().experts; ++n)
        all.push_back({.gpu_expert_share = 1.0 * n / model_.moe().experts});
    if (!is_gguf_runtime(runtime_.name)) return all;
    for (int n = 1; n <= moe; ++n) all.push_back({.cpu_expert_layers = n});
    all.push_back({.cpu_only = true});
    return all;
  }
  /// Bytes of one GPU, where each has a slice of every layer, or the fullest of those with layers of their
  /// own.
  double of_one_gpu(int gpus, const Split& split, const SplitMemory& m) const {
    if (gpus <= 1) return m.gpu();
    const double tokens = q_.context * q_.users;
    if (runtime_.tensor_parallel > 0)
      return (m.gpu_weights + m.gpu_reserve + m.gpu_compute + m.gpu_context) / gpus +
             kv_bytes_per_token(tensor_parallel_part(model_, gpus)).value() * tokens;
    std::vector<double> sizes;
    int moe_number = 0;
    double layers = 0;
    for (const Layer& layer : model_.layers) {
      double bytes = layer_non_routed_bytes(model_, layer).value();
      const double experts = layer_bytes(model_, layer).value() - bytes;
      if (experts > 0 && moe_number++ >= split.cpu_expert_layers) bytes += split.gpu_expert_share * experts;
      layers += bytes;
      // These models' layers keep as many keys and values each.
      sizes.push_back(bytes + m.gpu_kv / static_cast<double>(model_.layers.size()));
    }
    sizes.push_back(m.gpu_weights - layers);
    return fullest(sizes, gpus) + (m.gpu_reserve + m.gpu_compute + m.gpu_context) / gpus;
  }
  bool shares(int gpus) const {
    if (gpus <= 1) return true;
    if (runtime_.tensor_parallel == 0) return gpus == q_.machine.gpus;
    const int whole = model_.stored.name == "awq" ? 128 * gpus : gpus;  // its groups are not cut
    for (const Layer& layer : model_.layers)
      for (const int width : {layer.feed_forward.width, layer.feed_forward.shared_width})
        if (width % whole != 0) return false;
    return model_.layers[0].attention.heads % gpus == 0;
  }
  void try_split(int gpus, const Split& split) {
    if (!shares(gpus) || (gpus == 1 && q_.machine.gpus > 1 && runtime_.tensor_parallel == 0)) return;
    const ServingEstimate e = estimate(gpus, split);
    const std::vector<double> batches = is_gguf_runtime(runtime_.name)
                                            ? std::vector<double>{512, 1024, 2048, 4096}
                                            : std::vector<double>{runtime_.micro_batch};
    for (const double ub : batches) {
      const LoadOptions options{.micro_batch = ub, .sequences = q_.users};
      if (!e.impossible(q_.context * q_.users, options).empty()) continue;
      SplitMemory m = e.memory(q_.context * q_.users, options);
      // llama.cpp's buffers are by micro-batch already.
      const double more =
          runtime_.has_buffers()
              ? 0
              : std::max(0.0, rows_bytes(model_, ub) - rows_bytes(model_, runtime_.micro_batch));
      (split.cpu_only ? m.host : m.gpu_reserve) += more * std::max(1, gpus);
      const bool unified = q_.machine.gpu && q_.machine.gpu->unified();
      const double host = m.host_total() + (unified ? m.gpu() : 0);
      if (q_.machine.ram && host > q_.machine.ram->value() - 3e9) continue;  // the system's own
      // What macOS lets the GPU of a machine of 36 GB and more take.
      if (unified && q_.machine.gpu->maker == "apple" && q_.machine.ram &&
          m.gpu() > 0.75 * q_.machine.ram->value())
        continue;
      if (!split.cpu_only && !unified && of_one_gpu(gpus, split, m) > q_.machine.gpu->memory.value())
        continue;
      ways_.push_back({gpus, split, ub, e.decode(q_.users, q_.context).total()});
    }
  }

  const AdviceRequest& q_;
  Runtime runtime_;
  Architecture model_;
  std::vector<MachineParts> machines_;
  std::vector<Way> ways_;
};

/// Whether discrete GPUs hold the smallest usual weights, whatever the host has.
bool holds_usual_weights(AdviceRequest q) {
  if (!q.machine.gpu || q.machine.gpu->unified()) return false;
  q.machine.ram.reset();
  const bool nvidia = q.machine.gpu->maker == "nvidia";
  const Exhaustive all(q, nvidia ? "llama.cpp-cuda" : "llama.cpp-rocm",
                       q.model.name.starts_with("gpt-oss") ? "gguf-mxfp4" : "gguf-q4_k_m");
  return std::any_of(all.ways().begin(), all.ways().end(), [](const Way& w) { return w.split == Split{}; });
}

TEST_CASE("advice: what an exhaustive search of all splits, formats and micro-batches finds",
          "[advise][long]") {
  for (const Pair& pair : pairs()) {
    AdviceRequest q = request_of(pair.model, pair.machine);
    q.prompt = 2048;
    const std::vector<Advice> list = advise(q);
    std::size_t fitting = 0;
    for (const Offer& offer : offers(q, holds_usual_weights(q)))
      for (const std::string& weights : offer.weights) {
        INFO(pair.model << " on " << q.machine.title() << ", " << offer.runtime << " " << weights);
        const Exhaustive all(q, offer.runtime, weights);
        const auto row = std::find_if(list.begin(), list.end(), [&](const Advice& a) {
          return a.runtime == offer.runtime && a.weights == weights;
        });
        REQUIRE((row == list.end()) == all.ways().empty());
        if (row == list.end()) continue;
        ++fitting;
        CHECK(row->decode_s >= all.fastest() * (1 - 1e-9));
        CHECK(row->request_s == Approx(all.fastest_request()).epsilon(1e-6));
        CHECK(row->request_s == Approx(row->prompt_s + q.answer * row->decode_s));
      }
    INFO(pair.model << " on " << q.machine.title());
    CHECK(static_cast<std::ptrdiff_t>(fitting) ==
          std::count_if(list.begin(), list.end(), [](const Advice& a) { return !a.few_bits(); }));
  }
}

/// The flag's number in a command; 0 where it is not there.
double flag(const std::string& command, const std::string& name) {
  const std::size_t at = command.find(" " + name + " ");
  return at == std::string::npos ? 0 : std::stod(command.substr(at + name.size() + 2));
}

std::vector<int> tensor_split(const std::string& command) {
  std::vector<int> counts;
  std::size_t at = command.find(" -ts ");
  if (at == std::string::npos) return counts;
  at += 5;
  while (true) {
    std::size_t used = 0;
    counts.push_back(std::stoi(command.substr(at), &used));
    at += used;
    if (at >= command.size() || command[at] != ',') return counts;
    ++at;
  }
}

/// llama.cpp: -ncmoe N keeps the experts of layers 0 to N - 1 in the host's memory, whatever layers those
/// are; -ngl 99 has all else on the GPUs, but for the input embedding; -ts shares out layers and head by
/// number.
void check_llama_memory(const Advice& a, const AdviceRequest& q, const Architecture& stored) {
  const int on_cpu = static_cast<int>(flag(a.command, "-ncmoe"));
  double experts_in_host = 0, experts_on_gpu = 0, largest_layer = 0;
  std::vector<double> layers;
  for (std::size_t l = 0; l < stored.layers.size(); ++l) {
    const double rest = layer_non_routed_bytes(stored, stored.layers[l]).value();
    const double experts = layer_bytes(stored, stored.layers[l]).value() - rest;
    const bool in_host = static_cast<int>(l) < on_cpu;
    (in_host ? experts_in_host : experts_on_gpu) += experts;
    layers.push_back(rest + (in_host ? 0 : experts));
    largest_layer = std::max(largest_layer, layers.back());
  }
  CHECK(a.memory.gpu_experts == Approx(experts_on_gpu).margin(1));
  const double embedding =
      stored.embedding_copies > 1 ? embedding_weights(stored) * stored.stored.of(WeightPart::embedding) : 0;
  CHECK(a.memory.host == Approx(experts_in_host + embedding));
  CHECK(a.memory.gpu_weights ==
        Approx(non_expert_bytes(stored).value() - embedding + experts_on_gpu).epsilon(1e-9));
  CHECK(flag(a.command, "-ngl") == 99);
  if (q.machine.gpu->unified())
    CHECK(a.gpu_most + a.memory.host <= q.machine.ram->value());
  else
    CHECK(a.gpu_most <= q.machine.gpu->memory.value());
  CHECK(flag(a.command, "-c") == q.context * q.users);
  if (a.gpus <= 1) return;
  // Layer l of L + 1, the head among them, goes to the first GPU whose part of the sum exceeds l / (L + 1).
  const std::vector<int> counts = tensor_split(a.command);
  REQUIRE(counts.size() == static_cast<std::size_t>(a.gpus));
  CHECK(std::accumulate(counts.begin(), counts.end(), 0) == static_cast<int>(layers.size()) + 1);
  const double in_layers = std::accumulate(layers.begin(), layers.end(), 0.0);
  layers.push_back(a.memory.gpu_weights - in_layers);
  std::size_t l = 0;
  double most = 0;
  for (const int count : counts) {
    double bytes = (a.memory.gpu_reserve + a.memory.gpu_compute + a.memory.gpu_context) / a.gpus;
    for (int i = 0; i < count; ++i, ++l)
      bytes +=
          layers[l] + (l + 1 < layers.size() ? a.memory.gpu_kv / static_cast<double>(layers.size() - 1) : 0);
    most = std::max(most, bytes);
  }
  CHECK(most == Approx(a.gpu_most).epsilon(1e-6));
}

TEST_CASE("advice: flags take the memory that is stated", "[advise][plain]") {
  std::map<std::string, int> seen;
  for (const Pair& pair : pairs()) {
    AdviceRequest q = request_of(pair.model, pair.machine);
    q.prompt = 4096;
    for (const Advice& a : advise(q)) {
      INFO(pair.model << " on " << q.machine.title() << ": " << a.command);
      Architecture stored = q.model;
      stored.stored = stored_as(stored, a.weights);
      if (is_gguf_runtime(a.runtime)) {
        ++seen[a.split.cpu_only ? "cpu" : a.split.cpu_expert_layers > 0 ? "-ncmoe" : "whole"];
        if (!a.split.cpu_only) check_llama_memory(a, q, stored);
        CHECK(flag(a.command, "-ub") == a.micro_batch);
        // A logical batch of less than the micro-batch would cut it.
        CHECK(std::max(2048.0, flag(a.command, "-b")) >= a.micro_batch);
        seen["-ts"] += a.gpus > 1 ? 1 : 0;
      }
      if (a.runtime == "vllm" && a.gpus > 1) {
        ++seen["--tensor-parallel-size"];
        CHECK(flag(a.command, "--tensor-parallel-size") == a.gpus);
      }
      if (a.split.link_layers > 0) {
        ++seen["--cpu-offload-gb"];
        double bytes = 0;
        for (int l = 0; l < a.split.link_layers; ++l)
          bytes += layer_bytes(stored, stored.layers[static_cast<std::size_t>(l)]).value();
        const double stated = flag(a.command, "--cpu-offload-gb") * a.gpus * 0x1p30;
        CHECK((stated <= bytes && stated > bytes - a.gpus * 0.01 * 0x1p30 - 1));
      }
      if (a.runtime == "ktransformers") {
        ++seen["--kt-num-gpu-experts"];
        const double on_gpu = flag(a.command, "--kt-num-gpu-experts") / q.model.moe().experts;
        CHECK(a.memory.gpu_experts == Approx(on_gpu * routed_bytes(stored).value()));
      }
    }
  }
  for (const char* kind : {"-ncmoe", "whole", "cpu", "-ts", "--tensor-parallel-size", "--cpu-offload-gb",
                           "--kt-num-gpu-experts"}) {
    INFO(kind);
    CHECK(seen[kind] > 0);
  }
}

TEST_CASE("advice: -ncmoe counts dense layers too", "[advise]") {
  // DeepSeek-V3's first three layers are dense.
  AdviceRequest q = request_of("deepseek-v3", {.gpu = "rtx-5090-32gb", .cpu = "epyc-9355"});
  q.runtimes = {"llama.cpp-cuda"};
  for (const Advice& a : advise(q)) {
    REQUIRE(a.split.cpu_expert_layers > 0);
    CHECK(flag(a.command, "-ncmoe") == a.split.cpu_expert_layers + 3);
  }
}

TEST_CASE("advice: fastest first, and each way is of the runtimes and formats asked for", "[advise]") {
  AdviceRequest request = request_of("qwen3-30b-a3b", kDesktop);
  const std::vector<Advice> all = advise(request);
  for (std::size_t i = 1; i < all.size(); ++i) {
    CHECK(all[i].few_bits() >= all[i - 1].few_bits());
    if (!all[i].few_bits()) CHECK(all[i].decode_s >= all[i - 1].decode_s);
  }
  request.runtimes = {"llama.cpp-cuda"};
  request.weights = {"gguf-q8_0", "gguf-q4_k_m"};
  const std::vector<Advice> two = advise(request);
  REQUIRE(two.size() == 2);
  CHECK(two.front().weights == "gguf-q4_k_m");  // fits whole, Q8_0 does not
  CHECK(two.front().split == Split{});
  CHECK(two.back().split.cpu_expert_layers > 0);
}

TEST_CASE("advice: a range is that of the way's own kind", "[advise][plain]") {
  for (const Pair& pair : pairs()) {
    const AdviceRequest q = request_of(pair.model, pair.machine);
    for (const Advice& a : advise(q)) {
      INFO(a.command);
      AdviceGroup group = AdviceGroup::one_gpu;
      if (!q.machine.gpu || a.split.cpu_only)
        group = AdviceGroup::cpu_only;
      else if (a.memory.gpu_experts < routed_bytes([&] {
                                        Architecture m = q.model;
                                        m.stored = stored_as(m, a.weights);
                                        return m;
                                      }())
                                              .value() *
                                          (1 - 1e-9))
        group = AdviceGroup::experts_on_cpu;
      else if (a.gpus > 1)
        group = AdviceGroup::several_gpus;
      else if (q.machine.gpu->unified())
        group = AdviceGroup::unified;
      CHECK(a.error.group == group);
      CHECK((a.error.decode > 0 && a.error.prefill > 0));
    }
  }
}

TEST_CASE("advice: what cannot be tried is refused, and the rest is tried", "[advise]") {
  const auto refusal = [](AdviceRequest q, const std::string& runtime) {
    q.runtimes = {runtime};
    try {
      advise(q);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const AdviceRequest cpu = request_of("qwen3-30b-a3b", {.cpu = "ryzen-9-7950x"});
  for (const char* runtime : {"tensorrt-llm", "ktransformers", "vllm", "sglang", "mlx", "llama.cpp-cuda"})
    CHECK(refusal(cpu, runtime).find("needs a GPU") != std::string::npos);
  AdviceRequest apple = request_of("qwen3-30b-a3b", {.gpu = "apple-m4-max", .ram = "64 GiB"});
  for (const char* runtime : {"ktransformers", "vllm"})
    CHECK(refusal(apple, runtime).find("does not run on Apple") != std::string::npos);
  CHECK(refusal(apple, "llama.cpp-cpu").find("which CPU") != std::string::npos);
  CHECK(refusal(apple, "llama.cpp-metal").empty());
  apple.machine.ram.reset();
  CHECK(refusal(apple, "llama.cpp-metal").find("how much memory") != std::string::npos);
  // BF16 asks for AVX-512, a GGUF file does not; 32 heads do not divide by three.
  AdviceRequest desk = request_of("qwen3-30b-a3b", kDesktop);
  desk.machine.gpus = 3;
  desk.runtimes = {"ktransformers"};
  desk.weights = {"bf16", "gguf-q4_k_m"};
  const std::vector<Advice> ways = advise(desk);
  REQUIRE(ways.size() == 1);
  CHECK(ways.front().weights == "gguf-q4_k_m");
  CHECK(ways.front().gpus < 3);
}

TEST_CASE("advice: curves have every split that fits, and what is advised lies on its runtime's",
          "[advise]") {
  const AdviceRequest q =
      request_of("gpt-oss-120b", {.gpu = "rtx-3090-24gb", .cpu = "ryzen-9-7950x", .memory = "ddr5-6000 x 2"});
  const std::vector<Advice> list = advise(q);
  const std::vector<AdviceCurve> curves = decode_curves(q, list);
  CHECK(curves.size() == 4);
  for (const AdviceCurve& curve : curves) {
    const auto row =
        std::find_if(list.begin(), list.end(), [&](const Advice& a) { return a.runtime == curve.runtime; });
    REQUIRE(row != list.end());
    CHECK(std::any_of(curve.points.begin(), curve.points.end(), [&](const AdviceCurve::Point& p) {
      return p.split == row->split && p.decode_s == Approx(row->decode_s) &&
             p.gpu_expert_bytes == Approx(row->memory.gpu_experts).margin(1);
    }));
    for (std::size_t i = 1; i < curve.points.size(); ++i)
      CHECK(curve.points[i].gpu_expert_bytes >= curve.points[i - 1].gpu_expert_bytes);
  }
  // llama.cpp: experts of 36 layers, of which some fit, and the CPU alone.
  const auto llama = std::find_if(curves.begin(), curves.end(),
                                  [](const AdviceCurve& c) { return c.runtime == "llama.cpp-cuda"; });
  REQUIRE(llama != curves.end());
  CHECK(llama->points.size() > 10);
  CHECK(llama->points[0].split.cpu_only);
  CHECK(llama->points[1].split == Split{.cpu_expert_layers = 36});
}

TEST_CASE("advice: a dense model has whole layers on the CPU where it does not fit", "[advise]") {
  AdviceRequest q = request_of("qwen3-30b-a3b", kDesktop);
  for (Layer& layer : q.model.layers) {
    layer.feed_forward.kind = FeedForward::Kind::dense;
    layer.feed_forward.width = 120000;
    layer.feed_forward.shared_width = 0;
  }
  q.runtimes = {"llama.cpp-cuda"};
  q.weights = {"gguf-q8_0"};
  const std::vector<Advice> list = advise(q);
  REQUIRE(list.size() == 1);
  const Advice& a = list.front();
  const int layers = static_cast<int>(q.model.layers.size());
  REQUIRE((a.split.cpu_layers > 0 && a.split.cpu_layers < layers));
  // -ngl counts from the end, and the head as one.
  CHECK(flag(a.command, "-ngl") == layers + 1 - a.split.cpu_layers);
  const Runtime runtime = load_runtime("llama.cpp-cuda");
  Architecture stored = q.model;
  stored.stored = stored_as(stored, "gguf-q8_0");
  for (int n = 1; n < layers; ++n) {
    const ServingEstimate other(stored, q.machine, runtime, {.cpu_layers = n});
    if (other.impossible(q.context).empty())
      CHECK(a.request_s <=
            (other.prompt(q.prompt).total() + q.answer * other.decode(1, q.context).total()) * (1 + 1e-9));
  }
}

TEST_CASE("advice: a runtime of the CPU leaves the GPU alone", "[advise]") {
  AdviceRequest q = request_of("qwen3-30b-a3b", kDesktop);
  q.runtimes = {"llama.cpp-cpu"};
  for (const Advice& a : advise(q)) {
    CHECK(a.split == Split{.cpu_only = true});
    CHECK(a.memory.gpu() == 0);
    CHECK(a.command.find(" --device none") != std::string::npos);
  }
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

/// The best of all ways of four bits and more; infinite where there is none.
double least(const std::vector<Advice>& ways, double Advice::*what) {
  double best = kInfinity;
  for (const Advice& a : ways)
    if (!a.few_bits()) best = std::min(best, a.*what);
  return best;
}

// Fewer than four are not offered any more where a runtime has room for eight.
TEST_CASE("advice: with more memory no request takes longer, and none that is all answer decodes slower",
          "[advise][plain]") {
  std::vector<Pair> machines{
      {"mixtral-8x7b", {.gpu = "rtx-4070-12gb", .cpu = "ryzen-9-7950x"}},
      {"gpt-oss-120b", {.gpu = "radeon-8060s"}},
      {"mixtral-8x7b", {.cpu = "epyc-9355"}},
      {"qwen3-235b-a22b", {.gpu = "rtx-5090-32gb", .cpu = "ryzen-9-9950x", .memory = "ddr5-5600 x 2"}},
      {"glm-4.5-air", {.gpu = "rtx-3090-24gb", .cpu = "i9-14900K"}},
      {"qwen3-30b-a3b", {.gpu = "rtx-4090-24gb", .cpu = "i9-14900K"}},
      {"glm-4.5-air", {.gpu = "apple-m4-max"}}};
  if (test::kFewerRuns) machines.resize(3);  // one of each kind
  const std::vector<int> all_sizes{16, 24, 32, 40, 48, 64, 80, 96, 112, 128, 160, 192, 256};
  const std::vector<int> sizes = test::kFewerRuns ? std::vector<int>{32, 96, 256} : all_sizes;  // GiB
  for (const Pair& pair : machines)
    for (const double prompt : {1.0, 8000.0}) {
      double request_s = kInfinity, decode_s = kInfinity;
      int fitting = 0;
      for (const int gib : sizes) {
        MachineText text = pair.machine;
        text.ram = std::to_string(gib) + " GiB";
        AdviceRequest q = request_of(pair.model, text);
        q.prompt = prompt;
        q.context = 16384;
        const std::vector<Advice> ways = find_ways(q).ways;
        CAPTURE(pair.model, q.machine.title(), gib, prompt);
        if (fitting > 0) REQUIRE_FALSE(ways.empty());
        if (ways.empty()) continue;
        ++fitting;
        const double request = least(ways, &Advice::request_s), decode = least(ways, &Advice::decode_s);
        CHECK(request <= request_s * (1 + 1e-9));
        // A longer prompt may be worth slower tokens, where the request is done sooner.
        if (prompt == 1) CHECK(decode <= decode_s * (1 + 1e-9));
        request_s = request, decode_s = decode;
      }
      CHECK(fitting > (test::kFewerRuns ? 0 : 1));
    }
}

TEST_CASE("advice: of fewer bits the most that have room and the fastest, behind all of four",
          "[advise][plain]") {
  AdviceRequest q =
      request_of("qwen3-235b-a22b", {.gpu = "rtx-5090-32gb", .cpu = "ryzen-9-9950x", .ram = "128 GiB"});
  const std::vector<Advice> ways = find_ways(q).ways;
  REQUIRE_FALSE(ways.front().few_bits());
  std::vector<std::string> few, smaller;
  for (const Advice& a : ways) {
    if (a.runtime != "llama.cpp-cuda") continue;
    if (a.few_bits()) few.push_back(a.weights);
    if (!a.few_bits() && a.weight_bits < 4.7) smaller.push_back(a.weights);
  }
  CHECK(few == std::vector<std::string>{"gguf-q3_k_m", "gguf-iq2_xxs"});
  CHECK(smaller == std::vector<std::string>{"gguf-iq4_xs", "gguf-q4_k_s"});
  // What is asked for is all that there is, the fastest first.
  q.weights = {"gguf-q3_k_m", "gguf-q2_k"};
  q.runtimes = {"llama.cpp-cuda"};
  const std::vector<Advice> asked = find_ways(q).ways;
  REQUIRE(asked.size() == 2);
  CHECK(asked.front().weights == "gguf-q2_k");
  // On a GPU that holds four bits there is nothing to gain that is worth it, however small the host.
  q = request_of("qwen3-30b-a3b", {.gpu = "rtx-4090-24gb", .cpu = "i9-14900K", .ram = "8 GiB"});
  for (const Advice& a : find_ways(q).ways) CHECK_FALSE(a.few_bits());
}

TEST_CASE("advice: KTransformers gets the GGUF files that its kernels read", "[advise]") {
  AdviceRequest q =
      request_of("qwen3-30b-a3b", {.gpu = "rtx-4090-24gb", .cpu = "ryzen-9-7950x", .ram = "96 GiB"});
  q.runtimes = {"ktransformers"};
  const auto runs = [&](const std::string& weights) {
    q.weights = {weights};
    try {
      return !find_ways(q).ways.empty();
    } catch (const InputError& error) {
      CHECK(std::string(error.what()).find("does not run weights in " + weights) != std::string::npos);
      return false;
    }
  };
  // set_mul_mat() of its llamafile has kernels for Q2_K to Q6_K, IQ4_XS and Q4_0 to Q5_1, its tinyBLAS for
  // Q8_0.
  for (const char* weights : {"gguf-q4_k_m", "gguf-q8_0", "gguf-q2_k", "gguf-iq4_xs", "gguf-q4_0"})
    CHECK(runs(weights));
  // Issues 1884 (IQ4_NL) and 1856 (TQ1, UD); what ik_llama.cpp alone reads; types without a kernel there.
  for (const char* weights : {"gguf-iq4_nl", "gguf-tq1_0", "gguf-q4_k_xl", "gguf-iq4_kss", "gguf-iq4_kt",
                              "gguf-iq2_k", "gguf-iq1_s", "gguf-iq3_xxs", "gguf-mxfp4"})
    CHECK_FALSE(runs(weights));
  // Experts of 1408 values are no multiple of 256: GLM-4.5-Air's files do not load (issue 1655).
  q = request_of("glm-4.5-air", {.gpu = "rtx-3090-24gb", .cpu = "i9-14900K", .ram = "128 GiB"});
  const AdviceList air = find_ways(q);
  const auto out = std::find_if(air.left_out.begin(), air.left_out.end(),
                                [](const auto& o) { return o.runtime == "ktransformers"; });
  REQUIRE(out != air.left_out.end());
  q.runtimes = {"ktransformers"}, q.weights = {"gguf-q4_k_m"};
  CHECK_THROWS_WITH(find_ways(q), Catch::Contains("multiple of 256") && Catch::Contains("1408"));
}

TEST_CASE("advice: a way with an open fault says so, and comes behind one without that is within its range",
          "[advise][plain]") {
  int with = 0;
  for (const char* cpu : {"epyc-9355", "epyc-9654", "i9-14900K"})
    for (const char* gpu : {"rtx-3090-24gb", "rtx-5090-32gb"}) {
      AdviceRequest q = request_of("deepseek-r1", {.gpu = gpu, .cpu = cpu, .ram = "1024 GiB"});
      const std::vector<Advice> ways = find_ways(q).ways;
      for (const Advice& a : ways) {
        CHECK(a.caveat.empty() == !(a.runtime == "ktransformers" && a.weights.starts_with("gguf")));
        with += a.caveat.empty() ? 0 : 1;
        if (!a.caveat.empty()) CHECK(a.caveat.find("issue 1655") != std::string::npos);
        const Advice& first = ways.front();
        if (!first.caveat.empty() && a.caveat.empty() && !a.few_bits())
          CHECK(a.decode_s > first.decode_s * (1 + first.error.decode));
      }
    }
  CHECK(with > 0);
  const AdviceRequest other = request_of("qwen3-30b-a3b", {.gpu = "rtx-3090-24gb", .cpu = "ryzen-9-7950x"});
  for (const Advice& a : find_ways(other).ways) CHECK(a.caveat.empty());
}

TEST_CASE("advice: a long prompt is worth a larger micro-batch where the request is done sooner",
          "[advise]") {
  AdviceRequest q = request_of("glm-4.5-air", {.gpu = "rtx-3090-24gb", .cpu = "i9-14900K", .ram = "128 GiB"});
  q.runtimes = {"llama.cpp-cuda"}, q.weights = {"gguf-q5_k_m"};
  q.prompt = 8000, q.context = 16384;
  const Advice whole = advise(q).front();
  q.prompt = 1;
  const Advice answer = advise(q).front();
  CHECK(whole.micro_batch > answer.micro_batch);
  CHECK(whole.decode_s >= answer.decode_s);
  // By hand: the prompt in the micro-batch and at the place that an answer alone would choose.
  Architecture stored = q.model;
  stored.stored = stored_as(stored, "gguf-q5_k_m");
  const ServingEstimate other(stored, q.machine, load_runtime("llama.cpp-cuda"), answer.split);
  CHECK(whole.request_s < other.prompt(8000, answer.micro_batch).total() + q.answer * answer.decode_s);
}

const PolicyTrial& trial_of(const PolicyTrials& trials, const std::string& system) {
  const auto found = std::find_if(trials.rows.begin(), trials.rows.end(),
                                  [&](const PolicyTrial& t) { return t.system == system; });
  REQUIRE(found != trials.rows.end());
  return *found;
}

TEST_CASE("policies: llama.cpp's own split, simulated, takes what advice says of it", "[advise]") {
  MachineText text = kDesktop;
  text.ram = "96 GiB";
  AdviceRequest q = request_of("qwen3-30b-a3b", text);
  q.runtimes = {"llama.cpp-cuda"};
  q.weights = {"gguf-q8_0"};
  const std::vector<Advice> list = advise(q);
  const PolicyTrials trials = try_policies(q, text, list.front());
  REQUIRE(trials.why_none.empty());
  CHECK(trials.runtime == "llama.cpp-cuda");
  CHECK(trials.weights == "gguf-q8_0");
  const PolicyTrial& same = trial_of(trials, "llama-cpp");
  REQUIRE(same.why_not.empty());
  // A layer more or less, as staging and the split's rounding have it: 48 layers of about 0.6 GB.
  CHECK(same.tpot_s == Approx(list.front().decode_s).epsilon(0.06));
  // BF16 planes are not what these weights are.
  CHECK(trial_of(trials, "zipmoe-gpu").why_not.find("weights: bf16") != std::string::npos);
  CHECK(trial_of(trials, "smoe").substituted > 0);
  CHECK(trial_of(trials, "fiddler").substituted == 0);
  for (std::size_t i = 1; i < trials.rows.size(); ++i)
    if (trials.rows[i].why_not.empty()) CHECK(trials.rows[i].tpot_s >= trials.rows[i - 1].tpot_s);
}

TEST_CASE("policies: where there is nothing to decide they say so", "[advise]") {
  AdviceRequest q = request_of("qwen3-30b-a3b", kDesktop);
  q.weights = {"gguf-q4_k_m"};
  q.runtimes = {"llama.cpp-cuda"};
  const PolicyTrials fits = try_policies(q, kDesktop, advise(q).front());
  CHECK(fits.rows.empty());
  CHECK(fits.why_none.find("all experts are in the GPU's memory") != std::string::npos);
  const MachineText board{.gpu = "jetson-agx-orin-64gb", .ram = "64 GiB"};
  const AdviceRequest unified = request_of("qwen3-30b-a3b", board);
  CHECK(
      try_policies(unified, board, advise(unified).front()).why_none.find("all experts are in the memory") !=
      std::string::npos);
  q.weights = {"gguf-q8_0"};
  q.users = 9;
  const PolicyTrials many = try_policies(q, kDesktop, advise(q).front());
  CHECK(many.why_none.find("whole numbers of users, up to 8") != std::string::npos);
}

TEST_CASE("policies: what fits in no way is simulated from the SSD", "[advise]") {
  const MachineText board{.gpu = "jetson-agx-orin-32gb", .ram = "32 GiB", .ssd = "pcie4-x4"};
  AdviceRequest q = request_of("mixtral-8x7b", board);
  q.weights = {"gguf-q8_0"};
  CHECK(find_ways(q).ways.empty());
  CHECK(find_ways(q).lacks.find("memory needs") != std::string::npos);
  const Advice base = nearest_to_fitting(q);
  CHECK(base.weights == "gguf-q8_0");
  const PolicyTrials trials = try_policies(q, board, base);
  REQUIRE(trials.why_none.empty());
  const PolicyTrial& disk = trial_of(trials, "accelerate");
  REQUIRE(disk.why_not.empty());
  // It keeps no expert: two of 32 layers come from the SSD for each token.
  Architecture stored = q.model;
  stored.stored = stored_as(stored, "gguf-q8_0");
  const double bytes = 32 * 2 * expert_bytes(stored).value();
  CHECK(disk.tpot_s >= bytes / find_ssd("pcie4-x4").read.value());
  CHECK(trial_of(trials, "moe-infinity").tpot_s < disk.tpot_s);
}

}  // namespace
}  // namespace moelab::advice_test

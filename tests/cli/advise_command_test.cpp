// moelab advise: machines as maps, files and flags, the picture, policies, and what it says to bad input.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <set>
#include <string>

#include "models/json.hpp"
#include "tests/cli/program_checks.hpp"
#include "tests/cli/run_program.hpp"
#include "tests/cli/xml_document.hpp"
#include "tests/scratch_folder.hpp"
#include "tests/traces/trace_files.hpp"

namespace moelab::advise_command_test {
namespace {

using nlohmann::json;

const std::string kMachine = "{gpu: rtx-3090-24gb, cpu: i9-14900K, memory: ddr5-6000 x 2, ram: 96 GiB}";

ProgramResult advise(std::vector<std::string> options, const std::string& model = "gpt-oss-120b") {
  std::vector<std::string> arguments{"advise", "--model", model};
  arguments.insert(arguments.end(), options.begin(), options.end());
  return run_program(MOELAB_PROGRAM, arguments);
}

json advised(std::vector<std::string> options, const std::string& model = "gpt-oss-120b") {
  options.insert(options.end(), {"--format", "json"});
  const ProgramResult result = advise(options, model);
  INFO(result.err);
  REQUIRE(result.status == 0);
  return json::parse(result.out);
}

}  // namespace

TEST_CASE("advise: help shows each way to say a machine, and the picture") {
  const ProgramResult help = run_program(MOELAB_PROGRAM, {"advise", "--help"});
  CHECK(help.status == 0);
  CHECK(contains(help.out, "Example:\n  moelab advise "));
  for (const char* option : {" --machine '{gpu: ", " --plot advice.svg", " --gpu ", " --no-policies"})
    CHECK(contains(help.out.substr(help.out.find("Example:")), option));
}

TEST_CASE("advise: a machine as a map, as a file and by flags is one machine", "[plain]") {
  const json by_map = advised({"--machine", kMachine, "--no-policies"});
  CHECK(by_map["machine"] == "NVIDIA GeForce RTX 3090, Intel Core i9-14900K, ddr5 of 96 GB/s");
  test::ScratchFolder folder;
  const std::string file = (folder / "desk.yaml").string();
  std::ofstream(file) << "gpu: rtx-3090-24gb\ncpu: i9-14900K\nmemory: ddr5-6000 x 2\nram: 96 GiB\n";
  CHECK(advised({"--machine", file, "--no-policies"}) == by_map);
  CHECK(advised({"--gpu", "rtx-3090-24gb", "--cpu", "i9-14900K", "--memory", "ddr5-6000 x 2", "--ram",
                 "96 GiB", "--no-policies"}) == by_map);
  // A flag goes before what the map says.
  const json other = advised({"--machine", kMachine, "--gpu", "rtx-5090-32gb", "--no-policies"});
  CHECK(contains(other["machine"], "RTX 5090"));
  CHECK(contains(other["machine"], "i9-14900K"));
  CHECK(other["ways"][0]["cpu_expert_layers"] < by_map["ways"][0]["cpu_expert_layers"]);
}

TEST_CASE("advise: rows are whole, fastest first, with bounds, ranges and commands") {
  const json ways = advised({"--machine", kMachine, "--no-policies"})["ways"];
  REQUIRE(ways.size() == 3);  // llama.cpp, its fork and vLLM
  double before = 1e9;
  for (const json& way : ways) {
    const double decode = way["decode_tokens_per_s"];
    CHECK(decode <= before);
    before = decode;
    for (const char* kind : {"decode", "prompt"}) {
      const double speed = way[std::string(kind) + "_tokens_per_s"];
      const json& range = way[std::string(kind) + "_range"];
      CHECK(range["low"].get<double>() == Approx(speed / (1 + range["share"].get<double>())));
      CHECK(range["high"].get<double>() == Approx(speed * (1 + range["share"].get<double>())));
    }
    CHECK(way["group"] == "experts on the CPU");
    CHECK(!way["bound"].get<std::string>().empty());
    CHECK(!way["prompt_bound"].get<std::string>().empty());
  }
  // All 36 layers have experts, so -ncmoe counts the same.
  const std::string layers = ways[0]["cpu_expert_layers"].dump();
  CHECK(contains(ways[0]["command"], " -ncmoe " + layers + " "));
  const ProgramResult table = advise({"--machine", kMachine, "--no-policies"});
  CHECK(contains(table.out, "fastest is ik_llama.cpp (CUDA) with gguf-mxfp4"));
  CHECK(contains(table.out, "experts of " + layers + " of 36 layers on the CPU"));
  for (const json& way : ways) CHECK(contains(table.out, "\n" + way["command"].get<std::string>() + "\n"));
}

TEST_CASE("advise: several GPUs show who has what", "[plain]") {
  const std::string two = "{gpu: rtx-3090-24gb, gpus: 2, cpu: i9-14900K, ram: 128 GiB}";
  const json ways = advised({"--machine", two, "--no-policies"}, "glm-4.5-air")["ways"];
  int shared = 0, own = 0;
  for (const json& way : ways) {
    if (contains(way["command"], "--tensor-parallel-size 2")) {
      ++shared;
      CHECK(contains(way["where"], "2 GPUs"));
    }
    if (!contains(way["command"], " -sm layer -ts ")) continue;
    ++own;
    // 46 layers and the head.
    CHECK(way["layers_a_gpu"][0].get<int>() + way["layers_a_gpu"][1].get<int>() == 47);
    CHECK(way["fullest_gpu_bytes"].get<double>() <= 24 * 0x1p30);
  }
  CHECK(shared > 0);
  CHECK(own >= 4);
}

TEST_CASE("advise: the shorter the answer, the more a faster prompt is worth") {
  const auto with_answer = [](const std::string& tokens) {
    return advised({"--machine", kMachine, "--no-policies", "--runtime", "llama.cpp-cuda", "--prompt", "2048",
                    "--context", "16384", "--answer", tokens})["ways"][0];
  };
  const json shorter = with_answer("10"), longer = with_answer("200000");
  CHECK(shorter["prompt_s"] < longer["prompt_s"]);
  CHECK(shorter["micro_batch"] > longer["micro_batch"]);
  CHECK(shorter["decode_tokens_per_s"] < longer["decode_tokens_per_s"]);
  for (const auto& [way, tokens] : {std::pair(shorter, 10.0), {longer, 2e5}})
    CHECK(way["request_s"].get<double>() ==
          Approx(way["prompt_s"].get<double>() + tokens / way["decode_tokens_per_s"].get<double>()));
}

TEST_CASE("advise: the first sentence says at which context, and compares four bits with fewer", "[plain]") {
  const std::vector<std::string> desk{"--gpu",     "rtx-5090-32gb", "--cpu",        "ryzen-9-9950x",
                                      "--ram",     "96 GiB",        "--prompt",     "8000",
                                      "--context", "32000",         "--no-policies"};
  const ProgramResult table = advise(desk, "qwen3-235b-a22b");
  REQUIRE(table.status == 0);
  const std::string first = table.out.substr(0, table.out.find("\n\n"));
  const auto said = [&](std::string what) {
    std::string words = first;
    std::replace(words.begin(), words.end(), '\n', ' ');
    return contains(words, what);
  };
  CHECK(said("fastest with 4 bits and more is "));
  CHECK(said(" with 32000 tokens of context filled"));
  CHECK(said("With fewer bits, whose answers are worse, it is ik_llama.cpp (CUDA) with gguf-q3_k_m, "));
  CHECK(contains(table.out, "Quality: below 4 bits"));
  CHECK(contains(table.out, "  -ub  "));
  CHECK(
      contains(table.out, "\n# llama.cpp (CUDA), gguf-q3_k_m\nllama-server -m qwen3-235b-a22b-Q3_K_M.gguf "));
}

TEST_CASE("advise: of two builds of one program with one speed the ranges, it is said that it is not known") {
  const ProgramResult table = advise({"--gpu", "radeon-8060s", "--ram", "128 GiB", "--no-policies"});
  REQUIRE(table.status == 0);
  CHECK(contains(table.out, "with the same weights is not known"));
  CHECK(contains(table.out, "\n# llama.cpp (ROCm), gguf-mxfp4\nllama-server "));
  CHECK(contains(table.out, "\n# llama.cpp (Vulkan), gguf-mxfp4\nllama-server "));
}

TEST_CASE("advise: as Markdown") {
  const ProgramResult page = advise({"--machine", kMachine, "--no-policies", "--format", "markdown"});
  REQUIRE(page.status == 0);
  CHECK(contains(page.out, "\n| runtime | weights | where |"));
  CHECK(contains(page.out, "\n```text\n# "));
}

TEST_CASE("advise: where a KV cache of half the size would have room for four bits, it says so", "[plain]") {
  // 46 layers of 8 key-value heads of 128: 188,416 bytes a token in 16 bits, 12.3 GB for 65,536 tokens.
  std::string said;
  for (int gib = 72; gib <= 120 && said.empty(); gib += 4) {
    const json all = advised({"--gpu", "apple-m4-max", "--ram", std::to_string(gib) + " GiB", "--context",
                              "65536", "--runtime", "llama.cpp-metal", "--no-policies"},
                             "glm-4.5-air");
    if (!all.contains("four_bits_with_q8_0_cache")) continue;
    said = all["four_bits_with_q8_0_cache"];
    CHECK(all.contains("lacks_of_four_bits"));
    const std::vector<std::string> asked{
        "--gpu",         "apple-m4-max", "--ram",     std::to_string(gib) + " GiB",
        "--context",     "65536",        "--runtime", "llama.cpp-metal",
        "--no-policies", "--weights",    said};
    CHECK(advise(asked, "glm-4.5-air").status == 1);
    std::vector<std::string> half = asked;
    half.insert(half.end(), {"--kv", "q8_0"});
    CHECK(advise(half, "glm-4.5-air").status == 0);
  }
  CHECK_FALSE(said.empty());
}

TEST_CASE("advise: slips of what is asked for have a hint", "[plain]") {
  check_refusal(advise({"--machine", kMachine, "--prompt", "8k"}), "8k: write 8000");
  for (const char* name : {"ollama", "lmstudio", "LM-Studio"})
    check_refusal(advise({"--machine", kMachine, "--runtime", name}),
                  "it has llama.cpp in it, which is 'llama.cpp-cuda' here");
  check_refusal(advise({"--machine", kMachine, "--plot", "a.png"}), "expected a file that ends in .svg");
  // What nothing fits with is said by runtime and weights.
  check_refusal(
      advise({"--machine", "{gpu: rtx-3090-24gb, cpu: i9-14900K, ram: 16 GiB}", "--no-policies"}),
      "does not fit in any way that was tried: llama.cpp-cuda with gguf-mxfp4: the host's memory needs", 1);
}

TEST_CASE("advise: KTransformers' kernels for weights that are no GGUF file ask for AVX-512", "[plain]") {
  const auto advised_on = [](const std::string& cpu) {
    const json all =
        advised({"--machine", "{gpu: rtx-3090-24gb, cpu: " + cpu + ", ram: 96 GiB}", "--no-policies"});
    std::set<std::string> names;
    for (const json& way : all["ways"]) names.insert(way["runtime"]);
    return names;
  };
  CHECK(advised_on("ryzen-9-7950x").contains("ktransformers"));
  CHECK_FALSE(advised_on("i9-14900K").contains("ktransformers"));
  const json left_out = advised({"--machine", kMachine, "--no-policies"})["left_out"];
  REQUIRE(left_out.size() >= 1);
  CHECK(left_out[0]["runtime"] == "ktransformers");
  CHECK(contains(left_out[0]["why_not"], "AVX-512"));
  CHECK_FALSE(advised_on("ryzen-9-5950x").contains("ktransformers"));
  const json ways = advised({"--machine", "{gpu: rtx-3090-24gb, cpu: ryzen-9-7950x, ram: 96 GiB}",
                             "--no-policies", "--runtime", "ktransformers"})["ways"];
  CHECK(contains(ways[0]["command"], " --kt-method MXFP4 --kt-weight-path openai/gpt-oss-120b "));
  const ProgramResult asked = advise({"--machine", kMachine, "--runtime", "ktransformers"});
  CHECK(asked.status == 2);
  CHECK(
      contains(asked.err,
               "'ktransformers' computes weights in mxfp4 with AVX-512, which Intel Core i9-14900K has not"));
}

TEST_CASE("advise: a KV cache of fewer bits leaves more to experts, where the runtime has it", "[plain]") {
  const std::string machine = "{gpu: rtx-4090-24gb, cpu: ryzen-9-7950x, ram: 96 GiB}";
  const auto way = [&](const std::string& kv) {
    return advised({"--machine", machine, "--no-policies", "--runtime", "llama.cpp-cuda", "--weights",
                    "gguf-q4_k_m", "--context", "131072", "--kv", kv},
                   "qwen3-30b-a3b")["ways"][0];
  };
  const json plain = way("fp16"), eight = way("q8_0");
  CHECK(eight["decode_tokens_per_s"] > plain["decode_tokens_per_s"]);
  CHECK(eight["cpu_expert_layers"] < plain["cpu_expert_layers"]);
  CHECK_FALSE(contains(plain["command"], "-ctk"));
  CHECK(contains(eight["command"], " -ctk q8_0 -ctv q8_0 "));
  const json served =
      advised({"--machine", machine, "--no-policies", "--kv", "fp8"}, "qwen3-30b-a3b")["ways"];
  for (const json& row : served) CHECK(contains(row["command"], " --kv-cache-dtype fp8 "));
  CHECK_FALSE(served.empty());
  const ProgramResult none =
      advise({"--machine", machine, "--runtime", "vllm", "--kv", "q8_0"}, "qwen3-30b-a3b");
  CHECK(none.status == 2);
  CHECK(contains(none.err, "'vllm' does not cache keys and values in q8_0"));
  const ProgramResult unknown = advise({"--machine", machine, "--kv", "q9_0"});
  CHECK(unknown.status == 2);
  CHECK(contains(unknown.err, "did you mean 'q8_0'"));
}

TEST_CASE("advise: the picture has a curve for each runtime and marks what is advised") {
  test::ScratchFolder folder;
  const std::string picture = (folder / "advice.svg").string();
  const std::string machine = "{gpu: rtx-3090-24gb, cpu: ryzen-9-7950x, memory: ddr5-6000 x 2, ram: 96 GiB}";
  const ProgramResult drawn = advise({"--machine", machine, "--no-policies", "--plot", picture});
  CAPTURE(drawn.err);
  REQUIRE(drawn.status == 0);
  CHECK(contains(drawn.out, "picture: " + picture + "\n"));
  const std::string svg = test::read_bytes(picture);
  const test::Element root = test::parse_xml(svg);
  CHECK(root.tag == "svg");
  // Four runtimes, for two of them the CPU alone, and the advice.
  CHECK(root.all("g", "series").size() == 7);
  const json ways = advised({"--machine", machine, "--no-policies", "--runtime", "llama.cpp-cuda"})["ways"];
  const std::string layers = "-ncmoe " + ways[0]["cpu_expert_layers"].dump();
  for (const std::string text :
       {"llama.cpp-cuda", "ktransformers", "vllm", "advised", "GPU memory given to experts", layers.c_str()})
    CHECK(contains(svg, text));
}

TEST_CASE("advise: policies are simulated, and what cannot be says why", "[plain]") {
  const json all = advised({"--machine", kMachine});
  const json& policies = all["policies"];
  CHECK(policies["simulated"] == true);
  CHECK(policies["routing"] == "synthetic");
  CHECK(policies["runtime"] == all["ways"][0]["runtime"]);
  CHECK(policies["why_none"].is_null());
  int ran = 0, left_out = 0;
  for (const json& row : policies["systems"]) {
    if (row.contains("why_not")) {
      ++left_out;
      CHECK(!row.contains("tpot_s"));
      continue;
    }
    ++ran;
    CHECK(row["tokens_per_s_a_user"].get<double>() == Approx(1 / row["tpot_s"].get<double>()));
  }
  CHECK(ran >= 6);
  CHECK(left_out >= 1);  // ZipMoE's planes are of BF16 weights
  const ProgramResult table = advise({"--machine", kMachine});
  CHECK(contains(table.out, "What other policies would do, simulated on " +
                                policies["runtime"].get<std::string>() +
                                " with gguf-mxfp4 under synthetic routing"));
  CHECK(contains(table.out, "left out: zipmoe-gpu: "));
  // What is not known says so.
  CHECK(contains(table.out, "\nTTFT -: not known, since a prompt's time is that of the experts that"));
  CHECK_FALSE(advised({"--machine", kMachine, "--no-policies"}).contains("policies"));
}

TEST_CASE("advise: what of the memory is used is said, and a budget leaves out what takes more", "[plain]") {
  const std::vector<std::string> board{"--gpu", "jetson-orin-nx-16gb", "--ram", "16 GB", "--no-policies"};
  std::vector<std::string> limited = board;
  limited.insert(limited.end(), {"--budget", "12 GB"});
  const json all = advised(board, "deepseek-v2-lite"), less = advised(limited, "deepseek-v2-lite");
  CHECK(all["usable_ram_bytes"] == 13e9);
  CHECK_FALSE(all.contains("budget_bytes"));
  CHECK(less["budget_bytes"] == 12e9);
  const auto of_driver = [](const json& way) {
    return way["gpu_context_bytes"].get<double>() + way["gpu_reserve_bytes"].get<double>();
  };
  const auto most = [&](const json& list, double beside) {
    double bytes = 0;
    for (const json& way : list["ways"])
      bytes = std::max(
          bytes, way["gpu_bytes"].get<double>() + way["host_bytes"].get<double>() - beside * of_driver(way));
    return bytes;
  };
  CHECK(most(all, 1) > 12e9);
  CHECK(most(all, 0) <= 13e9);
  CHECK(most(less, 1) <= 12e9);
  const ProgramResult table = advise(limited, "deepseek-v2-lite");
  CHECK(contains(table.out,
                 "Memory: of the host's 16 GB, 3 GB are kept for the operating system and other programs"));
  CHECK(contains(table.out, ", 13 GB may be used. The budget of the host's memory is 12 GB."));
  // On a card of its own memory it says nothing of what the CPU serves from the host's.
  CHECK(advise({"--gpu", "rtx-3090-24gb", "--cpu", "i9-14900K", "--ram", "96 GiB", "--runtime",
                "llama.cpp-cpu", "--no-policies", "--budget", "4 GB"})
            .status == 0);
  // vLLM is told of it: 12 GB and what it holds beside of 25.77 GB.
  const json told = advised(
      {"--gpu", "rtx-3090-24gb", "--runtime", "vllm", "--no-policies", "--budget", "12 GB"}, "olmoe-1b-7b");
  const double beside = of_driver(told["ways"][0]);
  CHECK(contains(told["ways"][0]["command"],
                 " --gpu-memory-utilization 0." +
                     std::to_string(static_cast<int>(100 * (12e9 + beside) / (24 * 0x1p30)))));
  check_refusal(advise({"--gpu", "rtx-3090-24gb", "--budget", "26 GB"}),
                "is more than the GPU has to give: 25.76 GB");
  check_refusal(advise({"--gpu", "rtx-3090-24gb", "--budget", "12"}), "--budget 12: expected ");
  check_refusal(advise({"--gpu", "rtx-3090-24gb", "--budget", "0 GB"}), "expected a size above 0");
}

TEST_CASE("advise: what no runtime has memory for, policies may serve from the SSD", "[plain]") {
  const std::vector<std::string> board{"--machine", "{gpu: jetson-agx-orin-32gb, ram: 32 GiB, ssd: pcie4-x4}",
                                       "--weights", "gguf-q8_0"};
  const json all = advised(board, "mixtral-8x7b");
  CHECK(all["ways"].empty());
  CHECK(contains(all["lacks"], "the host's memory needs"));
  CHECK(all["policies"]["systems"][0].contains("tpot_s"));
  std::vector<std::string> without = board;
  without.emplace_back("--no-policies");
  check_refusal(advise(without, "mixtral-8x7b"), "does not fit in any way", 1);
  test::ScratchFolder folder;
  std::vector<std::string> drawn = board;
  drawn.insert(drawn.end(), {"--plot", (folder / "a.svg").string()});
  check_refusal(advise(drawn, "mixtral-8x7b"), "--plot: draws what runtimes offer");
  CHECK(folder.names().empty());
}

TEST_CASE("advise: where a CPU could serve what the GPU has no room for, it asks for one", "[plain]") {
  const std::vector<std::string> no_cpu{"--gpu", "rtx-4070-12gb", "--memory",  "ddr5",
                                        "--ram", "32 GB",         "--weights", "gguf-q4_k_m"};
  const ProgramResult simulated = advise(no_cpu, "qwen3-30b-a3b");
  CAPTURE(simulated.err);
  REQUIRE(simulated.status == 0);
  const std::string first = simulated.out.substr(0, simulated.out.find('\n'));
  CHECK(contains(first, "no CPU is named"));
  CHECK(contains(first, "--cpu NAME (`moelab parts` lists them)"));
  // Beside fewer bits, which have room, it is said of four.
  const ProgramResult fewer = advise(
      {"--gpu", "rtx-4070-12gb", "--memory", "ddr5", "--ram", "32 GB", "--no-policies"}, "qwen3-30b-a3b");
  CHECK(contains(fewer.out, "No weights of 4 bits and more have room: no CPU is named"));
  // 30.5 billion weights of four bits and more are not in 12.9 GB and 2 GB.
  const ProgramResult small =
      advise({"--gpu", "rtx-4070-12gb", "--ram", "5 GB", "--no-policies", "--weights", "gguf-q4_k_m"},
             "qwen3-30b-a3b");
  check_refusal(small, "does not fit in any way", 1);
  CHECK_FALSE(contains(small.err, "no CPU is named"));
  // SGLang and TensorRT-LLM keep all of a model on GPUs.
  for (const char* runtime : {"sglang", "tensorrt-llm"}) {
    const ProgramResult whole =
        advise({"--gpu", "rtx-4090-24gb", "--runtime", runtime, "--no-policies"}, "deepseek-v3");
    CHECK(whole.status != 0);
    CHECK_FALSE(contains(whole.err + whole.out, "no CPU is named"));
  }
}

TEST_CASE("advise: vLLM's V1 engine is started as vLLM is") {
  const auto command = [](const std::string& runtime, const std::vector<std::string>& more) {
    std::vector<std::string> all{"--runtime", runtime, "--weights", "bf16", "--no-policies"};
    all.insert(all.end(), more.begin(), more.end());
    return advised(all, "qwen3-30b-a3b")["ways"][0]["command"].get<std::string>();
  };
  CHECK(command("vllm-v1", {"--gpu", "h100-80gb"}) == "vllm serve Qwen/Qwen3-30B-A3B --max-model-len 4096");
  CHECK(contains(command("vllm-v1", {"--gpu", "rtx-4090-24gb", "--cpu", "i9-14900K"}), " --cpu-offload-gb "));
  CHECK(contains(command("vllm-v1", {"--gpu", "h100-80gb", "--kv", "fp8"}), " --kv-cache-dtype fp8 "));
}

TEST_CASE("advise: other servers are told the context, the users and the GPUs, by flags that they have") {
  const auto command = [](const std::string& model, const std::vector<std::string>& more) {
    std::vector<std::string> all{"--no-policies", "--prompt", "6000", "--users", "4"};
    all.insert(all.end(), more.begin(), more.end());
    const json ways = advised(all, model)["ways"];
    REQUIRE(!ways.empty());
    return ways[0]["command"].get<std::string>();
  };
  // TensorRT-LLM's page of trtllm-serve; mlc-llm's python/mlc_llm/cli/serve.py; mlx-lm's mlx_lm/server.py,
  // which has no flag for the context. 6000 tokens and an answer of 1024 are 7024: 7 x 1024.
  CHECK(command("qwen3-30b-a3b",
                {"--gpu", "h100-80gb", "--gpus", "2", "--runtime", "tensorrt-llm", "--weights", "bf16"}) ==
        "trtllm-serve Qwen/Qwen3-30B-A3B --tp_size 2 --max_batch_size 4 --max_seq_len 7168");
  const std::string mlc =
      command("olmoe-1b-7b", {"--gpu", "rtx-3090-24gb", "--runtime", "mlc", "--weights", "q4f16_1"});
  CHECK(mlc == "mlc_llm serve olmoe-1b-7b-q4f16_1 --overrides 'context_window_size=7168;max_num_sequence=4'");
  const std::string mlx = command("olmoe-1b-7b", {"--gpu", "apple-m4-max", "--ram", "64 GiB", "--runtime",
                                                  "mlx", "--weights", "mlx-4bit"});
  CHECK(mlx.starts_with("mlx_lm.server --model olmoe-1b-7b-mlx-4bit --decode-concurrency 4  # "));
  CHECK(contains(mlx, "no flag for the context"));
  CHECK(contains(mlx, " 7168 tokens a user"));
}

TEST_CASE("advise: a GPU of Apple has what macOS lets it take, or what the budget says that was raised") {
  // 46.7 billion weights of 8.5 bits are 49.6 GB: more than 3/4 of 64 GB, which are 48, less than 64 - 3.
  const std::vector<std::string> mac{"--gpu",     "apple-m4-max", "--ram",
                                     "64 GB",     "--runtime",    "llama.cpp-metal",
                                     "--weights", "gguf-q8_0",    "--no-policies"};
  const ProgramResult refused = advise(mac, "mixtral-8x7b");
  check_refusal(refused, "macOS lets the GPU take 48 GB of 64 GB, and it needs ", 1);
  CHECK(contains(refused.err, "`sudo sysctl iogpu.wired_limit_mb="));
  std::vector<std::string> raised = mac;
  raised.insert(raised.end(), {"--budget", "56 GB"});
  const json all = advised(raised, "mixtral-8x7b");
  REQUIRE(all["ways"].size() == 1);
  CHECK(all["gpu_share_of_ram_bytes"] == 48e9);
  const double taken = all["ways"][0]["gpu_bytes"];
  CHECK(taken > 48e9);
  const ProgramResult table = advise(raised, "mixtral-8x7b");
  CHECK(contains(table.out, "macOS lets the GPU take 48 GB of it"));
  CHECK(contains(table.out, "iogpu.wired_limit_mb=" +
                                std::to_string(static_cast<long>(std::ceil(taken / 0x1p20))) + "`"));
  // What fits is told of the limit too.
  CHECK(contains(advise({"--gpu", "apple-m4-max", "--ram", "64 GB", "--no-policies"}, "olmoe-1b-7b").out,
                 "macOS lets the GPU take 48 GB of it"));
}

TEST_CASE("advise: a GPU of AMD in the host's memory is told what raises Linux's half of it") {
  // 46.7 billion weights of 8.5 bits are 49.6 GB: more than half of 64 GB.
  const std::vector<std::string> halo{"--gpu",     "strix-halo", "--ram",
                                      "64 GB",     "--runtime",  "llama.cpp-rocm",
                                      "--weights", "gguf-q8_0",  "--no-policies"};
  const json all = advised(halo, "mixtral-8x7b");
  REQUIRE(all["ways"].size() == 1);
  CHECK(all["gtt_share_of_ram_bytes"] == 32e9);
  const double taken = all["ways"][0]["gpu_bytes"];
  const std::string table = advise(halo, "mixtral-8x7b").out;
  CHECK(contains(table, "Linux lets the GPU take 32 GB of it"));
  CHECK(contains(table,
                 "`ttm.pages_limit=" + std::to_string(static_cast<long>(std::ceil(taken / 4096))) + "`"));
  // What fits is told of the limit, and of no parameter.
  const std::string fits =
      advise({"--gpu", "strix-halo", "--ram", "64 GB", "--no-policies"}, "olmoe-1b-7b").out;
  CHECK(contains(fits, "Linux lets the GPU take 32 GB of it"));
  CHECK_FALSE(contains(fits, "ttm.pages_limit"));
}

TEST_CASE("advise: an SSD that the board's slot holds back is counted as the slot, and it says so",
          "[plain]") {
  const auto policies = [](const char* ssd) {
    return advised({"--gpu", "jetson-orin-nano-8gb", "--ssd", ssd, "--weights", "gguf-q4_k_m"},
                   "qwen3-30b-a3b");
  };
  // As long to the first byte, and twice as fast behind it.
  const json slow = policies("pcie4-x4"), fast = policies("{name: x, read: 14 GB/s, latency: 60 us}");
  REQUIRE(slow["notes"].size() == 1);
  CHECK(contains(slow["notes"][0], "carries 3.938 GB/s at most (pcie3-x4)"));
  REQUIRE_FALSE(slow["policies"]["systems"].empty());
  CHECK(slow["policies"]["systems"] == fast["policies"]["systems"]);
}

TEST_CASE("advise: parts of one's own, by file and as a map") {
  const test::ScratchFolder folder;
  const std::string path = (folder / "my-gpu.yaml").string();
  const std::string keys =
      "name: my-card, maker: nvidia, generation: ada, memory: 24 GB, bandwidth: 1008 GB/s, peak: 165.2 "
      "TFLOP/s, byte_products: 4, link: pcie4-x16";
  std::ofstream(path) << "{" << keys << "}\n";
  const auto decode = [](const std::vector<std::string>& machine) {
    std::vector<std::string> words = machine;
    words.insert(words.end(), {"--runtime", "llama.cpp-cuda", "--weights", "gguf-q4_k_m"});
    const json all = advised(words, "qwen3-30b-a3b");
    return all["ways"][0]["decode_tokens_per_s"].get<double>();
  };
  // The catalogue's row of an RTX 4090 says the same.
  const double expected = decode({"--gpu", "rtx-4090-24gb"});
  CHECK(decode({"--gpu", path}) == expected);
  CHECK(decode({"--gpu", "{" + keys + "}"}) == expected);
  CHECK(decode({"--machine", "{gpu: " + path + "}"}) == expected);
  CHECK(decode({"--machine", "{gpu: {" + keys + "}}"}) == expected);
  std::ofstream(path) << "name: my-card\nbandwith: 1 GB/s\n";
  check_refusal(advise({"--gpu", path}, "qwen3-30b-a3b"), "my-gpu.yaml:2:");
}

TEST_CASE("advise: GPUs that would cut groups of weights are left out, and it says why") {
  const auto awq_of = [](int gpus) {
    return advised({"--gpu", "h200-141gb", "--gpus", std::to_string(gpus), "--runtime", "vllm", "--weights",
                    "awq", "--no-policies"},
                   "qwen3-235b-a22b");
  };
  const json eight = awq_of(8);
  REQUIRE(eight["ways"].size() == 1);
  CHECK(eight["ways"][0]["gpus"] < 8);
  REQUIRE(eight["left_out"].size() == 1);
  const json& out = eight["left_out"][0];
  CHECK(out["runtime"] == "vllm");
  CHECK(out["weights"] == "awq");
  CHECK(out["gpus"] == 8);
  CHECK(contains(out["why_not"], "192 of 1536 columns"));
  CHECK(contains(out["why_not"], "expert_parallel"));
  CHECK(awq_of(4)["left_out"].empty());
  CHECK(contains(
      advise({"--gpu", "h200-141gb", "--gpus", "8", "--runtime", "vllm", "--weights", "awq", "--no-policies"},
             "qwen3-235b-a22b")
          .out,
      "\nleft out: vllm with awq on 8 GPUs: "));
}

TEST_CASE("advise: where GPUs cannot share a model and fewer have no room, both are said") {
  const ProgramResult result = advise(
      {"--gpu", "rtx-3090-24gb", "--gpus", "8", "--runtime", "vllm", "--weights", "awq", "--no-policies"},
      "qwen3-235b-a22b");
  CHECK(result.status == 1);
  CHECK(contains(result.err, "not on 8 GPUs"));
  CHECK(contains(result.err, "192 of 1536 columns"));
}

TEST_CASE("advise: all that is wrong is said at once") {
  const ProgramResult all =
      advise({"--gpu", "rtx-4091", "--ram", "64", "--kv", "fp9", "--prompt", "8192", "--context", "4096"},
             "gpt-oss-120c");
  check_refusal(all, "did you mean 'gpt-oss-120b'");
  for (const char* what : {"unknown GPU 'rtx-4091'", "ram '64'", "cache 'fp9'", "do not hold a prompt"})
    CHECK(contains(all.err, what));
  const ProgramResult names =
      advise({"--machine", kMachine, "--runtime", "vlm", "--weights", "gguf-q4_k_n", "--budget", "12"});
  check_refusal(names, "did you mean 'vllm'");
  for (const char* what : {"gguf-q4_k_m", "--budget 12: expected "}) CHECK(contains(names.err, what));
}

TEST_CASE("advise: errors name the key, the place and the nearest name") {
  check_refusal(advise({"--machine", "{gpu: rtx-4091, cpu: i9-14900K}"}), "gpu: unknown GPU 'rtx-4091'");
  check_refusal(advise({"--machine", "{gpu: rtx-4091, cpu: i9-14900K}"}), "did you mean 'rtx-409");
  check_refusal(advise({"--gpu", "rtx-4091"}), "gpu: unknown GPU 'rtx-4091'");
  check_refusal(advise({"--machine", "{gpu: rtx-4090, cpu: i9-14900Q}"}), "cpu: ");
  check_refusal(advise({"--machine", "{gpu: rtx-4090, cpu: i7-8700, memory: ddr5-6000}"}),
                "memory 'ddr5-6000': Intel Core i7-8700 takes ddr4");
  check_refusal(advise({"--machine", "{gpu: rtx-4090, ram: 64}"}), "ram '64'");
  check_refusal(advise({"--machine", "{gpu: rtx-4090, ssd: floppy}"}), "ssd: ");
  check_refusal(advise({"--machine", "{cpu: i9-14900K, sockets: 2}"}), "sockets: ");
  check_refusal(advise({"--machine", "{gpu: apple-m4-pro, gpus: 2}"}), "gpus: ");
  check_refusal(advise({"--machine", "{gpuu: rtx-4090}"}), "did you mean 'gpu'");
  check_refusal(advise({"--machine", "{gpus: 0}"}), "gpus");
  check_refusal(advise({"--machine", "{gpu: ["}), "--machine:1");
  check_refusal(advise({"--machine", "rtx-4090"}), "--machine");
  check_refusal(advise({"--machine", "no/such/machine.yaml"}), "no/such/machine.yaml");
  check_refusal(advise({}), "gpu: a machine needs a GPU or a CPU");
  check_refusal(advise({"--machine", kMachine, "--plot", "/dev/null/no/a.svg"}), "/dev/null is no folder");
  check_refusal(advise({"--machine", kMachine}, "gpt-oss-120c"), "did you mean 'gpt-oss-120b'");
  check_refusal(advise({"--machine", kMachine, "--runtime", "vlm"}), "did you mean 'vllm'");
  check_refusal(advise({"--machine", kMachine, "--runtime", "llama.cpp"}), "did you mean 'llama.cpp-cuda'");
  check_refusal(advise({"--gpu", "rx-7900-xtx-24gb", "--runtime", "llama-cpp"}),
                "did you mean 'llama.cpp-rocm'");
  check_refusal(advise({"--machine", kMachine}, "Qwen/Qwen3-30B-A3B"),
                "the hub's name of what is called 'qwen3-30b-a3b' here");
  check_refusal(advise({"--machine", kMachine, "--prompt", "8192", "--context", "4096"}),
                "--context: 4096 tokens do not hold a prompt of 8192: expected --context 8192 or more");
}

TEST_CASE("advise: names from a file do not reach the terminal as they are") {
  test::ScratchFolder folder;
  const std::string file = (folder / "model.yaml").string();
  std::ofstream(file) << "name: x\ntitle: \"a\\e[31mb\"\nhidden: 1024\nvocab: 1000\nlayers: 2\n"
                         "attention: {heads: 8, kv_heads: 2, head_dim: 128}\n"
                         "moe: {experts: 16, top_k: 4, width: 512}\n";
  const ProgramResult result = advise({"--machine", kMachine}, file);
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  CHECK(result.out.starts_with("a?[31mb on NVIDIA"));
  CHECK(result.out.find('\033') == std::string::npos);
}

}  // namespace moelab::advise_command_test

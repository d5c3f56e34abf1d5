// What moelab advise says of weights, prompts and memory: fewer than four bits where no more have room, where
// weights are had, what vLLM is told of a GPU's memory, and lines that fit the terminal.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "models/json.hpp"
#include "tests/cli/program_checks.hpp"
#include "tests/cli/run_program.hpp"

namespace moelab::weights_of_advise_test {

using Json = nlohmann::json;

namespace {

ProgramResult advise(const std::string& model, std::vector<std::string> options) {
  std::vector<std::string> all{"advise", "--model", model};
  all.insert(all.end(), options.begin(), options.end());
  return run_program(MOELAB_PROGRAM, all);
}

Json advised(const std::string& model, std::vector<std::string> options) {
  options.insert(options.end(), {"--format", "json"});
  const ProgramResult result = advise(model, options);
  INFO(result.err);
  REQUIRE(result.status == 0);
  return Json::parse(result.out);
}

const std::vector<std::string> kDesk{"--gpu", "rtx-4090-24gb", "--cpu",        "i9-14900K",
                                     "--ram", "192 GiB",       "--no-policies"};

std::vector<std::string> with(std::vector<std::string> options, const std::vector<std::string>& more) {
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

}  // namespace

TEST_CASE("advise: where no weights of four bits have room, the most bits of fewer do, and it says so",
          "[plain]") {
  const Json all = advised("deepseek-v3", kDesk);
  const Json way = all.at("ways").at(0);
  CHECK(way.at("bits_a_weight") < 4);
  for (const Json& other : all.at("ways")) CHECK(other.at("weights") == way.at("weights"));
  const std::string four = all.at("lacks_of_four_bits");
  CHECK(contains(four, "the host's memory needs "));
  // What is asked for by name is tried alone: four bits have no room, nor has any format before the chosen.
  CHECK(advise("deepseek-v3", with(kDesk, {"--weights", "gguf-q4_k_m"})).status == 1);
  for (const std::string weights : {"gguf-q3_k_m", "gguf-iq3_xxs", "gguf-q2_k", "gguf-iq2_xxs"}) {
    CAPTURE(weights);
    const bool chosen = way.at("weights") == weights;
    CHECK(advise("deepseek-v3", with(kDesk, {"--weights", weights})).status == (chosen ? 0 : 1));
    if (chosen) break;
  }
  const ProgramResult table = advise("deepseek-v3", kDesk);
  CHECK(
      contains(table.out, "\nNo weights of 4 bits and more have room: " + four + ". Quality: below 4 bits "));
  // Fewer bits by name are told of too; what fits with more is not.
  CHECK(contains(advise("qwen3-30b-a3b", with(kDesk, {"--weights", "gguf-q2_k"})).out, "\nQuality: below 4"));
  const Json fits = advised("qwen3-30b-a3b", kDesk);
  CHECK_FALSE(fits.contains("lacks_of_four_bits"));
  for (const Json& a : fits.at("ways")) CHECK(a.at("bits_a_weight") >= 4);
  CHECK_FALSE(contains(advise("qwen3-30b-a3b", kDesk).out, "Quality: "));
}

TEST_CASE("advise: what not even two bits have room for says that they were tried") {
  const ProgramResult none = advise(
      "deepseek-v3", {"--gpu", "rtx-4090-24gb", "--cpu", "i9-14900K", "--ram", "32 GiB", "--no-policies"});
  check_refusal(none, "down to 2 bits a weight", 1);
  CHECK_FALSE(contains(none.err, "--weights gguf-q2_k"));
}

TEST_CASE("advise: of a model with MXFP4 experts no file is smaller, and none of fewer bits is tried") {
  // bartowski/openai_gpt-oss-20b-GGUF: MXFP4 12.1 GB, Q6_K to Q2_K 12.04 to 11.5 GB; 14 GiB less 3 GB hold
  // none.
  const std::vector<std::string> small{"--gpu", "jetson-orin-nx-16gb", "--ram", "14 GiB", "--no-policies"};
  for (const std::vector<std::string>& asked :
       {std::vector<std::string>{}, {"--weights", "gguf-iq2_xxs"}, {"--weights", "gguf-mxfp4"}}) {
    const ProgramResult none = advise("gpt-oss-20b", with(small, asked));
    check_refusal(none, "does not fit in any way that was tried: ", 1);
    CHECK(contains(none.err, ". A shorter --context or more memory would help"));
  }
  const ProgramResult whole = advise("gpt-oss-20b", with(small, {"--weights", "bf16"}));
  check_refusal(whole, ". Smaller weights (--weights gguf-mxfp4), a shorter --context", 1);
}

TEST_CASE("advise: beside fewer bits in one memory, policies show four bits from the SSD") {
  const Json all = advised("mixtral-8x7b", {"--gpu", "jetson-agx-orin-32gb", "--ram", "26 GiB"});
  CHECK(all.at("ways").at(0).at("bits_a_weight") < 4);
  CHECK(all.at("policies").at("weights") == "gguf-iq4_xs");
  CHECK(all.at("policies").at("systems").at(0).contains("tpot_s"));
}

TEST_CASE("advise: the prompt's time is a column and in the first sentence; of policies the runtime's own") {
  const std::vector<std::string> desk{"--gpu", "rtx-3090-24gb", "--cpu", "i9-14900K", "--ram", "96 GiB"};
  const Json all = advised("gpt-oss-120b", desk);
  const Json best = all.at("ways").at(0);
  const double prompt_s = best.at("prompt_s");
  CHECK(prompt_s * best.at("prompt_tokens_per_s").get<double>() == Approx(512));
  int own = 0, others = 0;
  for (const Json& system : all.at("policies").at("systems")) {
    if (!system.contains("tpot_s")) continue;
    const bool is_own = system.at("system") == "llama-cpp";
    ++(is_own ? own : others);
    if (is_own)
      CHECK(system.at("ttft_s") == prompt_s);
    else
      CHECK(system.at("ttft_s").is_null());
  }
  CHECK(own == 1);
  CHECK(others > 0);
  const std::string table = advise("gpt-oss-120b", desk).out;
  CHECK(contains(table, "  TTFT s  prompt tok/s  "));
  const std::string before = "A prompt of 512 tokens alone has its first token after ";
  const std::size_t at = table.find(before);
  REQUIRE(at < table.find('\n'));
  CHECK(std::stod(table.substr(at + before.size())) == Approx(prompt_s).epsilon(0.005));
}

TEST_CASE("advise: vLLM is told to take what the plan takes of a GPU beyond its usual share") {
  int told = 0, untold = 0;
  for (const char* gpu : {"rtx-4090-24gb", "rtx-5090-32gb", "h100-80gb", "h200-141gb"}) {
    const Json all =
        advised("qwen3-30b-a3b", {"--gpu", gpu, "--cpu", "i9-14900K", "--runtime", "vllm", "--no-policies"});
    for (const Json& way : all.at("ways")) {
      const std::string command = way.at("command"), flag = " --gpu-memory-utilization ";
      // gpu_bytes of one GPU; its size is in its name, in GiB.
      const std::string name = gpu;
      const double gib = std::stod(name.substr(name.rfind('-') + 1));
      const double share = way.at("gpu_bytes").get<double>() / (gib * 0x1p30);
      CAPTURE(command, share);
      const std::size_t at = command.find(flag);
      ++(at == std::string::npos ? untold : told);
      if (at == std::string::npos) {
        CHECK(share <= 0.905);
        continue;
      }
      const double said = std::stod(command.substr(at + flag.size()));
      CHECK(said >= std::min(0.99, share - 1e-3));
      CHECK(said <= share + 0.02);
    }
  }
  CHECK(told > 0);
  CHECK(untold > 0);
}

TEST_CASE("advise: weights whose repository is not known say where they are had") {
  const Json apple = advised("qwen3-30b-a3b", {"--gpu", "apple-m4-max", "--ram", "64 GiB", "--runtime", "mlx",
                                               "--weights", "mlx-4bit", "--no-policies"});
  const Json mlx = apple.at("ways").at(0);
  // What the command loads is what the conversion writes.
  CHECK(contains(mlx.at("command"), "--model qwen3-30b-a3b-mlx-4bit "));
  CHECK(contains(
      mlx.at("weights_from"),
      "`mlx_lm.convert --hf-path Qwen/Qwen3-30B-A3B -q --q-bits 4 --mlx-path qwen3-30b-a3b-mlx-4bit`"));
  CHECK(contains(mlx.at("weights_from"), "mlx-community"));
  const std::vector<std::string> card{"--gpu", "h100-80gb", "--runtime", "vllm", "--no-policies"};
  const Json awq = advised("qwen3-30b-a3b", with(card, {"--weights", "awq"})).at("ways").at(0);
  CHECK(contains(awq.at("command"), "vllm serve qwen3-30b-a3b-awq "));
  CHECK(contains(awq.at("weights_from"), "'Qwen3-30B-A3B AWQ'"));
  CHECK(contains(awq.at("weights_from"), "in the place of qwen3-30b-a3b-awq"));
  CHECK(advised("qwen3-30b-a3b", with(card, {"--weights", "bf16"}))
            .at("ways")
            .at(0)
            .at("weights_from")
            .is_null());
  CHECK(
      contains(advise("qwen3-30b-a3b", with(card, {"--weights", "awq"})).out, "\nvllm's awq: a repository "));
}

TEST_CASE("advise: the blocks of a checkpoint in FP8 are not cut") {
  // MiniMax-M2 is published in blocks of 128 x 128: 1536 / 8 = 192 is no multiple, 1536 / 4 = 384 is.
  const Json all = advised("minimax-m2", {"--gpu", "h200-141gb", "--gpus", "8", "--runtime", "vllm",
                                          "--weights", "fp8", "--no-policies"});
  REQUIRE(all.at("ways").size() == 1);
  CHECK(all.at("ways").at(0).at("gpus") == 4);
  CHECK(contains(all.at("left_out").at(0).at("why_not"), "192 of 1536 columns"));
}

TEST_CASE("advise: lines fit the terminal, but for commands, which stay whole") {
  setenv("COLUMNS", "80", 1);
  const ProgramResult few = advise("deepseek-v3", kDesk);
  const ProgramResult many =
      advise("gpt-oss-120b", {"--gpu", "rtx-3090-24gb", "--cpu", "i9-14900K", "--ram", "96 GiB"});
  unsetenv("COLUMNS");
  for (const ProgramResult* result : {&few, &many}) {
    REQUIRE(result->status == 0);
    std::istringstream lines(result->out);
    int commands = 0;
    for (std::string line; std::getline(lines, line);) {
      const bool command = line.starts_with("llama-server ") || line.starts_with("vllm serve ");
      commands += command ? 1 : 0;
      INFO(line);
      CHECK((command || line.size() <= 80));
    }
    CHECK(commands >= 1);
  }
}

TEST_CASE("advise: help says which memory --ram means") {
  const std::string help = run_program(MOELAB_PROGRAM, {"advise", "--help"}).out;
  for (const char* word : {"whole memory", "not what of it is free", "'64 GiB'"}) CHECK(contains(help, word));
}

}  // namespace moelab::weights_of_advise_test

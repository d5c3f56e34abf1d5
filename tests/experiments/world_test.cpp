// Published measurements: how rows become questions, and what fitting does.
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "experiments/world/world_fit.hpp"
#include "experiments/world/world_points.hpp"
#include "models/input_error.hpp"
#include "tests/scratch_folder.hpp"

namespace moelab::world_test {

using namespace moelab::world;
namespace {

constexpr const char* kHeader =
    "id,source,engine,version,model,weights,gpu,gpus,cpu,sockets,memory,offload,batch,prompt,context,metric,"
    "value,unit,grade,notes\n";

std::vector<Point> points_of(const std::string& rows) {
  const test::ScratchFolder folder;
  std::ofstream(folder / "points.csv") << kHeader << rows;
  return read_points((folder / "points.csv").string());
}

Point one(const std::string& row) {
  return points_of(row + "\n").at(0);
}

const std::string kResident =
    "p1,x,llama.cpp-cuda,2026,qwen3-30b-a3b,gguf-q4_k_m,rtx-4090-24gb,1,,,,resident,1,short,short,decode,200,"
    "tok/s,A,";

TEST_CASE("world: a row is put in this program's terms") {
  Runtimes runtimes;
  const Question resident = question_of(one(kResident), runtimes);
  CHECK(resident.why_not.empty());
  CHECK(resident.group == "one GPU, decode");
  CHECK(resident.model.stored.name == "gguf-q4_k_m");
  CHECK(resident.split == Split{});
  const Question layers = question_of(one("p2,x,llama.cpp-cuda,2026,gpt-oss-120b,gguf-mxfp4,rtx-3090-24gb,1,"
                                          "i9-14900K,1,\"ddr5-6800, 2 channels\","
                                          "ncmoe=25 ubatch=2048,1,4096,4096,prefill,1000,tok/s,A,"),
                                      runtimes);
  CHECK(layers.split.cpu_expert_layers == 25);
  CHECK(layers.micro_batch == 2048.0);
  CHECK(layers.group == "experts on the CPU, prefill");
  const Question experts = question_of(one("p3,x,ktransformers,0.5.2,qwen3-30b-a3b,bf16,rtx-5090-32gb,1,EPYC "
                                           "9355,1,,gpu-experts-per-layer=32,1,9,9,"
                                           "decode,50,tok/s,A,"),
                                       runtimes);
  CHECK(experts.split.gpu_expert_share == 0.25);
  CHECK(experts.runtime == "ktransformers");
  CHECK(
      question_of(one("p4,x,ktransformers,V0.2.1,deepseek-v3,gguf-q4_k_m,rtx-4090d-24gb,1,Xeon Gold 6454S,1,,"
                      "experts-on-cpu=all,1,9,9,decode,8,tok/s,A,"),
                  runtimes)
          .runtime == "ktransformers-0.2");
  CHECK(
      question_of(one("p5,x,llama.cpp-cpu,2026,qwen3-30b-a3b,gguf-q4_k_m,,0,i7-8700,1,,cpu-only,1,9,9,decode,"
                      "10,tok/s,A,"),
                  runtimes)
          .group == "CPU only, decode");
}

TEST_CASE("world: a row that cannot be answered says why") {
  Runtimes runtimes;
  const auto why_not = [&](const std::string& from, const std::string& to) {
    std::string row = kResident;
    row.replace(row.find(from), from.size(), to);
    return question_of(one(row), runtimes).why_not;
  };
  CHECK(why_not("rtx-4090-24gb", "rtx-4099-24gb").find("rtx-4090-24gb") != std::string::npos);
  CHECK(why_not("qwen3-30b-a3b", "qwen9").find("unknown model") != std::string::npos);
  CHECK(why_not("gguf-q4_k_m", "gguf-q4_k_q").find("gguf-q4_k_m") != std::string::npos);
  CHECK(why_not("llama.cpp-cuda", "lama.cpp").find("no runtime") != std::string::npos);
  CHECK(why_not("resident", "halfway").find("offload") != std::string::npos);
  CHECK(why_not("resident", "ncmoe=9").find("which CPU") != std::string::npos);
  // A CPU that nothing depends on need not be known; nor one whose memory says enough.
  CHECK(why_not(",1,,,,resident", ",1,Kryo 77,1,,resident").empty());
  CHECK(why_not(",1,,,,resident", ",1,Kryo 77,1,\"ddr5-5600, 2 channels\",ncmoe=9").empty());
  CHECK(why_not(",1,,,,resident", ",1,Kryo 77,1,,ncmoe=9").find("Kryo") != std::string::npos);
  CHECK(why_not("short,decode", "1e9,decode").find("more tokens") != std::string::npos);
  CHECK(why_not("decode", "joules").find("metric") != std::string::npos);
  CHECK(why_not("tok/s", "s").find("unit 's'") != std::string::npos);
  CHECK(why_not("resident", "ncmoe=-1").find("99 means all") != std::string::npos);
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"decode,200", "decode,0"},
                                                        {"decode,200", "decode,-1"},
                                                        {"decode,200", "decode,1e308"},
                                                        {"decode,200", "decode,nan"},
                                                        {"rtx-4090-24gb,1", "rtx-4090-24gb,1.5"},
                                                        {"rtx-4090-24gb,1", "rtx-4090-24gb,-1"},
                                                        {"resident,1", "resident,-1"},
                                                        {"resident,1", "resident,0"}}) {
    std::string row = kResident;
    row.replace(row.find(from), from.size(), to);
    CHECK_THROWS_AS(points_of(row + "\n"), InputError);
  }
  CHECK_THROWS_AS(points_of("p,x\n"), InputError);
  CHECK_THROWS_AS(points_of(kResident + "\n" + "p,x,y,z,m,w,g,one,,,,,,,,decode,5,,A,\n"), InputError);
}

TEST_CASE("world: a prompt that took less than its FLOPs need at the data sheet's peak is not counted") {
  Runtimes runtimes;
  const auto why_not = [&](const std::string& weights, const std::string& gpu, double tokens, double ms) {
    return question_of(one("p,x,vllm,2026,qwen3-30b-a3b," + weights + "," + gpu + ",1,,,,resident,1," +
                           std::to_string(tokens) + ",9,ttft_ms," + std::to_string(ms) + ",ms,A,"),
                       runtimes)
        .why_not;
  };
  // 48 layers of hidden size 2048: queries and output 2 x 2048 x 4096, keys and values 2 x 2048 x 512, a
  // router of 128, 8 experts of 3 x 2048 x 768; scores and weighted values 4 x 32 x 128 a pair of tokens; the
  // head for one token.
  const double of_token =
      2 * 48.0 * (2 * 2048.0 * 4096 + 2 * 2048.0 * 512 + 2048.0 * 128 + 8 * 3 * 2048.0 * 768);
  const auto least_ms = [&](double tokens, double peak) {
    const double pairs = tokens * (tokens + 1) / 2;
    return 1e3 * (of_token * tokens + 48 * 4 * 32.0 * 128 * pairs + 2 * 2048.0 * 151936) / peak;
  };
  for (const double tokens : {256, 8192}) {
    const double least = least_ms(tokens, 312e12);
    CHECK(why_not("bf16", "a100-80gb", tokens, least * 0.98).find("not all of the prompt") !=
          std::string::npos);
    CHECK(why_not("bf16", "a100-80gb", tokens, least * 1.02).empty());
    // In four bits up to four times as fast; 16 bits with sums in 16 twice, where a board's data sheet has
    // sums in 32.
    CHECK(why_not("awq", "a100-80gb", tokens, least * 0.3).empty());
    CHECK(why_not("awq", "a100-80gb", tokens, least * 0.24).find("not all") != std::string::npos);
    CHECK(why_not("bf16", "rtx-5090-32gb", tokens, least_ms(tokens, 209.5e12) * 0.52).empty());
    CHECK(why_not("bf16", "rtx-5090-32gb", tokens, least_ms(tokens, 209.5e12) * 0.49).find("not all") !=
          std::string::npos);
  }
}

TEST_CASE("world: tokens a second, gaps and times to the first token are one prediction") {
  Runtimes runtimes;
  const auto value = [&](const std::string& metric) {
    std::string row = kResident;
    row.replace(row.find("decode,200"), 10, metric + ",200");
    const Point point = one(row);
    const Question q = question_of(point, runtimes);
    return predict(point, q, runtimes).value;
  };
  CHECK(value("decode") * value("tpot_ms") == Approx(1000));
  CHECK(value("prefill") * value("ttft_ms") == Approx(32 * 1000));
}

TEST_CASE("world: fitting finds the constants that made the measurements") {
  Runtimes runtimes;
  std::vector<Point> points;
  for (const char* model : {"qwen3-30b-a3b", "deepseek-v2-lite", "gpt-oss-20b"})
    for (const char* gpu : {"a100-80gb", "rtx-6000-ada-48gb"})
      for (const char* offload : {"resident", "ncmoe=20"})
        points.push_back(one("p,x,llama.cpp-cuda,2026," + std::string(model) + ",gguf-q8_0," + gpu +
                             ",1,i9-14900K,1,," + offload + ",1,9,99,decode,1,tok/s,A,"));
  std::vector<Question> questions;
  for (const Point& p : points) questions.push_back(question_of(p, runtimes));
  std::vector<Parameter> truth = parameters_of(runtimes);
  for (Parameter& p : truth)
    if (p.name() == "launch")
      p.value = 5e-6;
    else if (p.name() == "cpu_bandwidth")
      p.value = 0.7;
    else if (p.name() == "ada.slowdown")
      p.value = 0.5;
  const Runtimes made = with(runtimes, truth);
  std::vector<Answerable> answerable;
  for (std::size_t i = 0; i < points.size(); ++i) {
    points[i].value = predict(points[i], questions[i], made).value;
    answerable.push_back({&points[i], &questions[i]});
  }
  const std::vector<Parameter> found = fit(runtimes, parameters_of(runtimes), answerable, 0);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Parameter& p = found[i];
    INFO(p.name());
    if (p.name() == "launch" || p.name() == "ada.slowdown")
      CHECK(p.value == Approx(truth[i].value).epsilon(0.05));
    // No row has several tokens: what only they show stays.
    if (p.name() == "expert_peak") CHECK(p.value == runtimes.at("common").expert_peak);
  }
  // What the CPU costs, several constants say together: what is predicted is what was measured.
  const Runtimes again = with(runtimes, found);
  for (std::size_t i = 0; i < points.size(); ++i)
    CHECK(predict(points[i], questions[i], again).value == Approx(points[i].value).epsilon(0.02));
  // Where rows weigh nothing against what is usual, a launch takes 6 us.
  for (const Parameter& p : fit(runtimes, parameters_of(runtimes), answerable, 1e6))
    if (p.name() == "launch") CHECK(p.value == Approx(6e-6).epsilon(0.02));
}

}  // namespace
}  // namespace moelab::world_test

// Replays of servers' runs: a folder made by hand, whose predicted times are sums by the data sheet;
// quantiles computed anew; the same as `moelab run`; tables of kernels; files that are damaged.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "experiments/load/kernel_tables.hpp"
#include "experiments/load/replay_picture.hpp"
#include "models/input_error.hpp"
#include "models/part.hpp"
#include "models/runtime.hpp"
#include "sim/run.hpp"
#include "tests/random_runs.hpp"
#include "tests/scratch_folder.hpp"

namespace moelab::replay_test {

using namespace moelab::replay;
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kMeta = R"({"model": "meta-llama/Llama-3.1-8B-Instruct", "vllm_version": "0.19.0",
 "engine_kwargs": {"tensor_parallel_size": 1, "max_num_seqs": 4, "max_num_batched_tokens": 512},
 "hardware": {"device_name": "NVIDIA GeForce RTX 4090"}})";

struct Asked {
  int prompt, output;
  double queued, first, last;
};

std::string line_of(const Asked& a, int number) {
  Json line;
  line["request_id"] = "bench-" + std::to_string(number);
  line["input_toks"] = a.prompt;
  line["output_toks"] = a.output;
  line["arrival_time"] = 1.7e9 + a.queued;
  line["queued_ts"] = 500 + a.queued;
  line["scheduled_ts"] = 500 + a.queued;
  line["first_token_ts"] = 500 + a.first;
  line["last_token_ts"] = 500 + a.last;
  return line.dump() + "\n";
}

struct Folder {
  test::ScratchFolder scratch;
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(scratch / name, std::ios::binary) << text;
  }
  void write_requests(const std::vector<Asked>& asked) const {
    std::string text;
    for (std::size_t i = 0; i < asked.size(); ++i) text += line_of(asked[i], static_cast<int>(i));
    write("requests.jsonl", text);
  }
  std::string path() const { return scratch.path().string(); }
};

/// Far apart, so that each is served alone.
const std::vector<Asked> kApart{
    {100, 5, 0, 0.5, 1.5}, {40, 1, 10, 10.25, 10.25}, {300, 9, 20, 20.125, 24.125}, {7, 3, 30, 30.25, 30.75}};

// Llama-3.1-8B on an RTX 4090: 1008 GB/s, 165.2 TFLOP/s; as tests/sim/dense_model_test.cpp has it.
constexpr double kProjections = 2.0 * 4096 * 4096 + 2.0 * 4096 * 1024 + 2 * 4096;
constexpr double kFeedForward = 3.0 * 4096 * 14336;
constexpr double kHead = 128256.0 * 4096 + 4096;
constexpr double kBandwidth = 1008e9, kPeak = 165.2e12;

RuntimeCosts costs() {
  return load_runtime("vllm-v1").on(find_gpu("rtx-4090-24gb"), {});
}

double product(const RuntimeCosts& r, double weights, double rows) {
  const double memory = 2 * weights / (kBandwidth * r.dense_bandwidth);
  const double arithmetic = 2 * weights * rows / (kPeak * r.dense_peak);
  const double overlap = rows == 1 ? 1 : r.dense_overlap;
  return std::max(memory, arithmetic) + (1 - overlap) * std::min(memory, arithmetic);
}

/// A step of a prompt alone, or of one row that decodes with `context` tokens (itself included).
double step_seconds(const RuntimeCosts& r, double rows, double context, bool prompt) {
  const double attended = prompt ? rows * (rows + 1) / 2 : context;
  const double reads = prompt ? attended / 128 : attended;
  const double attention = std::max(4.0 * 4096 * attended / (kPeak * r.attention_peak),
                                    4096.0 * reads / (kBandwidth * r.attention_bandwidth));
  const double moved = r.activation_bytes * rows * 4096 / (kBandwidth * r.dense_bandwidth);
  const double kernel = rows == 1 ? r.launch : std::max(r.launch_batched, moved);
  const double layer =
      product(r, kProjections, rows) + product(r, kFeedForward, rows) + attention + 10 * kernel;
  return 32 * layer + product(r, kHead, 1) + 3 * r.launch + r.request + r.step;
}

/// Sorted values; the value at rank q (n - 1), between two by their distance.
double at_rank(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double rank = q * (static_cast<double>(values.size()) - 1);
  const auto below = static_cast<std::size_t>(rank);
  if (below + 1 == values.size()) return values[below];
  return values[below] * (1 - (rank - static_cast<double>(below))) +
         values[below + 1] * (rank - static_cast<double>(below));
}

void check_metric(const Json& json, const std::string& side, const std::vector<double>& values) {
  INFO(side);
  double sum = 0;
  for (const double value : values) sum += value;
  CHECK(json.at("mean").at(side).get<double>() ==
        Approx(sum / static_cast<double>(values.size())).epsilon(1e-9));
  for (const auto& [name, q] : {std::pair("p50", 0.5), {"p90", 0.9}, {"p95", 0.95}, {"p99", 0.99}})
    CHECK(json.at(name).at(side).get<double>() == Approx(at_rank(values, q)).epsilon(1e-9));
}

struct Run {
  ServingFolder folder;
  Setup setup;
  Replay replayed;
  Json json;
};

Run run_folder(const std::string& path, const std::string& tables = "", const Named& named = {}) {
  Run run;
  run.folder = read_serving_folder(path);
  run.setup = set_up(run.folder, named);
  const auto times = tables.empty() ? data_sheet_times(run.setup) : table_times(run.setup, tables);
  run.replayed = serve_again(run.setup, *times);
  run.json = comparison_json(compare(run.folder, run.setup, run.replayed));
  return run;
}

std::string refusal(const std::string& path, const std::string& tables = "", const Named& named = {}) {
  try {
    run_folder(path, tables, named);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE(
    "replay: requests that are served alone take what the data sheet says, and JSON has their quantiles") {
  const Folder folder;
  folder.write("meta.json", kMeta);
  folder.write_requests(kApart);
  const Run run = run_folder(folder.path());
  const RuntimeCosts r = costs();
  struct Times {
    std::vector<double> ttft, tpot, all;
  } measured, predicted;
  const auto add = [](Times& times, const Asked& a, double ttft, double rest) {
    times.ttft.push_back(ttft);
    times.all.push_back(ttft + rest);
    if (a.output > 1) times.tpot.push_back(rest / (a.output - 1));
  };
  for (const Asked& a : kApart) {
    add(measured, a, a.first - a.queued, a.last - a.first);
    double rest = 0;
    for (int token = 1; token < a.output; ++token) rest += step_seconds(r, 1, a.prompt + token, false);
    add(predicted, a, step_seconds(r, a.prompt, 0, true), rest);
  }
  const std::vector<std::string> keys{"ttft_s", "tpot_s", "end_to_end_s", "kv_blocks"};
  std::size_t key = 0;
  for (const auto& [name, value] : run.json.items()) CHECK(name == keys.at(key++));
  check_metric(run.json.at("ttft_s"), "measured", measured.ttft);
  check_metric(run.json.at("tpot_s"), "measured", measured.tpot);
  check_metric(run.json.at("end_to_end_s"), "measured", measured.all);
  check_metric(run.json.at("ttft_s"), "predicted", predicted.ttft);
  check_metric(run.json.at("tpot_s"), "predicted", predicted.tpot);
  check_metric(run.json.at("end_to_end_s"), "predicted", predicted.all);
  // 24 GiB less half a GiB that the driver keeps, nine tenths of it, less weights, reserve and activations.
  const double budget = std::floor((24 - 0.5) * 0x1p30 * 0.9 - load_runtime("vllm-v1").gpu_reserve);
  const double weights = 2 * (32 * (kProjections + kFeedForward) + kHead + 128256.0 * 4096);
  const double activations = 512.0 * (2 * 4096 + 2 * 14336) * 2 + 4 * 128256.0 * 4;
  CHECK(run.json.at("kv_blocks").at("measured").is_null());
  CHECK(run.json.at("kv_blocks").at("predicted") ==
        std::floor((budget - weights - activations) / (16 * 131072.0)));
}

TEST_CASE("replay: the engine's own number of blocks is what is replayed, beside the predicted one") {
  const Folder folder;
  Json meta = Json::parse(kMeta);
  meta["kv_cache"] = {{"num_gpu_blocks", 30}, {"block_size", 16}};
  folder.write("meta.json", meta.dump());
  // Two of 200 tokens at the end, 13 blocks each, and 30 there are: the third waits for one of them to end.
  folder.write_requests({{190, 11, 0, 1, 2}, {190, 11, 0.0001, 1, 2}, {190, 11, 0.0002, 1, 2}});
  const Run run = run_folder(folder.path());
  CHECK(run.json.at("kv_blocks").at("measured") == 30);
  CHECK(run.json.at("kv_blocks").at("predicted") > 2000);
  for (const ReplayedStep& step : run.replayed.steps) {
    CHECK(step.running <= 2);
    CHECK(step.kv_blocks <= 26);
  }
  CHECK(run.replayed.requests[2].first_token_s > run.replayed.requests[0].last_token_s);
  meta["kv_cache"]["num_gpu_blocks"] = 12;
  folder.write("meta.json", meta.dump());
  CHECK_THAT(refusal(folder.path()), Catch::Contains("needs 13 blocks"));
}

TEST_CASE("replay: the same as a run of the simulator") {
  std::mt19937_64 random(7);
  for (const char* model : {"meta-llama/Llama-3.1-8B", "Qwen/Qwen3-30B-A3B-Instruct-2507"}) {
    const Folder folder;
    Json meta = Json::parse(kMeta);
    meta["model"] = model;
    meta["hardware"]["device_name"] = "NVIDIA RTX PRO 6000 Blackwell Server Edition";
    folder.write("meta.json", meta.dump());
    std::vector<Asked> asked;
    double now = 0;
    for (int i = 0; i < 12; ++i) {
      asked.push_back(
          {1 + static_cast<int>(random() % 700), 1 + static_cast<int>(random() % 20), now, now, now});
      now += static_cast<double>(random() % 100) * 1e-3;
    }
    folder.write_requests(asked);
    const Run run = run_folder(folder.path());
    const RunResult simulated = run_system(run.setup.scenario, run.setup.system(), run.setup.trace, {});
    std::vector<double> ttft = replayed_times(run.folder, run.replayed).ttft,
                        theirs = simulated.metrics.ttft_s;
    std::sort(ttft.begin(), ttft.end());
    std::sort(theirs.begin(), theirs.end());
    REQUIRE(ttft.size() == theirs.size());
    for (std::size_t i = 0; i < ttft.size(); ++i) CHECK(ttft[i] == Approx(theirs[i]).epsilon(1e-9));
    CHECK(simulated.metrics.wall_s == Approx(run.replayed.steps.back().end_s).epsilon(1e-9));
  }
}

TEST_CASE("replay: several GPUs as the engine's arguments say") {
  const Folder folder;
  folder.write_requests(kApart);
  Json meta = Json::parse(kMeta);
  meta["hardware"]["device_name"] = "NVIDIA RTX PRO 6000 Blackwell Server Edition";
  meta["engine_kwargs"]["tensor_parallel_size"] = 2;
  folder.write("meta.json", meta.dump());
  CHECK(run_folder(folder.path()).setup.scenario.tensor_parallel == 2);
  meta["engine_kwargs"]["tensor_parallel_size"] = 1;
  meta["engine_kwargs"]["data_parallel_size"] = 2;
  folder.write("meta.json", meta.dump());
  CHECK_THAT(refusal(folder.path()), Catch::Contains("each GPU would be a server of its own"));
  meta["model"] = "Qwen/Qwen3-30B-A3B";
  meta["engine_kwargs"]["enable_expert_parallel"] = true;
  folder.write("meta.json", meta.dump());
  const Run run = run_folder(folder.path());
  CHECK(run.setup.scenario.data_parallel == 2);
  CHECK(run.setup.scenario.expert_ranks() == 2);
  for (std::size_t i = 0; i < kApart.size(); ++i)
    CHECK(run.replayed.requests[i].first_token_s > kApart[i].queued);
  CHECK_THAT(refusal(folder.path(), "", {"", "", 3}), Catch::Contains("expected a multiple"));
}

TEST_CASE("replay: tables of kernels take the place of data sheets") {
  const Folder folder, tables;
  folder.write("meta.json", kMeta);
  folder.write_requests(kApart);
  // Every kernel takes as many microseconds as it has rows, times a factor of its own; attention 3 for each
  // row of a prompt and 5 for each request that decodes.
  std::string dense = "layer,tokens,time_us\n", sequences = "layer,sequences,time_us\n";
  const std::vector<std::pair<std::string, double>> layers{
      {"layernorm", 1},    {"qkv_proj", 2},  {"rotary_emb", 3}, {"o_proj", 4},         {"act_fn", 5},
      {"gate_up_proj", 6}, {"down_proj", 7}, {"embedding", 8},  {"final_layernorm", 9}};
  for (const auto& [layer, factor] : layers)
    for (const int tokens : {1, 50, 512})
      dense += layer + "," + std::to_string(tokens) + "," + std::to_string(factor * tokens) + "\n";
  for (const int n : {1, 4})
    sequences += "lm_head," + std::to_string(n) + "," + std::to_string(10 * n) + "\n";
  std::string attention = "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n";
  for (const int rows : {0, 7, 40, 100, 300, 512})
    for (const int n : {0, 1, 4})
      for (const int context : {0, 16, 4096})
        if (rows + n > 0 && (n > 0) == (context > 0))
          attention += std::to_string(rows) + ",0," + std::to_string(n) + "," + std::to_string(context) +
                       "," + std::to_string(3 * rows + 5 * n) + "\n";
  tables.write("rtx4090_llama3.1-8b_dense.csv", dense);
  tables.write("rtx4090_llama3.1-8b_attention.csv", attention);
  tables.write("rtx4090_llama3.1-8b_per_sequence.csv", sequences);
  const Run run = run_folder(folder.path(), tables.path());
  const RuntimeCosts r = costs();
  const double row = 2 * 1 + 2 + 3 + 4 + 5 + 6 + 7;  // of a layer, two norms
  const double fixed_part = (9 + 10) * 1e-6 + r.request + r.step;
  const double decode = (32 * (row + 5) + 8) * 1e-6 + fixed_part;
  for (std::size_t i = 0; i < kApart.size(); ++i) {
    const Asked& a = kApart[i];
    const double prompt = (32 * (row + 3) + 8) * a.prompt * 1e-6 + fixed_part;
    CHECK(run.replayed.requests[i].first_token_s - a.queued == Approx(prompt).epsilon(1e-9));
    CHECK(run.replayed.requests[i].last_token_s - run.replayed.requests[i].first_token_s ==
          Approx(decode * (a.output - 1)).epsilon(1e-9).margin(1e-12));
  }
  CHECK_THAT(refusal(folder.path(), tables.path(), {"qwen3-8b", "", 0}),
             Catch::Contains("has no table 'dense'") && Catch::Contains("rtx4090_llama3.1-8b_dense.csv"));
  std::string other = dense;
  other.replace(other.find("qkv_proj"), 8, "qkv_prog");
  while (other.find("qkv_proj") != std::string::npos) other.replace(other.find("qkv_proj"), 8, "qkv_prog");
  tables.write("rtx4090_llama3.1-8b_dense.csv", other);
  CHECK_THAT(refusal(folder.path(), tables.path()),
             Catch::Contains("no rows of layer 'qkv_proj'") && Catch::Contains("qkv_prog"));
  tables.write("rtx4090_llama3.1-8b_dense.csv", dense + "o_proj,9,-1\n");
  CHECK_THAT(refusal(folder.path(), tables.path()), Catch::Contains("dense.csv:29:"));
}

TEST_CASE("replay: interpolation is straight between points, and over four arguments by corners") {
  Interpolated line;
  line.set(2, 10);
  line.set(4, 30);
  line.set(8, 40);
  CHECK(line.at(2) == 10);
  CHECK(line.at(3) == Approx(20));
  CHECK(line.at(6) == Approx(35));
  CHECK(line.at(12) == Approx(50));  // on as between the last two
  CHECK(line.at(1) == Approx(10));
  // A function that is linear in each argument comes back within the cell.
  const auto f = [](double a, double b, double c, double d) { return 1 + a + 2 * b * c + a * d; };
  AttentionTable table;
  for (const double a : {1., 5.})
    for (const double b : {0., 8.})
      for (const double c : {2., 3.})
        for (const double d : {10., 20.}) table.set({a, b, c, d}, f(a, b, c, d));
  table.finish();
  CHECK(table.at({2, 3, 2.5, 13}) == Approx(f(2, 3, 2.5, 13)));
  CHECK(table.at({5, 8, 3, 20}) == Approx(f(5, 8, 3, 20)));
}

TEST_CASE("replay: what a folder lacks or spells otherwise is named, with its place") {
  const Folder folder;
  CHECK_THAT(refusal(folder.path() + "/none"), Catch::Contains("is no folder"));
  CHECK_THAT(refusal(folder.path()), Catch::Contains("requests.jsonl") && Catch::Contains("is missing"));
  folder.write("meta.json", kMeta);
  folder.write("requests.jsonl", "\n\n");
  CHECK_THAT(refusal(folder.path()), Catch::Contains("has no requests"));
  const std::string good = line_of(kApart[0], 0);
  const auto says = [&](const std::string& from, const std::string& to, const std::string& what) {
    std::string bad = line_of(kApart[1], 1);
    bad.replace(bad.find(from), from.size(), to);
    folder.write("requests.jsonl", good + bad);
    INFO(bad);
    CHECK_THAT(refusal(folder.path()), Catch::Contains("requests.jsonl:2: ") && Catch::Contains(what));
  };
  says("input_toks", "input_tok", "unknown field 'input_tok' (did you mean 'input_toks'?)");
  says("\"output_toks\":1,", "", "missing field 'output_toks'");
  says("\"output_toks\":1,", "\"output_toks\":0,", "'output_toks' must be a number from 1 to 10000000");
  says("\"output_toks\":1,", "\"output_toks\":1.5,", "must be a whole number");
  says("\"output_toks\":1,", "\"output_toks\":\"1\",", "must be a number");
  says("bench-1", "bench-0", "is there twice");
  says("\"first_token_ts\":510.25", "\"first_token_ts\":509.0", "'first_token_ts' is before 'queued_ts'");
  says("{", "[", "not JSON");
  folder.write("requests.jsonl", good);
  const auto meta_says = [&](const std::string& from, const std::string& to, const std::string& what) {
    std::string bad = kMeta;
    bad.replace(bad.find(from), from.size(), to);
    folder.write("meta.json", bad);
    INFO(bad);
    CHECK_THAT(refusal(folder.path()), Catch::Contains(what));
  };
  meta_says("max_num_seqs", "max_num_seq", "did you mean 'max_num_seqs'?");
  meta_says("\"max_num_seqs\": 4", "\"max_num_seqs\": 1000", "must be at least 'max_num_seqs'");
  meta_says("Llama-3.1-8B-Instruct", "Llama-3.1-9B", "llama-3.1-8b");
  meta_says("RTX 4090", "RTX 4099", "rtx-4090-24gb");
  folder.write("meta.json", kMeta);
  CHECK(refusal(folder.path()) == "accepted");
  CHECK_THAT(refusal(folder.path(), "", {"qwen3-32c", "", 0}), Catch::Contains("qwen3-32b"));
  CHECK_THAT(refusal(folder.path(), "", {"", "rtx-4091-24gb", 0}), Catch::Contains("rtx-4090-24gb"));
  CHECK_THAT(refusal(folder.path(), "", {"llama-3.1-70b", "", 0}), Catch::Contains("lacks"));
  folder.write("timeseries.csv",
               "t,prompt_throughput,gen_throughput,running,waiting,kv_cache\n1,2,3,4,5,6\n");
  CHECK_THAT(refusal(folder.path()), Catch::Contains("timeseries.csv") && Catch::Contains("kv_cache_pct"));
  folder.write("timeseries.csv",
               "t,prompt_throughput,gen_throughput,running,waiting,kv_cache_pct\n2,2,3,4,5,6\n"
               "1,2,3,4,5,6\n");
  CHECK_THAT(refusal(folder.path()), Catch::Contains("timeseries.csv:3:"));
}

TEST_CASE("replay: names of models and GPUs as servers write them") {
  CHECK(model_of("meta-llama/Llama-3.1-8B") == "llama-3.1-8b");
  CHECK(model_of("meta-llama/Meta-Llama-3.1-8B-Instruct") == "llama-3.1-8b");
  CHECK(model_of("Qwen/Qwen3-30B-A3B-Instruct-2507") == "qwen3-30b-a3b");
  CHECK(model_of("Qwen/Qwen3-32B") == "qwen3-32b");
  CHECK_THROWS_AS(model_of("Qwen/Qwen3-32B-FP8"), InputError);  // other weights
  CHECK(gpu_of("NVIDIA GeForce RTX 4090") == "rtx-4090-24gb");
  CHECK(gpu_of("RTX4090") == "rtx-4090-24gb");
  CHECK(gpu_of("RTXPRO6000") == "rtx-pro-6000-96gb");
  CHECK(gpu_of("NVIDIA RTX PRO 6000 Blackwell Workstation Edition") == "rtx-pro-6000-96gb");
}

TEST_CASE("replay: a picture has both sides, and a series over time its own sums") {
  const Folder folder;
  folder.write("meta.json", kMeta);
  folder.write_requests(kApart);
  const Run run = run_folder(folder.path());
  const Comparison c = compare(run.folder, run.setup, run.replayed);
  double tokens = 0, prompts = 0, before = 0;
  for (const ComparedMoment& m : c.over_time) {
    tokens += m.tokens_per_s.predicted * (m.time_s - before);
    prompts += m.prompt_tokens_per_s.predicted * (m.time_s - before);
    before = m.time_s;
  }
  CHECK(tokens == Approx(5 + 1 + 9 + 3));
  CHECK(prompts == Approx(100 + 40 + 300 + 7));
  const std::string svg = plot::svg(replay_figure(run.folder, run.setup, run.replayed, c, "by hand"));
  for (const char* title : {"TTFT", "TPOT", "End to end", "Requests that run", "KV cache in use", "measured"})
    CHECK(svg.find(title) != std::string::npos);
}

TEST_CASE("replay: damaged files are refused or read, never anything else") {
  const std::vector<std::string> names{"meta.json", "requests.jsonl", "timeseries.csv"};
  std::string requests;
  for (std::size_t i = 0; i < kApart.size(); ++i) requests += line_of(kApart[i], static_cast<int>(i));
  const std::vector<std::string> good{
      kMeta, requests,
      "t,prompt_throughput,gen_throughput,running,waiting,kv_cache_pct\n1,2,3,4,5,6\n2,0,3,4,5,6\n"};
  std::mt19937_64 random(11);
  int refused = 0, read = 0;
  const Folder folder;
  for (int i = 0; i < moelab::test::random_runs(600); ++i) {
    for (std::size_t k = 0; k < names.size(); ++k) folder.write(names[k], good[k]);
    const std::size_t which = random() % names.size();
    std::string bad = good[which];
    for (std::uint64_t changes = 1 + random() % 4; changes > 0; --changes) {
      const std::size_t at = random() % bad.size();
      const std::uint64_t kind = random() % 4;
      if (kind == 0) bad[at] = static_cast<char>(random() % 256);
      if (kind == 1) bad.erase(at, 1 + random() % 20);
      if (kind == 2) bad.insert(at, bad.substr(random() % bad.size(), 1 + random() % 20));
      if (kind == 3) bad[at] = "0123456789-.,:{}[]\"\n"[random() % 20];
      if (bad.empty()) bad = "{";
    }
    if (random() % 16 == 0) bad.resize(random() % bad.size());
    folder.write(names[which], bad);
    try {
      (void)read_serving_folder(folder.path());
      ++read;
    } catch (const InputError& error) {
      CHECK_FALSE(std::string(error.what()).empty());
      ++refused;
    }
  }
  CHECK(refused > moelab::test::random_runs(200));
  CHECK(read > moelab::test::random_runs(20));
}

// The bars: 10 % from data sheets and the runtime's constants; with tables of these cards 3 %, and 10 % for
// the TTFT in the mean.
TEST_CASE("replay: three runs of vLLM are met") {
  const std::filesystem::path shared = MOELAB_SOURCE_DIR "/../shared/data";
  const std::filesystem::path runs = shared / "serving-llmservingsim";
  if (!std::filesystem::exists(runs)) {
    WARN("skipped: the measured runs are not beside the repository");
    return;
  }
  const auto check = [](const Json& json, double most) {
    for (const char* metric : {"tpot_s", "end_to_end_s"})
      for (const char* statistic : {"mean", "p99"}) {
        const Json& both = json.at(metric).at(statistic);
        INFO(metric << " " << statistic << " " << both.dump());
        CHECK(std::abs(both.at("predicted").get<double>() / both.at("measured").get<double>() - 1) < most);
      }
    const Json& ttft = json.at("ttft_s").at("mean");
    CHECK(std::abs(ttft.at("predicted").get<double>() / ttft.at("measured").get<double>() - 1) < 0.1);
  };
  for (const char* name : {"RTX4090_Llama-3.1-8B", "RTXPRO6000_Llama-3.1-8B", "RTXPRO6000_Qwen3-32B"}) {
    INFO(name);
    check(run_folder((runs / name).string()).json, 0.1);
  }
  const Json blocks = run_folder((runs / "RTX4090_Llama-3.1-8B").string()).json.at("kv_blocks");
  CHECK(std::abs(blocks.at("predicted").get<double>() / blocks.at("measured").get<double>() - 1) < 0.02);
  if (!std::filesystem::exists(shared / "hw-llmservingsim")) {
    WARN("skipped: the tables of kernels are not beside the repository");
    return;
  }
  check(run_folder((runs / "RTX4090_Llama-3.1-8B").string(), (shared / "hw-llmservingsim").string()).json,
        0.03);
}

}  // namespace moelab::replay_test

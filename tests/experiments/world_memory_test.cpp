// Published loads of llama.cpp: how rows become loads, and how far the law is from what they print.
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <set>

#include "experiments/world/memory_points.hpp"
#include "models/input_error.hpp"
#include "tests/scratch_folder.hpp"

namespace moelab::world_memory_test {

using namespace moelab::world;
namespace {

constexpr const char* kMemoryHeader =
    "id,source,build,runtime,graphs,model,weights,cpu_experts,streamed,gpus,n_ctx,n_ubatch,n_seq,unified,"
    "flash_attn,kv_type,copies,weights_mib,kv_mib,gpu_compute_mib,host_compute_mib,set_on,except,why_not,"
    "notes\n";

std::vector<MemoryRow> memory_rows_of(const std::string& rows) {
  const test::ScratchFolder folder;
  std::ofstream(folder / "rows.csv") << kMemoryHeader << rows;
  return read_memory_rows((folder / "rows.csv").string());
}

MemoryRow memory_row(const std::string& row) {
  return memory_rows_of(row + "\n").at(0);
}

double stated(const MemoryRow& row, MemoryItem item) {
  return stated_memory(row, law_constants())[static_cast<std::size_t>(item)].value();
}

/// ik_llama.cpp's pull request 370.
const std::string kQwen =
    "m,x,,ik_llama.cpp-cuda,f32-mask,qwen3-30b-a3b,,,,1,32768,512,,,1,f16,1,,3072,304.75,68.01,compute,,,";

TEST_CASE("memory rows: a row is a load", "[world]") {
  const MemoryRow row = memory_row(kQwen);
  CHECK(row.whole);
  CHECK(row.context == 32768);
  CHECK(row.options.micro_batch == 512.0);
  CHECK(row.copies == 1.0);
  CHECK(row.set_on == MemoryFlags{false, false, true, false});
  CHECK(row.measured == MemoryFigures{std::nullopt, 3072.0, 304.75, 68.01});
  // Keys and values of 48 layers; logits of 512 tokens with two hidden states.
  CHECK(stated(row, MemoryItem::kv) == Approx(3072));
  CHECK(stated(row, MemoryItem::gpu_compute) == Approx(512 * (151936 + 2 * 2048) * 4 / 1048576.0));
  const auto with = [](const std::string& from, const std::string& to) {
    std::string text = kQwen;
    text.replace(text.find(from), from.size(), to);
    return memory_row(text);
  };
  CHECK(stated(with(",f16,", ",q8_0,"), MemoryItem::kv) == Approx(3072 * 8.5 / 16));
  // Weights of 48 layers' experts, 2 bytes each: the host's, or of 12 layers a quarter of them.
  const auto with_experts = [](const std::string& on_cpu) {
    return memory_row("m,x,,ik_llama.cpp-cuda,f32-mask,qwen3-30b-a3b,," + on_cpu +
                      ",,1,32768,512,,,1,f16,1,9000,3072,304.75,68.01,compute,,,");
  };
  CHECK(with_experts("all").all_experts_on_cpu);
  CHECK(with_experts("12").cpu_expert_layers == 12);
  const auto weights = [&](const char* on_cpu) { return stated(with_experts(on_cpu), MemoryItem::weights); };
  const double experts = 48 * 128.0 * 3 * 768 * 2048 * 2 / 1048576;
  CHECK(weights("") - weights("all") == Approx(experts));
  CHECK(weights("") - weights("12") == Approx(experts / 4));
  CHECK(with("68.01,compute,,,", "68.01,compute,compute,why,").measured ==
        MemoryFigures{std::nullopt, 3072.0, std::nullopt, 68.01});
  CHECK(!with("68.01,compute,,,", "68.01,compute,,why,").whole);
  CHECK_THROWS_AS(stated_memory(with("f32-mask", "f8-mask"), law_constants()), InputError);
  CHECK_THROWS_AS(stated_memory(with("ik_llama.cpp-cuda", "vllm"), law_constants()), InputError);
  CHECK_THROWS_AS(stated_memory(with("qwen3-30b-a3b", "qwen9"), law_constants()), InputError);
  CHECK_THROWS_AS(with("3072", "many"), InputError);
  CHECK_THROWS_AS(with(",f16,", ",q9,"), InputError);
}

TEST_CASE("memory rows: near is 3 % or 150 MiB", "[world]") {
  CHECK(near_enough(100, 250));
  CHECK(!near_enough(100, 251));
  CHECK(near_enough(10000, 10300));
  CHECK(!near_enough(10000, 10301));
  CHECK(near_enough(10000, 9700));
}

TEST_CASE("memory rows: fitting finds the constants that made the figures", "[world]") {
  const LawConstants truth{5, 1, 3};
  std::vector<MemoryRow> rows;
  for (const char* runtime : {"llama.cpp-cuda", "ik_llama.cpp-cuda"})
    for (const char* model : {"qwen3-30b-a3b", "gpt-oss-20b", "mixtral-8x7b"}) {
      MemoryRow row =
          memory_row("m,x,,llama.cpp-cuda,2026-06," + std::string(model) + ",,,,1,4096,2048,,,1,,,,,1,,,,,");
      row.runtime = runtime;
      row.measured[2] = *stated_memory(row, truth)[2];
      rows.push_back(row);
    }
  CHECK(fit_law(rows) == truth);
}

TEST_CASE("memory rows: the collection reads, and most of it comes out near", "[world]") {
  const std::vector<MemoryRow> rows =
      read_memory_rows(MOELAB_SOURCE_DIR "/experiments/world/llamacpp_memory.csv");
  std::set<std::string> ids;
  int held = 0, near = 0;
  for (const MemoryRow& row : rows) {
    INFO(row.id);
    CHECK(ids.insert(row.id).second);
    CHECK(!row.source.empty());
    if (!row.whole) continue;
    const MemoryFigures figures = stated_memory(row, law_constants());
    for (std::size_t i = 0; i < kMemoryItems; ++i) {
      if (!row.measured[i]) continue;
      ++held;
      near += near_enough(*row.measured[i], *figures[i]) ? 1 : 0;
    }
    // The caches are arithmetic on the architecture: to what a log rounds to.
    if (row.measured[1]) CHECK(*figures[1] == Approx(*row.measured[1]).margin(1));
  }
  CHECK(held > 30);
  CHECK(near >= 0.8 * held);
}

}  // namespace
}  // namespace moelab::world_memory_test

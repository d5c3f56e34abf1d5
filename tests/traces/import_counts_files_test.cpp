// Counts from files of torch.save and from llama.cpp's importance matrices, written here by the formats'
// descriptions.
#include <catch2/catch.hpp>

#include "tests/random_runs.hpp"
#include "tests/traces/import_files.hpp"
#include "tests/traces/torch_files.hpp"
#include "tests/traces/trace_files.hpp"
#include "traces/import/counts_import.hpp"

namespace moelab::import_counts_files_test {

using namespace test;
using Catch::Matchers::Contains;

TEST_CASE("counts in files of torch.save: a tensor, a named one of several, one for each layer") {
  const ScratchFolder folder;
  for (std::uint64_t seed = 0; seed < random_runs(200u); ++seed) {
    Random random(seed, 31, 0);
    const std::uint64_t layers = 1 + random.below(4), experts = 1 + random.below(9);
    std::vector<float> floats(layers * experts);
    std::vector<std::int64_t> integers;
    for (float& value : floats) value = static_cast<float>(1 + random.below(1000));
    integers.assign(floats.begin(), floats.end());
    const std::vector<std::uint64_t> due(integers.begin(), integers.end());
    PickleText p;
    std::string value, name;
    switch (random.below(4)) {
      case 0:
        value = p.tensor("FloatStorage", {layers, experts}, floats);
        break;
      case 1:
        value = p.tensor("LongStorage", {1, layers, experts}, integers);
        break;
      case 2: {
        name = "counts";
        const std::string other = p.tensor("LongStorage", {1}, std::vector<std::int64_t>{7});
        value = "}(" + PickleText::unicode("other") + other + PickleText::unicode(name) +
                p.tensor("LongStorage", {layers, experts}, integers) + "u";
        break;
      }
      default:
        value = "](";
        for (std::uint64_t l = 0; l < layers; ++l)
          value += p.tensor("LongStorage", {experts},
                            std::vector(integers.begin() + static_cast<std::ptrdiff_t>(l * experts),
                                        integers.begin() + static_cast<std::ptrdiff_t>((l + 1) * experts)));
        value += "e";
        if (layers == 1) continue;  // one tensor [experts] is no table
    }
    write_bytes(folder / "in.pt", p.file(value));
    INFO("seed " << seed);
    const CountsTable table = import_counts_torch(folder / "in.pt", name);
    CHECK((table.prompts == 1 && table.layers == layers && table.experts == experts));
    CHECK(table.counts == due);
  }
}

TEST_CASE("files of torch.save that hold something else say what they hold and what would read it") {
  const ScratchFolder folder;
  const auto import = [&](const PickleText& p, const std::string& value, const std::string& name = "") {
    write_bytes(folder / "in.pt", p.file(value));
    return error_of([&] { import_counts_torch(folder / "in.pt", name); });
  };
  PickleText p;
  const std::string shares = p.tensor("FloatStorage", {1, 2}, std::vector<float>{0.25f, 0.75f});
  CHECK_THAT(import(p, shares),
             Contains("has 0.250000 in place 0, which is no whole number") && Contains("--scale"));
  const std::string line = p.tensor("LongStorage", {4}, std::vector<std::int64_t>{1, 2, 3, 4});
  CHECK_THAT(import(p, line), Contains("has the shape [4]; expected counts [layers, experts]"));
  const std::string dict = "}(" + PickleText::unicode("a") + line + PickleText::unicode("b") +
                           p.tensor("LongStorage", {2, 2}, std::vector<std::int64_t>{1, 2, 3, 4}) + "u";
  CHECK_THAT(import(p, dict), Contains("holds 2 tensors") &&
                                  Contains("has the shape [2, 2], unlike the 4 experts") &&
                                  Contains("--tensor"));
  CHECK(import(p, dict, "b").empty());
  CHECK_THAT(import(p, dict, "c"), Contains("has no tensor") && Contains("it has"));
  CHECK_THAT(import(p, PickleText::integer(3)), Contains("holds no tensor of counts"));
}

TEST_CASE("an importance matrix has the experts' counts of each layer") {
  const ScratchFolder folder;
  const auto import = [&](const std::string& bytes) {
    write_bytes(folder / "in.gguf", bytes);
    return import_counts_imatrix(folder / "in.gguf");
  };
  const CountsTable table = import(imatrix({{"blk.10.ffn_up_exps.weight.counts", {5, 6, 7}},
                                            {"blk.2.ffn_gate_exps.weight.counts", {1, 2, 0}},
                                            {"blk.2.ffn_up_exps.weight.counts", {1, 2, 0}},
                                            {"blk.2.ffn_up_exps.weight.in_sum2", {9, 9, 9}},
                                            {"blk.0.ffn_up.weight.counts", {9}}}));
  CHECK((table.prompts == 1 && table.layers == 2 && table.experts == 3));
  CHECK(table.layer_numbers == std::vector<std::uint64_t>{2, 10});
  CHECK(table.counts == std::vector<std::uint64_t>{1, 2, 0, 5, 6, 7});
  const auto error = [&](const std::string& bytes) { return error_of([&] { import(bytes); }); };
  CHECK_THAT(error(imatrix({}, "model")),
             Contains("its general.type is") && Contains("--output-format gguf"));
  CHECK_THAT(error(imatrix({{"blk.0.ffn_up.weight.counts", {9}}})), Contains("it is of a dense model"));
  CHECK_THAT(error(imatrix({{"blk.0.ffn_up_exps.weight.counts", {9}}})),
             Contains("one count for all experts"));
  CHECK_THAT(error(imatrix({{"blk.0.ffn_up_exps.weight.counts", {9, 1}},
                            {"blk.1.ffn_up_exps.weight.counts", {9, 1, 2}}})),
             Contains("has 3 experts, and the layers before have 2"));
  CHECK_THAT(error(imatrix({{"blk.0.ffn_up_exps.weight.counts", {9, 1.5f}}})),
             Contains("has a count of 1.500000"));
  const std::string whole = imatrix({{"blk.0.ffn_up_exps.weight.counts", {9, 1, 2}}});
  CHECK_THAT(error(whole.substr(0, whole.size() - 28)),
             Contains("is cut: the file ends before its 3 counts"));
  Random random(5);
  for (std::uint64_t i = 0; i < random_runs(2000u); ++i) error(mutated(whole, random));  // never a crash
}

TEST_CASE("counts of several files are prompts of one table, of one shape") {
  const auto table = [](std::uint32_t layers, std::uint32_t experts) {
    CountsTable t;
    t.prompts = 1;
    t.layers = layers;
    t.experts = experts;
    t.counts.assign(std::size_t{layers} * experts, layers);
    for (std::uint32_t l = 0; l < layers; ++l) t.layer_numbers.push_back(l);
    return t;
  };
  CountsTable all;
  append_counts(all, table(2, 3), "a", "a");
  append_counts(all, table(2, 3), "b", "a");
  CHECK((all.prompts == 2 && all.counts.size() == 12));
  CHECK_THAT(error_of([&] { append_counts(all, table(2, 4), "c", "a"); }),
             Contains("c: has counts of 2 layers and 4 experts, and a of 2 and 3"));
}

}  // namespace moelab::import_counts_files_test

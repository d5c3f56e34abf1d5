// Experts' tensors out of checkpoints: the families' names, in any order and any number of files; and what is
// missing, of another shape or type, named.
#include "hw/store/checkpoint_source.hpp"
#include "models/json.hpp"

#include <catch2/catch.hpp>
#include <filesystem>

#include "hw/store/expert_tensor_name.hpp"
#include "tests/hw/small_stores.hpp"

namespace moelab::checkpoint_source_test {
namespace {

using namespace moelab::test;
using Catch::Matchers::Contains;

struct Written {
  std::string name;
  std::vector<std::uint64_t> shape;
  std::vector<std::uint16_t> values;
  Dtype dtype = Dtype::bf16;
};

void write_checkpoint(const std::filesystem::path& path, const std::vector<Written>& written) {
  std::vector<Tensor> tensors;
  for (const Written& w : written)
    tensors.push_back({w.name, w.dtype, w.shape, std::as_bytes(std::span(w.values)), 0});
  write_safetensors(path, tensors, {{"format", "pt"}});
}

/// Everything a checkpoint has: experts of layers 0, 2 and 10, and other tensors; shuffled.
std::vector<Written> checkpoint(const std::string& block, const std::array<std::string, 3>& roles) {
  std::vector<Written> all = {
      {"model.embed_tokens.weight", {4, 6}, gaussian_weights(24, 1)},
      {"model.layers.2.mlp.shared_experts.gate_proj.weight", {5, 6}, gaussian_weights(30, 2)},
      {"model.layers.2.mlp.gate.weight", {3, 6}, gaussian_weights(18, 3)},
      {"model.layers.1.mlp.gate_proj.weight", {5, 6}, gaussian_weights(30, 4)}};
  std::uint64_t seed = 100;
  for (const int layer : {0, 2, 10}) {
    for (int expert = 0; expert < 11; ++expert) {  // 2 sorts after 10 by name: numbers must count
      for (std::size_t kind = 0; kind < 3; ++kind)
        all.push_back({"model.layers." + std::to_string(layer) + "." + block + ".experts." +
                           std::to_string(expert) + "." + roles[kind] + ".weight",
                       kind < 2 ? std::vector<std::uint64_t>{5, 6} : std::vector<std::uint64_t>{6, 5},
                       gaussian_weights(30, seed++)});
    }
  }
  Random(5).shuffle(std::span(all));
  return all;
}

const std::array<std::string, 3> kQwen = {"gate_proj", "up_proj", "down_proj"};
const std::array<std::string, 3> kMixtral = {"w1", "w3", "w2"};

/// Ordinals follow the seeds of checkpoint().
void require_experts(const CheckpointSource& source) {
  const ExpertWeights& weights = source.weights();
  REQUIRE((weights.layers == std::vector<std::uint32_t>{0, 2, 10}));
  REQUIRE(weights.experts == 11);
  REQUIRE((weights.kinds == std::vector<ExpertTensorKind>{{"gate", 5, 6}, {"up", 5, 6}, {"down", 6, 5}}));
  for (std::uint64_t t = 0; t < weights.tensors(); ++t)
    REQUIRE((tensor_of(source, t) == gaussian_weights(30, 100 + t)));
}

std::string error_of(const std::filesystem::path& path) {
  try {
    CheckpointSource source(path, "");
    return "";
  } catch (const InputError& error) {
    return to_string(error.problems().front());
  }
}

TEST_CASE("names of experts' tensors are taken apart") {
  const auto deepseek = parse_expert_tensor_name("model.layers.26.mlp.experts.63.up_proj.weight");
  REQUIRE(deepseek);
  CHECK(deepseek->layer == 26);
  CHECK(deepseek->expert == 63);
  CHECK(deepseek->kind == "up");
  CHECK(deepseek->of(3, 7) == "model.layers.3.mlp.experts.7.up_proj.weight");
  const auto mixtral = parse_expert_tensor_name("layers.0.block_sparse_moe.experts.7.w2.weight");
  REQUIRE(mixtral);
  CHECK(mixtral->kind == "down");  // w1 gate, w2 down, w3 up: MixtralBlockSparseTop2MLP
  const auto fused = parse_expert_tensor_name("language_model.model.layers.5.mlp.experts.gate_up_proj");
  REQUIRE(fused);
  CHECK(!fused->expert);
  CHECK(fused->kind == "gate_up");
  for (const char* name :
       {"", "model.layers.1.mlp.gate_proj.weight", "model.layers.1.mlp.shared_experts.gate_proj.weight",
        "model.layers..mlp.experts.0.up_proj.weight", "model.layers.1.mlp.experts.00.up_proj.weight",
        "model.layers.-1.mlp.experts.0.up_proj.weight",
        "model.layers.1.mlp.experts.0.up_proj.weight_scale_inv", "model.layers.1.mlp.experts.0.up_proj.bias",
        "model.layers.1.mlp.experts.gate_up_proj_blocks", "model.layers.1.mlp.experts.gate_up_proj_bias",
        "model.layers.1.mlp.experts.99999999999.up_proj.weight",
        "model.players.1.mlp.experts.0.up_proj.weight", "model.layers.1.mlp.experts.0.w1.weight",
        "model.layers.70000.mlp.experts.0.up_proj.weight"})
    CHECK_FALSE(parse_expert_tensor_name(name));
}

TEST_CASE("experts come in order out of one file, of either family, and survive packing") {
  const ScratchFolder folder;
  write_checkpoint(folder / "qwen.safetensors", checkpoint("mlp", kQwen));
  write_checkpoint(folder / "mixtral.safetensors", checkpoint("block_sparse_moe", kMixtral));
  require_experts(CheckpointSource(folder / "mixtral.safetensors", ""));
  const CheckpointSource source(folder / "qwen.safetensors", "");
  require_experts(source);
  CHECK(source.weights().model == "qwen");
  CHECK(CheckpointSource(folder / "qwen.safetensors", "mine").weights().model == "mine");
  pack(source, folder / "store", {"lz4hc", 2, 2, {}});
  CHECK_NOTHROW(verify_store(ChunkStoreReader(folder / "store"), source, 2, {}));
  // Other values under the same names: the same sizes, but no store of it.
  auto changed = checkpoint("mlp", kQwen);
  for (Written& w : changed)
    if (w.name == "model.layers.2.mlp.experts.4.up_proj.weight") w.values[29] ^= 1;
  write_checkpoint(folder / "qwen.safetensors", changed);
  const CheckpointSource other(folder / "qwen.safetensors", "");
  CHECK_THROWS_WITH(verify_store(ChunkStoreReader(folder / "store"), other, 2, {}),
                    Contains("layer 2, expert 4, up is not, bit for bit"));
  CHECK(other.identity() != source.identity());
}

TEST_CASE("a checkpoint that is cut short or goes away while it is read is an error, and no crash") {
  const ScratchFolder folder;
  const auto path = folder / "model.safetensors";
  write_checkpoint(path, checkpoint("mlp", kQwen));
  const CheckpointSource gone(path, "");
  std::filesystem::remove(path);  // which takes only the name
  require_experts(gone);
  write_checkpoint(path, checkpoint("mlp", kQwen));
  const CheckpointSource cut(path, "");
  std::filesystem::resize_file(path, 100);
  std::vector<std::uint16_t> into(30);
  CHECK_THROWS_WITH(cut.read({0, 0, 0}, into), Contains("model.safetensors") && Contains("cut short?"));
  CHECK_THROWS_AS(pack(cut, folder / "store", {"lz4hc", 2, 2, {}}), InputError);
  CHECK_FALSE(std::filesystem::exists(folder / "store"));
}

TEST_CASE("experts come out of a compressed file") {
  const ScratchFolder folder;
  write_checkpoint(folder / "model.safetensors.zst", checkpoint("mlp", kQwen));
  const CheckpointSource source(folder / "model.safetensors.zst", "");
  std::filesystem::resize_file(folder / "model.safetensors.zst", 0);
  require_experts(source);
}

TEST_CASE("experts come out of shards by their index, and what the index says wrong is named") {
  const ScratchFolder folder;
  const std::vector<Written> all = checkpoint("mlp", kQwen);
  nlohmann::json map;
  std::array<std::vector<Written>, 3> shards;
  for (std::size_t i = 0; i < all.size(); ++i) {
    shards[i % 3].push_back(all[i]);
    map[all[i].name] = "model-" + std::to_string(i % 3) + ".safetensors";
  }
  const auto index = folder / "model.safetensors.index.json";
  const auto write_index = [&](const nlohmann::json& weight_map) {
    write_bytes(index, nlohmann::json{{"metadata", {{"total_size", 1}}}, {"weight_map", weight_map}}.dump());
  };
  for (int s = 0; s < 3; ++s)
    write_checkpoint(folder / ("model-" + std::to_string(s) + ".safetensors"),
                     shards[static_cast<std::size_t>(s)]);
  write_index(map);
  require_experts(CheckpointSource(index, ""));
  require_experts(CheckpointSource(index.parent_path(), ""));

  const std::string name = "model.layers.2.mlp.experts.4.up_proj.weight";
  auto wrong = map;
  wrong[name] = map[name] == "model-0.safetensors" ? "model-1.safetensors" : "model-0.safetensors";
  write_index(wrong);
  CHECK_THAT(error_of(index), Contains(name) && Contains("the index says"));
  wrong = map;
  wrong.erase(name);
  write_index(wrong);
  CHECK_THAT(error_of(index), Contains("tensor '" + name + "' is missing"));
  for (const char* file : {"../model-0.safetensors", "/etc/passwd", "", "..", "a/b"}) {
    wrong[name] = file;
    write_index(wrong);
    CHECK_THAT(error_of(index), Contains("the name of a file beside the index"));
  }
  wrong[name] = 3;
  write_index(wrong);
  CHECK_THAT(error_of(index), Contains("the name of a file beside the index"));
  write_bytes(index, "{\"weight_map\": {}}");
  CHECK_THAT(error_of(index), Contains("weight_map"));
  for (const char* text : {"{", "[1]", "", "{\"weight_map\": [\"a\"]}"}) {
    write_bytes(index, text);
    CHECK_THAT(error_of(index), Contains("index.json"));
  }
  write_index(map);
  std::filesystem::remove(folder / "model-1.safetensors");
  CHECK_THAT(error_of(index), Contains("model-1.safetensors"));
}

TEST_CASE("experts that are all in one tensor are taken out of it") {
  const ScratchFolder folder;
  const std::vector<std::uint16_t> gate_up = gaussian_weights(3 * 6 * 10, 1),
                                   down = gaussian_weights(3 * 5 * 6, 2);
  std::vector<Written> all = {
      {"model.layers.4.mlp.experts.gate_up_proj", {3, 6, 10}, gate_up},
      {"model.layers.4.mlp.experts.gate_up_proj_bias", {3, 10}, gaussian_weights(30, 3)},
      {"model.layers.4.mlp.experts.down_proj", {3, 5, 6}, down}};
  write_checkpoint(folder / "fused.safetensors", all);
  const CheckpointSource source(folder / "fused.safetensors", "");
  CHECK(source.weights().experts == 3);
  CHECK((source.weights().kinds == std::vector<ExpertTensorKind>{{"gate_up", 6, 10}, {"down", 5, 6}}));
  for (std::uint32_t e = 0; e < 3; ++e) {
    CHECK(
        (tensor_of(source, 2 * e) == std::vector(gate_up.begin() + e * 60, gate_up.begin() + (e + 1) * 60)));
    CHECK((tensor_of(source, 2 * e + 1) == std::vector(down.begin() + e * 30, down.begin() + (e + 1) * 30)));
  }
  all[2].shape = {2, 5, 9};
  write_checkpoint(folder / "fused.safetensors", all);
  CHECK_THAT(error_of(folder / "fused.safetensors"), Contains("has not"));
  all[2] = {"model.layers.4.mlp.experts.0.up_proj.weight", {5, 6}, gaussian_weights(30, 4)};
  write_checkpoint(folder / "fused.safetensors", all);
  CHECK_THAT(error_of(folder / "fused.safetensors"), Contains("both one by one and all in one"));
}

TEST_CASE("a checkpoint that cannot be packed is refused by the tensor's name") {
  const ScratchFolder folder;
  const auto path = folder / "model.safetensors";
  const std::string name = "model.layers.2.mlp.experts.4.up_proj.weight";
  const auto error_after = [&](const std::function<void(std::vector<Written>&, std::size_t)>& change) {
    std::vector<Written> all = checkpoint("mlp", kQwen);
    const auto at = std::find_if(all.begin(), all.end(), [&](const Written& w) { return w.name == name; });
    change(all, static_cast<std::size_t>(at - all.begin()));
    write_checkpoint(path, all);
    return error_of(path);
  };
  CHECK_THAT(error_after([](auto& all, std::size_t i) { all[i].dtype = Dtype::f16; }),
             Contains("'" + name + "' (F16 [5, 6]) is not BF16"));
  CHECK_THAT(error_after([](auto& all, std::size_t i) {
               all[i].shape = {6, 5};
             }),
             Contains("'" + name + "' (BF16 [6, 5]) has not the shape of"));
  CHECK_THAT(error_after([](auto& all, std::size_t i) { all[i].shape = {30}; }), Contains(name));
  CHECK_THAT(error_after([](auto& all, std::size_t i) { all.erase(all.begin() + static_cast<long>(i)); }),
             Contains("tensor '" + name + "' is missing"));
  CHECK_THAT(error_after([](auto& all, std::size_t i) {
               all[i].name = "model.layers.2.mlp.experts.65000.up_proj.weight";
             }),
             Contains("is missing"));
  CHECK_THAT(error_after([&](auto& all, std::size_t) {
               all.push_back({"x." + name, {5, 6}, gaussian_weights(30, 1)});
             }),
             Contains(name) && Contains("the same part of the same expert"));
  CHECK_THAT(error_after([](auto& all, std::size_t) {
               std::erase_if(all,
                             [](const Written& w) { return w.name.find("down_proj") != std::string::npos; });
             }),
             Contains("no expert's tensor of kind 'down'"));
  CHECK_THAT(error_after([](auto& all, std::size_t) { all.resize(0); }), Contains("has no routed experts"));
  CHECK_THAT(error_after([](auto& all, std::size_t) {
               all = {{"model.layers.0.mlp.experts.gate_up_proj_blocks", {3}, {1, 2, 3}}};
             }),
             Contains("gate_up_proj_blocks' is of another form"));
  std::filesystem::remove(path);
  CHECK_THAT(error_of(path.parent_path()), Contains("holds neither"));
  CHECK_THAT(error_of(path), Contains("model.safetensors"));
}

}  // namespace
}  // namespace moelab::checkpoint_source_test

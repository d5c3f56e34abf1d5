// GGUF files: what is read of a header, and what never is.
#include "models/gguf.hpp"

#include <catch2/catch.hpp>
#include <fstream>
#include <functional>

#include "models/gguf_import.hpp"
#include "models/input_error.hpp"
#include "models/model_import.hpp"
#include "models/stored_weights.hpp"
#include "models/yaml_reader.hpp"
#include "tests/models/gguf_file.hpp"
#include "tests/models/model_files.hpp"
#include "tests/scratch_folder.hpp"

namespace moelab::gguf_test {
namespace {

using test::GgufOfModel;
using test::GgufText;

struct Folder {
  test::ScratchFolder scratch;
  std::string write(const std::string& name, const std::string& bytes) const {
    const std::filesystem::path path = scratch / name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path.string();
  }
};

std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

std::string refusal(const GgufText& file) {
  const Folder folder;
  const std::string path = folder.write("m.gguf", file.header());
  return refusal([&] { import_gguf(path); });
}

std::string kind_of(std::string_view model) {
  if (model.starts_with("gpt-oss")) return "gpt-oss";
  if (model.starts_with("granite-4.0-h")) return "granitehybrid";
  if (model.starts_with("nemotron-3")) return "nemotron_h_moe";
  return model.starts_with("llama-4") ? "llama4" : "anymoe";
}

void check_model(std::string_view name) {
  const Architecture model = test::model_of_file(name);
  if (model.has_encoder()) return;  // llama.cpp has its own, without experts
  INFO(name);
  const GgufOfModel written(model, kind_of(name));
  const Folder folder;
  const Architecture read = import_gguf(folder.write("m.gguf", written.file.header()), std::string(name));
  CHECK((read.layers == model.layers));
  CHECK(read.hidden == model.hidden);
  CHECK(read.vocab == model.vocab);
  CHECK(read.embedding_copies == model.embedding_copies);
  CHECK(read.stored.name == "gguf-q4_k_m");
  CHECK(total_bytes(read).value() == Approx(static_cast<double>(written.file.bytes())).epsilon(1e-12));
}

TEST_CASE("GGUF: every known model comes back from a header of its tensors, to the byte", "[gguf]") {
  for (const std::string_view name : test::kModelNames) check_model(name);
  for (const std::string_view name : test::kRoundedModelNames) check_model(name);
}

TEST_CASE("GGUF: a file that the gguf package wrote, of which only the beginning is here", "[gguf]") {
  const Architecture a = import_gguf(std::string(MOELAB_SOURCE_DIR) + "/tests/models/tiny-qwen3moe.gguf");
  // As tiny_gguf.py says.
  CHECK(total_bytes(a).value() == Approx(6316672).epsilon(1e-12));
  REQUIRE(a.layers.size() == 3);
  CHECK(a.hidden == 256);
  CHECK(a.vocab == 64);
  CHECK(a.moe().experts == 8);
  CHECK(a.moe().top_k == 2);
  CHECK(a.moe().width == 512);
  const Attention& t = a.layers[0].attention;
  CHECK(t.heads == 4);
  CHECK(t.kv_heads == 2);
  CHECK(t.head_dim == 128);
  CHECK(t.qk_norm);
  CHECK_FALSE(t.qk_norm_full);
  CHECK(a.stored.of(WeightPart::embedding) == 144.0 / 256);
  CHECK(a.stored.of(WeightPart::head) == 210.0 / 256);
  CHECK(a.stored.of(WeightPart::router) == 4);
  // Of nine expert tensors a layer's down-projection has 6.5625 bits, the others 4.5.
  CHECK(a.stored.of(WeightPart::experts) == Approx((8 * 4.5 + 6.5625) / 9 / 8));
  CHECK(find_model(std::string(MOELAB_SOURCE_DIR) + "/tests/models/tiny-qwen3moe.gguf") == a);
}

TEST_CASE("GGUF: types are as long as the formats of the same name", "[gguf]") {
  int known = 0;
  for (std::uint32_t id = 0; id < 256; ++id) {
    const gguf::Type* type = gguf::find_type(id);
    if (type == nullptr) continue;
    for (const WeightFormat& format : weight_formats()) {
      if (format.name != type->name) continue;
      ++known;
      CHECK(8.0 * type->block_bytes / type->block == Approx(format.bits));
      CHECK(type->row_bytes == format.row_bytes);
    }
  }
  CHECK(known == 42);
}

/// A good little model, spoilt by what the cases add to or take from it.
Architecture little() {
  Architecture a = test::model_of_file("olmoe-1b-7b");
  a.layers.resize(2);
  return a;
}

TEST_CASE("GGUF: what is cut, repeated or beyond the file is an error that says where", "[gguf]") {
  const Architecture a = little();
  const std::string good = GgufOfModel(a).file.header();
  const Folder folder;
  // Not a single prefix may be taken for a whole header, or crash.
  for (std::size_t length = 0; length < good.size(); length += length < 400 ? 1 : 7) {
    const std::string path = folder.write("cut.gguf", good.substr(0, length));
    const std::string said = refusal([&] { gguf::read_header(path); });
    INFO(length << ": " << said);
    REQUIRE(said.find("ends within its header") != std::string::npos);
  }
  struct Case {
    std::size_t at;
    std::string bytes, said;
  };
  const std::string many(8, '\x7F');
  const std::vector<Case> cases{{0, "GGUX", "no GGUF"},
                                {4, std::string("\0\0\0\3", 4), "big-endian"},
                                {4, std::string("\1\0\0\0", 4), "version 1"},
                                {8, many, "ends within"},  // tensors
                                {16, many, ""},            // values: tensors are read as such
                                {24, many, "bytes (at most 1024)"}};
  for (const Case& c : cases) {
    std::string bytes = good;
    bytes.replace(c.at, c.bytes.size(), c.bytes);
    const std::string path = folder.write("bad.gguf", bytes);
    const std::string said = refusal([&] { gguf::read_header(path); });
    INFO(c.at << ": " << said);
    CHECK(said != "accepted");
    CHECK(said.find(c.said) != std::string::npos);
  }
  // The last eight bytes say where the last tensor begins.
  const std::string before = good.substr(0, good.size() - 8);
  const auto at = [&](const std::string& place) {
    const std::string path = folder.write("place.gguf", before + place);
    return refusal([&] { gguf::read_header(path); });
  };
  CHECK(at(std::string(8, '\0')).find("overlaps the tensor before it") != std::string::npos);
  CHECK(at(std::string("\1\0\0\0\0\0\0\0", 8)).find("32 (general.alignment) does not divide") !=
        std::string::npos);
  CHECK(refusal([&] { gguf::read_header(folder.scratch.path().string()); }).find("not a file") !=
        std::string::npos);
  CHECK(refusal([&] { gguf::read_header("no/such.gguf"); }).find("not a file") != std::string::npos);
}

TEST_CASE("GGUF: what an architecture cannot say is refused by name", "[gguf]") {
  const Architecture a = little();
  struct Case {
    const char* what;
    std::function<void(GgufText&)> spoil;
    const char* said;
  };
  const auto tensor = [](const char* name, std::vector<std::uint64_t> shape, std::uint32_t type) {
    return [=](GgufText& file) { file.tensor(name, shape, type); };
  };
  const std::vector<Case> cases{
      {"a state space in part", tensor("blk.0.ssm_in.weight", {64, 64}, 0),
       "'blk.0.ssm_in.weight': layers of this kind"},
      {"short convolutions", tensor("blk.0.shortconv.conv.weight", {3, 64}, 0),
       "'blk.0.shortconv.conv.weight': layers of this kind"},
      {"indexer", tensor("blk.1.indexer.proj.weight", {64, 64}, 0), "layers of this kind"},
      {"dense beside experts", tensor("blk.0.ffn_up.weight", {64, 64}, 0), "layers of this kind"},
      {"a strange tensor", tensor("per_layer_token_embd.weight", {64, 64}, 0), "of no part"},
      {"a layer too many", tensor("blk.2.attn_q.weight", {64, 64}, 0), "beyond the 2"},
      {"twice", tensor("blk.0.attn_q.weight", {64, 64}, 0), "for a second time"},
      {"unknown type", tensor("blk.0.x.weight", {64, 64}, 99), "type 99, which is not known"},
      {"cut block", tensor("blk.0.x.weight", {100, 64}, 12), "rows of 100 weights, which q4_k cannot"},
      {"no dimension", tensor("blk.0.x.weight", {0, 64}, 0), "dimension of 0"},
      {"five dimensions", tensor("blk.0.x.weight", {1, 1, 1, 1, 1}, 0), "5 dimensions"},
      {"too much", tensor("x", {1000000, 1000000, 1000000}, 0), "more than 1e15"},
  };
  for (const Case& c : cases) {
    GgufText file = GgufOfModel(a).file;
    c.spoil(file);
    const std::string said = refusal(file);
    INFO(c.what << ": " << said);
    CHECK(said.find(c.said) != std::string::npos);
  }
}

/// One layer of a hybrid, and what the cases add to it.
std::string hybrid_refusal(const char* model, std::size_t layer,
                           const std::function<void(GgufText&)>& spoil) {
  Architecture a = test::model_of_file(model);
  a.layers = {a.layers[layer]};
  GgufText file = GgufOfModel(a, "anymoe").file;
  spoil(file);
  return refusal(file);
}

TEST_CASE("GGUF: state spaces other than Mamba-2, or beside attention, are refused by name", "[gguf]") {
  const auto nothing = [](GgufText&) {};
  CHECK(hybrid_refusal("granite-4.0-h-tiny", 0, nothing) == "accepted");
  CHECK(hybrid_refusal("nemotron-3-nano-30b-a3b", 0, nothing) == "accepted");
  // Mamba-1, as Jamba has it: the step by a projection of its own.
  for (const char* name : {"blk.0.ssm_x.weight", "blk.0.ssm_dt.weight"}) {
    const std::string said = hybrid_refusal("granite-4.0-h-tiny", 0, [&](GgufText& file) {
      file.tensor(name, {64, 64}, GgufText::kFp32);
    });
    INFO(said);
    CHECK(said.find("layers of this kind (architecture 'anymoe') are not covered") != std::string::npos);
  }
  // Falcon-H1: attention and a state space side by side.
  const std::string side_by_side = hybrid_refusal("granite-4.0-h-tiny", 0, [](GgufText& file) {
    for (const char* matrix : {"attn_q", "attn_k", "attn_v", "attn_output"})
      file.tensor("blk.0." + std::string(matrix) + ".weight", {1536, 1536}, GgufText::kQ8_0);
  });
  INFO(side_by_side);
  CHECK(side_by_side.find("layer 0: attention and a state space side by side") != std::string::npos);
  // Keys and values, but nothing that is made of them.
  const std::string cut = hybrid_refusal("nemotron-3-nano-30b-a3b", 1, [](GgufText& file) {
    file.tensor("blk.0.attn_k.weight", {2688, 256}, GgufText::kQ8_0);
  });
  INFO(cut);
  CHECK(cut.find("layer 0: attention without an output") != std::string::npos);
}

TEST_CASE("GGUF: dense models, layers that predict, experts one by one, pieces", "[gguf]") {
  const Folder folder;
  Architecture dense = little();
  for (Layer& layer : dense.layers) layer.feed_forward = {.width = 1024};
  const GgufOfModel written(dense);
  const Architecture read = import_gguf(folder.write("dense.gguf", written.file.header()));
  CHECK((read.layers == dense.layers));
  CHECK_FALSE(read.is_moe());
  CHECK(total_bytes(read).value() == Approx(static_cast<double>(written.file.bytes())).epsilon(1e-12));
  const std::string yaml = architecture_to_yaml(read);
  Problems problems;
  CHECK((read_architecture(YamlDocument::from_text("dense.yaml", yaml, problems)) == read));
  problems.throw_if_any();

  // The last of three blocks predicts: llama.cpp loads it not.
  Architecture three = little();
  three.layers.push_back(three.layers.back());
  GgufText predicting = GgufOfModel(three).file;
  predicting.integer("anymoe.nextn_predict_layers", 1);
  const Architecture two = import_gguf(folder.write("mtp.gguf", predicting.header()));
  CHECK((two.layers == little().layers));
  CHECK(two.source.find("left out") != std::string::npos);

  GgufText single;
  single.text("general.architecture", "llama");
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, std::uint32_t>>{{"block_count", 1},
                                                          {"embedding_length", 64},
                                                          {"attention.head_count", 2},
                                                          {"expert_used_count", 1}})
    single.integer("llama." + key, value);
  single.tensor("token_embd.weight", {64, 100}, GgufText::kFp32);
  single.tensor("output_norm.weight", {64}, GgufText::kFp32);
  for (const char* name : {"attn_norm", "ffn_norm"})
    single.tensor("blk.0." + std::string(name) + ".weight", {64}, GgufText::kFp32);
  for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"})
    single.tensor("blk.0." + std::string(name) + ".weight", {64, 64}, GgufText::kQ8_0);
  single.tensor("blk.0.ffn_gate_inp.weight", {64, 2}, GgufText::kFp32);
  for (const char* expert : {"0", "1"}) {
    for (const char* matrix : {"ffn_gate.", "ffn_up."})
      single.tensor("blk.0." + std::string(matrix) + expert + ".weight", {64, 96}, GgufText::kQ8_0);
    single.tensor("blk.0.ffn_down." + std::string(expert) + ".weight", {96, 64}, GgufText::kQ8_0);
  }
  const Architecture old = import_gguf(folder.write("old.gguf", single.header()));
  CHECK(old.moe().experts == 2);
  CHECK(old.moe().width == 96);
  CHECK(old.embedding_copies == 1);
  CHECK(total_bytes(old).value() == Approx(static_cast<double>(single.bytes())).epsilon(1e-12));
}

TEST_CASE("GGUF: pieces are one model, and a missing one is named", "[gguf]") {
  const Folder folder;
  const Architecture a = little();
  GgufText first = GgufOfModel(a).file, second;
  // All tensors in the second, as llama-gguf-split --no-tensor-first-split does it: the first has the values.
  first.integer("split.count", 2);
  second.text("general.architecture", "anymoe");
  second.integer("split.count", 2);
  second.tensor("rope_freqs.weight", {64}, GgufText::kFp32);
  const std::string path = folder.write("m-00001-of-00002.gguf", first.header());
  CHECK(refusal([&] { import_gguf(path); }).find("m-00002-of-00002.gguf is not beside it") !=
        std::string::npos);
  const std::string other = folder.write("m-00002-of-00002.gguf", second.header());
  const Architecture whole = import_gguf(path);
  CHECK((whole.layers == a.layers));
  CHECK(total_bytes(whole).value() ==
        Approx(static_cast<double>(first.bytes() + second.bytes())).epsilon(1e-12));
  CHECK(total_bytes(import_gguf(other)) == total_bytes(whole));
  const std::string lone = folder.write("lone.gguf", first.header());
  CHECK(refusal([&] { import_gguf(lone); }).find("NAME-00001-of-00002.gguf") != std::string::npos);
}

}  // namespace
}  // namespace moelab::gguf_test

// Reading and writing model files.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "models/architecture.hpp"
#include "tests/models/model_files.hpp"
#include "tests/models/random_architecture.hpp"
#include "tests/random_runs.hpp"
namespace moelab::architecture_yaml_test {
namespace {

using test::Dice;
using test::kModelNames;
using test::model_of_file;
using test::random_architecture;
TEST_CASE("a model file written from an architecture reads back to it", "[architecture]") {
  std::vector<std::string_view> names(kModelNames.begin(), kModelNames.end());
  names.insert(names.end(), test::kRoundedModelNames.begin(), test::kRoundedModelNames.end());
  names.insert(names.end(), test::kDenseModelNames.begin(), test::kDenseModelNames.end());
  for (const std::string_view name : names) {
    INFO(name);
    const Architecture a = model_of_file(name);
    CHECK(test::model_of_text(architecture_to_yaml(a)) == a);
  }
  Dice dice(2);
  for (int i = 0; i < moelab::test::random_runs(2000); ++i) {
    const Architecture a = random_architecture(dice);
    const std::string text = architecture_to_yaml(a);
    INFO(text);
    REQUIRE(test::model_of_text(text) == a);
  }
}

TEST_CASE("a written model file is short: patterns are found", "[architecture]") {
  const auto count = [](const std::string& text, const std::string& part) {
    int n = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
    return n;
  };
  const std::string next = architecture_to_yaml(model_of_file("qwen3-next-80b-a3b"));
  CHECK(count(next, "kind: linear") == 1);
  CHECK(count(next, "repeat: 3") == 1);
  CHECK(count(next, "kind: kv_heads") == 1);
  CHECK(count(architecture_to_yaml(model_of_file("gpt-oss-120b")), "kind: kv_heads") == 2);
  CHECK(count(architecture_to_yaml(model_of_file("switch-large-128")), "moe_every: 2") == 2);
  CHECK(count(architecture_to_yaml(model_of_file("deepseek-v3")), "dense_first: 3") == 1);
  // Patterns of three and four layers, cut off: a b b a b b a, and a a b a a a b.
  const auto blocks = [&](std::initializer_list<std::size_t> windowed) {
    Architecture a = model_of_file("mixtral-8x7b");
    a.layers.resize(7);
    for (const std::size_t layer : windowed) a.layers[layer].attention.window = 9;
    return count(architecture_to_yaml(a), "kind: kv_heads");
  };
  CHECK(blocks({1, 2, 4, 5}) == 2);  // a, 2 b
  CHECK(blocks({2, 6}) == 3);        // 2 a, b, a
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

TEST_CASE("layers of one part are said letter by letter", "[architecture]") {
  const std::string text = R"(name: m
hidden: 8
vocab: 16
layers: 5
pattern: AbAcd
blocks:
  A: {kind: mamba2, heads: 6, head_dim: 5, groups: 2, state: 3, conv_kernel: 4}
  b: {kind: none, feed_forward: moe}
  c: {heads: 2, head_dim: 4}
  d: {heads: 2, head_dim: 4, feed_forward: dense}
moe: {experts: 4, top_k: 2, width: 6}
dense: {width: 12}
)";
  const Architecture a = test::model_of_text(text);
  REQUIRE(a.layers.size() == 5);
  const Attention& t = a.layers[2].attention;
  CHECK(t.kind == Attention::Kind::mamba2);
  CHECK(t.linear_value_heads == 6);
  CHECK(t.value_dim == 5);
  CHECK(t.linear_key_heads == 2);
  CHECK(t.head_dim == 3);
  CHECK(t.conv_bias);
  CHECK_FALSE((t.bias || t.output_bias));
  CHECK_FALSE(a.layers[0].has_feed_forward());
  CHECK_FALSE(a.layers[1].has_mixer());
  CHECK(a.layers[1].feed_forward == a.moe());
  CHECK(a.layers[3].attention.kv_heads == 2);
  CHECK_FALSE(a.layers[3].has_feed_forward());
  CHECK(a.layers[4].feed_forward.width == 12);
  CHECK(test::model_of_text(architecture_to_yaml(a)) == a);
  // A model of state spaces alone needs neither experts nor a dense part.
  const Architecture pure = test::model_of_text(
      "name: m\nhidden: 8\nvocab: 16\nlayers: 2\npattern: MM\nblocks:\n"
      "  M: {kind: mamba2, heads: 6, head_dim: 5, state: 3, conv_kernel: 4, conv_bias: false}\n");
  CHECK(pure.layers[0].attention.linear_key_heads == 1);
  CHECK_FALSE(pure.layers[0].attention.conv_bias);
  CHECK(test::model_of_text(architecture_to_yaml(pure)) == pure);

  struct Case {
    std::string_view from, to, said;
    int line;
  };
  for (const Case& c : std::vector<Case>{
           {"AbAcd", "AbAc", "pattern has 4 letters for 5 layers", 5},
           {"AbAcd", "AbAxd", "pattern has a letter that 'blocks' does not have", 5},
           {"AbAcd", "AbAcc", "pattern does not use every block", 6},
           {"pattern: AbAcd", "pattern: AbAcd\nmoe_every: 2", "'pattern' says which layers there are", 6},
           {"pattern: AbAcd", "pattern: AbAcd\nattention: {heads: 2, head_dim: 4}", "'pattern' says", 6},
           {"  c:", "  cc:", "a block is called by one letter", 9},
           {"groups: 2", "groups: 4", "groups (4) must divide heads (6)", 7},
           {"groups: 2", "groups: 0", "groups", 7},
           {"state: 3, ", "", "state", 7},
           {"conv_kernel: 4", "conv_kernel: 4, window: 8", "window", 7},
           {"feed_forward: moe", "feed_forward: none", "a layer needs attention, a state space or a feed", 8},
           {"feed_forward: moe", "feed_forward: some", "feed_forward", 8},
           {"moe: {experts: 4, top_k: 2, width: 6}\n", "", "this block has experts", 8},
           {"dense: {width: 12}\n", "", "some layers are dense", 0},
           {"pattern: AbAcd\n", "", "blocks", 5}}) {
    const std::string wrong = replaced(text, c.from, c.to);
    INFO(wrong);
    try {
      test::model_of_text(wrong);
      FAIL_CHECK("no error");
    } catch (const InputError& error) {
      INFO(error.what());
      const bool said = std::any_of(error.problems().begin(), error.problems().end(), [&](const Problem& p) {
        return p.what.find(c.said) != std::string::npos && (c.line == 0 || p.line == c.line);
      });
      CHECK(said);
    }
  }
}

TEST_CASE("an architecture that a model file cannot say is an error", "[architecture]") {
  Architecture a = model_of_file("deepseek-v3");
  a.layers[1].feed_forward.width = 7;  // dense layers of two widths
  CHECK_THROWS_AS(architecture_to_yaml(a), InputError);
  a = model_of_file("switch-large-128");
  a.layers.back().cross_attention = false;
  CHECK_THROWS_AS(architecture_to_yaml(a), InputError);
  // 53 kinds of layers, some of them of one part alone.
  a = model_of_file("nemotron-3-nano-30b-a3b");
  a.layers.resize(53, a.layers[0]);
  for (std::size_t i = 0; i < a.layers.size(); ++i) {
    a.layers[i] = a.layers[0];
    a.layers[i].attention.head_dim = static_cast<int>(i) + 1;
  }
  CHECK_THROWS_AS(architecture_to_yaml(a), InputError);
  a.layers.pop_back();
  CHECK(test::model_of_text(architecture_to_yaml(a)).layers == a.layers);
  a = model_of_file("switch-large-128");
  std::reverse(a.layers.begin(), a.layers.end());
  CHECK_THROWS_AS(architecture_to_yaml(a), InputError);
  a.layers.clear();
  CHECK_THROWS_AS(architecture_to_yaml(a), InputError);
}

constexpr std::string_view kGood = R"(name: m
hidden: 8
vocab: 16
layers: 4
dense_first: 1
attention: {heads: 2, head_dim: 4}
moe: {experts: 4, top_k: 2, width: 6}
dense: {width: 12}
)";

TEST_CASE("defaults of a model file", "[architecture]") {
  const Architecture a = test::model_of_text(kGood);
  CHECK(a.title == "m");
  CHECK(a.embedding_copies == 2);
  CHECK(a.stored == StoredWeights());
  CHECK(a.extra_weights == 0);
  CHECK_FALSE(a.published_weights);
  CHECK(a.layers[0].attention.kv_heads == 2);
  CHECK(a.layers[0].attention.value_dim == 4);
  CHECK(a.layers[0].feed_forward.kind == FeedForward::Kind::dense);
  CHECK(a.moe().matrices == 3);
  const Architecture holes =
      test::model_of_text(replaced(std::string(kGood), "dense_first: 1", "dense_layers: [2]"));
  CHECK(holes.moe_layers() == std::vector<int>{0, 1, 3});
}

TEST_CASE("a wrong model file is an error at its line that names the key", "[architecture]") {
  struct Case {
    std::string_view from, to, key;
    int line;
  };
  const std::vector<Case> cases{
      {"name: m", "name: M m", "name", 1},
      {"name: m", "name: ''", "name", 1},
      {"hidden: 8", "hidden: 0", "hidden", 2},
      {"hidden: 8", "hidden: -8", "hidden", 2},
      {"hidden: 8", "hidden: 1e3", "hidden", 2},
      {"hidden: 8", "hidden: 99999999999999999999", "hidden", 2},
      {"hidden: 8\n", "", "hidden", 0},
      {"hidden: 8", "hiden: 8", "hiden", 2},
      {"vocab: 16", "vocab: many", "vocab", 3},
      {"layers: 4", "layers: 10001", "layers", 4},
      {"layers: 4", "layers: 1", "layer", 4},  // the only layer is dense
      {"dense_first: 1", "dense_first: 5", "dense_first", 5},
      {"dense_first: 1", "moe_every: 0", "moe_every", 5},
      {"dense_first: 1", "dense_layers: [4]", "dense", 5},
      {"dense_first: 1", "dense_layers: 1", "dense_layers", 5},
      {"dense_first: 1", "dense_first: 0", "dense", 8},  // 'dense' without a dense layer
      {"dense: {width: 12}\n", "", "dense", 0},
      {"heads: 2", "heads: 3, kv_heads: 2", "kv_heads", 6},
      {"heads: 2", "heads: 2, rope_dim: 3", "rope_dim", 6},
      {"heads: 2", "kind: mha, heads: 2", "kind", 6},
      {"heads: 2", "kind: linear, key_heads: 2, value_heads: 3, conv_kernel: 4", "key_heads", 6},
      {"attention: {heads: 2, head_dim: 4}", "attention: []", "attention", 6},
      {"attention: {heads: 2, head_dim: 4}", "attention: full", "attention", 6},
      {"attention: {heads: 2, head_dim: 4}\n", "", "attention", 0},
      {"attention: {heads: 2, head_dim: 4}", "attention: [{repeat: 5, heads: 2, head_dim: 4}]", "repeat", 6},
      {"attention: {heads: 2, head_dim: 4}", "attention: [{repeat: 0, heads: 2, head_dim: 4}]", "repeat", 6},
      {"top_k: 2", "top_k: 5", "top_k", 7},
      {"top_k: 2", "top_k: 2, shared_gate: true", "shared_gate", 7},
      {"top_k: 2", "top_k: 2, matrices: 4", "matrices", 7},
      {"top_k: 2", "top_k: 2, matrices: 1", "matrices", 7},
      {"experts: 4", "experts: 65537", "experts", 7},
      {"dense: {width: 12}", "dense: {width: 12}\nencoder: {}", "layers", 9},
      {"dense: {width: 12}", "dense: {width: 12}\npublished: {weights: 0}", "weights", 9},
      {"dense: {width: 12}", "dense: {width: 12}\nbytes_per_weight: 0", "bytes_per_weight", 9},
      {"dense: {width: 12}", "dense: {width: 12}\nextra_weights: -1", "extra_weights", 9},
  };
  for (const Case& c : cases) {
    const std::string text = replaced(std::string(kGood), c.from, c.to);
    INFO(text);
    try {
      test::model_of_text(text);
      FAIL_CHECK("no error");
    } catch (const InputError& error) {
      bool said = false;
      for (const Problem& p : error.problems()) {
        INFO(to_string(p));
        said = said || (p.what.find(c.key) != std::string::npos && (c.line == 0 || p.line == c.line));
      }
      INFO(error.what());
      CHECK(said);
    }
  }
}

TEST_CASE("everything wrong in a model file is said at once", "[architecture]") {
  std::string text = replaced(std::string(kGood), "hidden: 8", "hidden: 0");
  text = replaced(text, "top_k: 2", "top_k: 5");
  text = replaced(text, "head_dim: 4", "head_dim: x");
  try {
    test::model_of_text(text);
    FAIL("no error");
  } catch (const InputError& error) {
    CHECK(error.problems().size() == 3);
  }
}

TEST_CASE("the largest sizes a model file allows are refused without harm", "[architecture]") {
  CHECK_THROWS_AS(test::model_of_text(R"(name: huge
hidden: 1000000
vocab: 100000000
layers: 10000
attention: {heads: 65536, head_dim: 65536}
moe: {experts: 65536, top_k: 65536, width: 10000000, shared_width: 10000000}
)"),
                  InputError);
  // a little over a million routed experts: 16 * 65536
  const std::string many = R"(name: many
hidden: 1
vocab: 1
layers: 15
attention: {heads: 1, head_dim: 1}
moe: {experts: 65536, top_k: 1, width: 1}
)";
  CHECK(test::model_of_text(many).moe_layers().size() == 15);
  CHECK_THROWS_AS(test::model_of_text(replaced(many, "15", "16")), InputError);
  // few enough experts, too many weights: 1e6 * 65536 * 65536 * 4 a layer
  CHECK_THROWS_AS(test::model_of_text(R"(name: huge
hidden: 1000000
vocab: 1
layers: 1
attention: {heads: 65536, head_dim: 65536}
moe: {experts: 1, top_k: 1, width: 1}
)"),
                  InputError);
}

TEST_CASE("no text makes the reader of model files fail otherwise than by InputError", "[architecture]") {
  Dice dice(3);
  const std::string base = architecture_to_yaml(model_of_file("switch-large-128"));
  const std::string letters = "0123456789-{}[],:\n \"'x";
  int accepted = 0;
  for (int i = 0; i < moelab::test::random_runs(1500); ++i) {
    std::string text = base;
    for (int n = dice.from(1, 3); n > 0; --n) {
      const auto at = static_cast<std::size_t>(dice.from(0, static_cast<int>(text.size()) - 1));
      const char c = letters[static_cast<std::size_t>(dice.from(0, static_cast<int>(letters.size()) - 1))];
      if (dice.coin()) {
        text[at] = c;
      } else {
        text.insert(at, 1, c);
      }
    }
    try {
      const Architecture a = test::model_of_text(text);
      ++accepted;
      REQUIRE(a.is_moe());
      REQUIRE(test::model_of_text(architecture_to_yaml(a)) == a);
    } catch (const InputError&) {
    }
  }
  CHECK(accepted > moelab::test::random_runs(100));   // changes of titles and numbers
  CHECK(accepted < moelab::test::random_runs(1400));  // changes of keys and structure
}

}  // namespace
}  // namespace moelab::architecture_yaml_test

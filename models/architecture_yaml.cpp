// clang-format off
// A model file:
//
//   name: qwen3-30b-a3b        # [a-z0-9._-], what scenarios call it
//   title: Qwen3-30B-A3B       # default: the name
//   source: where the numbers are from, and what is special
//   hidden: 2048
//   vocab: 151936
//   embedding_copies: 2        # default 2; 1: tied
//   weights: {experts: mxfp4}  # default bf16: a name for all, or formats by part (models/stored_weights.hpp)
//   bytes_per_weight: 2        # instead of it: bytes of each weight as stored, or {name, attention: 2, ..., kv: 2} by part
//   extra_weights: 0           # default 0; what the formulas leave out, said in `source`
//   layers: 48                 # decoder layers
//   dense_first: 0             # default 0: the first so many layers are dense
//   moe_every: 1               # default 1: of layers 1, 2, 3, ... every n-th has experts
//   dense_layers: []           # default none: further dense layers, by index from 0
//   attention:                 # one block, or a list of blocks that repeats over the layers
//     kind: kv_heads           # kinds kv_heads (default), mla, linear, mamba2; in a list, "repeat: 3" stands for three
//     ...
//   moe: {experts: 128, top_k: 8, width: 768}  # a model without it is dense
//   dense: {width: 6144}       # needed if and only if some layer is dense
//   encoder:                   # makes the model an encoder-decoder; every decoder layer attends to the encoder
//     layers: 24               # and dense_first, moe_every, dense_layers, attention as above
//   pattern: MEMEM             # instead of attention, dense_first, moe_every and dense_layers: a letter a layer,
//   blocks:                    # of blocks that are one part of a layer or two; feed_forward none (default), dense, moe
//     M: {kind: mamba2, heads: 64, head_dim: 64, groups: 8, state: 128, conv_kernel: 4}  # groups default 1, conv_bias true
//     E: {kind: none, feed_forward: moe}
//   published: {weights: 30.5e9, active_weights: 3.3e9, source: model card}
// clang-format on
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "models/architecture.hpp"
#include "models/stored_weights.hpp"
#include "models/yaml_reader.hpp"

namespace moelab {
namespace {

constexpr int kMostLayers = 10000;
constexpr int kMostHeads = 65536;
constexpr int kMostHeadDim = 65536;
constexpr int kMostWidth = 10'000'000;
constexpr int kMostExperts = 65536;
constexpr std::size_t kLongestName = 100;

// Reads an integer that is in range whatever the file says, so that reading can go on after a problem.
int integer(const YamlMap& map, std::string_view key, int low, int high,
            std::optional<std::int64_t> fallback = {}) {
  return static_cast<int>(std::clamp<std::int64_t>(map.integer(key, low, high, fallback), low, high));
}

void report(const YamlMap& map, const std::optional<Fault>& found) {
  if (found) map.fail(found->key, found->what);
}

Attention read_kv_heads(const YamlMap& map) {
  static const std::array<std::string, 3> norms{"none", "per_head", "all_heads"};
  Attention t;
  t.heads = integer(map, "heads", 1, kMostHeads);
  t.kv_heads = integer(map, "kv_heads", 1, kMostHeads, t.heads);
  t.head_dim = integer(map, "head_dim", 1, kMostHeadDim);
  t.value_dim = integer(map, "value_dim", 1, kMostHeadDim, t.head_dim);
  t.bias = map.boolean("bias", false);
  t.output_bias = map.boolean("output_bias", false);
  const std::size_t norm = map.choice("qk_norm", norms, 0);
  t.qk_norm = norm != 0;
  t.qk_norm_full = norm == 2;
  t.output_gate = map.boolean("output_gate", false);
  t.sinks = map.boolean("sinks", false);
  t.window = integer(map, "window", 0, 1'000'000'000, 0);
  return t;
}

Attention read_mla(const YamlMap& map) {
  Attention t;
  t.kind = Attention::Kind::mla;
  t.heads = integer(map, "heads", 1, kMostHeads);
  t.rope_dim = integer(map, "rope_dim", 0, kMostHeadDim);
  t.head_dim = integer(map, "nope_dim", 1, kMostHeadDim) + t.rope_dim;
  t.value_dim = integer(map, "value_dim", 1, kMostHeadDim);
  t.kv_lora_rank = integer(map, "kv_lora_rank", 1, kMostWidth);
  t.q_lora_rank = integer(map, "q_lora_rank", 0, kMostWidth, 0);
  t.bias = map.boolean("bias", false);
  t.output_bias = map.boolean("output_bias", false);
  t.window = integer(map, "window", 0, 1'000'000'000, 0);
  return t;
}

Attention read_linear(const YamlMap& map) {
  Attention t;
  t.kind = Attention::Kind::linear;
  t.linear_key_heads = integer(map, "key_heads", 1, kMostHeads);
  t.linear_value_heads = integer(map, "value_heads", 1, kMostHeads);
  t.head_dim = integer(map, "head_dim", 1, kMostHeadDim);
  t.value_dim = integer(map, "value_dim", 1, kMostHeadDim, t.head_dim);
  t.conv_kernel = integer(map, "conv_kernel", 1, 1024);
  return t;
}

Attention read_mamba2(const YamlMap& map) {
  Attention t;
  t.kind = Attention::Kind::mamba2;
  t.linear_value_heads = integer(map, "heads", 1, kMostHeads);
  t.value_dim = integer(map, "head_dim", 1, kMostHeadDim);
  t.linear_key_heads = integer(map, "groups", 1, kMostHeads, 1);
  t.head_dim = integer(map, "state", 1, kMostHeadDim);
  t.conv_kernel = integer(map, "conv_kernel", 1, 1024);
  t.conv_bias = map.boolean("conv_bias", true);
  t.bias = map.boolean("bias", false);
  t.output_bias = map.boolean("output_bias", false);
  return t;
}

Attention read_no_attention(const YamlMap&) {
  Attention t;
  t.kind = Attention::Kind::none;
  return t;
}

// Leaves map.done() to the caller, which may know more keys.
Attention read_attention_block(const YamlMap& map) {
  static const std::array<std::string, 5> kinds{"kv_heads", "mla", "linear", "mamba2", "none"};
  constexpr std::array readers{read_kv_heads, read_mla, read_linear, read_mamba2, read_no_attention};
  const Attention t = readers[map.choice("kind", kinds, 0)](map);
  report(map, fault(t));
  return t;
}

// The blocks of one period, `repeat` written out. Never empty.
std::vector<Attention> read_attention(const YamlMap& map, int layers) {
  std::vector<Attention> pattern;
  const YamlNode node = map.node("attention");
  if (node.is_list()) {
    const std::vector<YamlNode> items = node.list("attention");
    if (items.empty()) map.fail("attention", "attention needs at least one block");
    for (const YamlNode& item : items) {
      const YamlMap block = item.map("a block of attention");
      const int repeat = integer(block, "repeat", 1, kMostLayers, 1);
      const Attention t = read_attention_block(block);
      block.done();
      if (pattern.size() + static_cast<std::size_t>(repeat) > static_cast<std::size_t>(layers)) {
        block.fail("repeat", "with repeat, the blocks of attention are more than the layers (" +
                                 std::to_string(layers) + ")");
        break;
      }
      pattern.insert(pattern.end(), static_cast<std::size_t>(repeat), t);
    }
  } else if (map.has("attention")) {
    const YamlMap block = node.map("attention");
    pattern.push_back(read_attention_block(block));
    block.done();
  }
  if (pattern.empty()) pattern.emplace_back();
  return pattern;
}

FeedForward read_moe(const YamlMap& map) {
  FeedForward ff;
  ff.kind = FeedForward::Kind::moe;
  ff.experts = integer(map, "experts", 1, kMostExperts);
  ff.top_k = integer(map, "top_k", 1, kMostExperts);
  ff.width = integer(map, "width", 1, kMostWidth);
  ff.matrices = integer(map, "matrices", 2, 3, 3);
  ff.shared_width = integer(map, "shared_width", 0, kMostWidth, 0);
  ff.shared_gate = map.boolean("shared_gate", false);
  ff.bias = map.boolean("bias", false);
  ff.gate_bias = map.boolean("gate_bias", false);
  report(map, fault(ff));
  map.done();
  return ff;
}

FeedForward read_dense(const YamlMap& map) {
  FeedForward ff;
  ff.width = integer(map, "width", 1, kMostWidth);
  ff.matrices = integer(map, "matrices", 2, 3, 3);
  ff.bias = map.boolean("bias", false);
  map.done();
  return ff;
}

// Which of a stack's layers are dense, by dense_first, moe_every and dense_layers.
std::vector<bool> read_dense_layers(const YamlMap& map, int layers) {
  const int first = integer(map, "dense_first", 0, layers, 0);
  const int every = integer(map, "moe_every", 1, kMostLayers, 1);
  std::vector<bool> dense(static_cast<std::size_t>(layers));
  for (int i = 0; i < layers; ++i) dense[static_cast<std::size_t>(i)] = i < first || (i + 1) % every != 0;
  for (const YamlNode& node : map.list_or_empty("dense_layers")) {
    const std::int64_t index = node.integer("a dense layer", 0, layers - 1);
    dense[static_cast<std::size_t>(std::clamp<std::int64_t>(index, 0, layers - 1))] = true;
  }
  return dense;
}

struct FeedForwards {
  FeedForward moe;
  FeedForward dense;
};

// One of `blocks`: a layer that a letter stands for.
Layer read_block(const YamlMap& map, Stack stack, const FeedForwards& feed_forwards) {
  static const std::array<std::string, 3> parts{"none", "dense", "moe"};
  Layer layer;
  layer.stack = stack;
  layer.attention = read_attention_block(map);
  layer.feed_forward.kind = FeedForward::Kind::none;
  const std::size_t part = map.choice("feed_forward", parts, 0);
  if (part == 1) layer.feed_forward = feed_forwards.dense;
  if (part == 2) layer.feed_forward = feed_forwards.moe;
  if (part == 2 && layer.feed_forward.kind != FeedForward::Kind::moe)
    map.fail("feed_forward", "this block has experts: give 'moe: {...}'");
  if (!layer.has_mixer()) report(map, fault(layer));
  map.done();
  return layer;
}

using Blocks = std::map<char, Layer>;

Blocks read_blocks(const YamlMap& map, Stack stack, const FeedForwards& feed_forwards) {
  Blocks blocks;
  for (const std::string& key : map.keys()) {
    const YamlMap block = map.map(key);
    const char letter = key.size() == 1 ? key.front() : ' ';
    if ((letter < 'A' || letter > 'Z') && (letter < 'a' || letter > 'z'))
      map.fail(key, "a block is called by one letter (a-z, A-Z)");
    blocks[letter] = read_block(block, stack, feed_forwards);
  }
  return blocks;
}

// Appends the layers of a stack that says them letter by letter.
std::vector<Attention> read_pattern(const YamlMap& map, Stack stack, const FeedForwards& feed_forwards,
                                    int count, std::vector<Layer>& layers) {
  for (const char* key : {"attention", "dense_first", "moe_every", "dense_layers"})
    if (map.has(key)) map.fail(key, "'pattern' says which layers there are: remove one of the two");
  const Blocks blocks = read_blocks(map.map("blocks"), stack, feed_forwards);
  const std::string pattern = map.text("pattern");
  if (pattern.size() != static_cast<std::size_t>(count))
    map.fail("pattern", "pattern has " + std::to_string(pattern.size()) + " letters for " +
                            std::to_string(count) + " layers");
  std::vector<Attention> attention;
  std::set<char> used;
  for (const char letter : pattern) {
    const auto block = blocks.find(letter);
    if (block == blocks.end()) {
      map.fail("pattern", "pattern has a letter that 'blocks' does not have");
      break;
    }
    used.insert(letter);
    layers.push_back(block->second);
    attention.push_back(block->second.attention);
  }
  if (used.size() < blocks.size()) map.fail("blocks", "pattern does not use every block");
  if (attention.empty()) attention.emplace_back();
  return attention;
}

// Appends the layers of one stack. `inherited`: the attention of a stack that does not give its own.
std::vector<Attention> read_stack(const YamlMap& map, Stack stack, const FeedForwards& feed_forwards,
                                  const std::vector<Attention>* inherited, std::vector<Layer>& layers) {
  const int count = integer(map, "layers", 1, kMostLayers);
  if (map.has("pattern")) return read_pattern(map, stack, feed_forwards, count, layers);
  const std::vector<Attention> pattern =
      inherited && !map.has("attention") ? *inherited : read_attention(map, count);
  const std::vector<bool> dense = read_dense_layers(map, count);
  for (std::size_t i = 0; i < dense.size(); ++i) {
    Layer layer;
    layer.stack = stack;
    layer.attention = pattern[i % pattern.size()];
    layer.feed_forward = dense[i] ? feed_forwards.dense : feed_forwards.moe;
    layers.push_back(layer);
  }
  return pattern;
}

void read_layers(const YamlMap& root, Architecture& a) {
  FeedForwards feed_forwards;
  const std::optional<YamlMap> dense = root.optional_map("dense");
  if (dense) feed_forwards.dense = read_dense(*dense);
  if (root.has("moe") || !(dense || root.has("pattern")))
    feed_forwards.moe = read_moe(root.map("moe"));
  else
    feed_forwards.moe = feed_forwards.dense;
  std::vector<Layer> decoder;
  const std::vector<Attention> pattern = read_stack(root, Stack::decoder, feed_forwards, nullptr, decoder);
  if (const std::optional<YamlMap> encoder = root.optional_map("encoder")) {
    read_stack(*encoder, Stack::encoder, feed_forwards, &pattern, a.layers);
    encoder->done();
    for (Layer& layer : decoder) {
      layer.cross_attention = layer.attention.kind == Attention::Kind::kv_heads;
      if (!layer.cross_attention) {
        root.fail("attention", "a decoder that attends to an encoder needs attention of kind kv_heads");
        break;
      }
    }
  }
  a.layers.insert(a.layers.end(), decoder.begin(), decoder.end());
  const bool any_dense = std::any_of(a.layers.begin(), a.layers.end(), [](const Layer& layer) {
    return layer.feed_forward.kind == FeedForward::Kind::dense;
  });
  if (root.has("moe") && !a.is_moe() && !a.layers.empty())
    root.fail("layers", "no layer has experts: remove 'moe', or let fewer layers be dense");
  if (any_dense && !dense) root.fail("dense", "some layers are dense: give 'dense: {width: ...}'");
  if (!any_dense && dense) {
    root.fail("dense", "no layer is dense: remove 'dense', or give dense_first, moe_every or dense_layers");
  }
}

void read_published(const YamlMap& map, Architecture& a) {
  constexpr Range<double> weights{1, 1e15};
  if (map.has("weights")) a.published_weights = map.number("weights", weights);
  if (map.has("active_weights")) a.published_active_weights = map.number("active_weights", weights);
  a.published_source = map.text("source", "");
  map.done();
}

/// One number for all parts, or a map with a name and a number for each.
StoredWeights read_bytes_per_weight(const YamlMap& root) {
  constexpr Range<double> range{0, 16, true, false};
  if (!root.has("bytes_per_weight")) return {};
  if (!root.node("bytes_per_weight").is_map())
    return StoredWeights::plain(root.number("bytes_per_weight", range));
  const YamlMap map = root.map("bytes_per_weight");
  StoredWeights stored;
  stored.name = map.text("name");
  for (std::size_t p = 0; p < kWeightParts; ++p) {
    const auto part = static_cast<WeightPart>(p);
    stored.set(part, map.number(to_string(part), range));
  }
  stored.kv = map.number("kv", range, stored.kv);
  stored.group = static_cast<int>(map.integer("group", 0, kMostGroup, 0));
  map.done();
  return stored;
}

std::string read_name(const YamlMap& root) {
  const std::string name = root.text("name");
  const bool good = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
  });
  if (!good || name.empty() || name.size() > kLongestName) {
    root.fail("name", "a name is 1 to 100 of the characters a-z, 0-9, '.', '_' and '-'");
  }
  return name;
}

}  // namespace

Architecture read_architecture(const YamlDocument& document) {
  return read_architecture(document.root());
}

Architecture read_architecture(const YamlMap& root) {
  Architecture a;
  a.name = read_name(root);
  a.title = root.text("title", a.name);
  a.source = root.text("source", "");
  a.hidden = integer(root, "hidden", 1, 1'000'000);
  a.vocab = integer(root, "vocab", 1, 100'000'000);
  a.embedding_copies = integer(root, "embedding_copies", 1, 8, 2);
  a.extra_weights = root.number("extra_weights", {0, 1e12}, 0.0);
  read_layers(root, a);
  if (root.has("weights") && root.has("bytes_per_weight"))
    root.fail("bytes_per_weight", "'weights' says it already: give one of them");
  a.stored = root.has("weights") ? read_stored(root, "weights", a) : read_bytes_per_weight(root);
  if (const std::optional<YamlMap> published = root.optional_map("published")) read_published(*published, a);
  report(root, fault(a));
  root.done();
  return a;
}

}  // namespace moelab

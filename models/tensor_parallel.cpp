#include "models/tensor_parallel.hpp"

#include <string>

#include "models/input_error.hpp"

namespace moelab {
namespace {

constexpr double kBytesPerHiddenValue = 2;

class Divider {
 public:
  Divider(const Architecture& model, int ranks) : model_(model), ranks_(ranks) {}

  void divide(int& amount, const char* what) const {
    if (amount % ranks_ != 0)
      throw InputError("", "model '" + model_.name + "' has " + std::to_string(amount) + " " + what +
                               ", which " + std::to_string(ranks_) +
                               " GPUs cannot share evenly; expected tensor_parallel that divides them");
    amount /= ranks_;
  }
  void divide(Attention& t) const {
    if (t.kind == Attention::Kind::linear) {
      divide(t.linear_key_heads, "key heads of linear attention");
      divide(t.linear_value_heads, "value heads of linear attention");
      return;
    }
    divide(t.heads, "attention heads");
    if (t.kind == Attention::Kind::mla) return;  // the latent is whole on every GPU
    if (t.kv_heads < ranks_ && ranks_ % t.kv_heads == 0)
      t.kv_heads = 1;
    else
      divide(t.kv_heads, "key-value heads");
  }
  void divide(FeedForward& ff) const {
    divide(ff.width, ff.kind == FeedForward::Kind::moe ? "columns in each expert" : "feed-forward columns");
    divide(ff.shared_width, "columns in its shared experts");
  }

 private:
  const Architecture& model_;
  int ranks_;
};

}  // namespace

Architecture tensor_parallel_part(const Architecture& model, int ranks) {
  if (ranks <= 1) return model;
  const Divider divider(model, ranks);
  Architecture part = model;
  for (Layer& layer : part.layers) {
    divider.divide(layer.attention);
    divider.divide(layer.feed_forward);
  }
  part.vocab = (model.vocab + ranks - 1) / ranks;
  part.published_weights.reset();
  part.published_active_weights.reset();
  return part;
}

FeedForward whole_experts(const FeedForward& part, int ranks) {
  FeedForward whole = part;
  whole.width *= ranks;
  return whole;
}

Bytes all_reduce_bytes(const Architecture& model, double tokens) {
  return Bytes(kBytesPerHiddenValue * model.hidden * tokens);
}

int all_reduces(const Layer& layer) {
  return layer.cross_attention ? 3 : 2;
}

}  // namespace moelab

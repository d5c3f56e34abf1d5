#include "models/tensor_parallel.hpp"

#include <string>

#include "models/input_error.hpp"

namespace moelab {
namespace {

constexpr double kBytesPerHiddenValue = 2;

class Divider {
 public:
  Divider(const Architecture& model, int ranks, const char* key) : model_(model), ranks_(ranks), key_(key) {}

  void divide(int& amount, const char* what) const {
    if (amount % ranks_ != 0)
      throw InputError("", "model '" + model_.name + "' has " + std::to_string(amount) + " " + what +
                               ", which " + std::to_string(ranks_) + " GPUs cannot share evenly; expected " +
                               key_ + " that divides them");
    amount /= ranks_;
  }
  /// Columns of a matrix whose weights have scales by the group: no slice may cut one.
  void divide_groups(int& amount, const char* what, WeightPart part) const {
    divide(amount, what);
    const int group = scale_group(model_.stored, part);
    if (ranks_ <= 1 || amount % group == 0) return;
    throw InputError(
        "", "model '" + model_.name + "' in " + model_.stored.name + " has a scale for each " +
                std::to_string(group) + " weights, and each of " + std::to_string(ranks_) +
                " GPUs would have " + std::to_string(amount) + " of " + std::to_string(amount * ranks_) +
                " " + what +
                ": no whole number of groups, which vLLM and SGLang refuse; expected fewer GPUs" +
                (part == WeightPart::experts ? ", or expert_parallel, which keeps experts whole" : ""));
  }
  void divide_or_copy(int& amount, const char* what) const {
    if (amount < ranks_ && ranks_ % amount == 0)
      amount = 1;
    else
      divide(amount, what);
  }
  void divide(Attention& t) const {
    switch (t.kind) {
      case Attention::Kind::kv_heads:
        divide(t.heads, "attention heads");
        divide_or_copy(t.kv_heads, "key-value heads");
        return;
      case Attention::Kind::mla:
        divide(t.heads, "attention heads");  // the latent is whole on every GPU
        return;
      case Attention::Kind::linear:
        divide(t.linear_key_heads, "key heads of linear attention");
        divide(t.linear_value_heads, "value heads of linear attention");
        return;
      case Attention::Kind::mamba2:
        divide(t.linear_value_heads, "heads of Mamba-2");
        divide_or_copy(t.linear_key_heads, "groups of Mamba-2");
        return;
      case Attention::Kind::none:
        return;
    }
  }
  void divide(FeedForward& ff) const {
    if (ff.kind != FeedForward::Kind::moe) divide_groups(ff.width, "feed-forward columns", WeightPart::dense);
    divide_groups(ff.shared_width, "columns in its shared experts", WeightPart::shared);
  }
  void divide_experts(FeedForward& ff) const {
    if (ff.kind == FeedForward::Kind::moe)
      divide_groups(ff.width, "columns in each expert", WeightPart::experts);
  }

 private:
  const Architecture& model_;
  int ranks_;
  const char* key_;
};

}  // namespace

Architecture tensor_parallel_part(const Architecture& model, int ranks) {
  return parallel_part(model, ranks, ranks);
}

Architecture parallel_part(const Architecture& model, int ranks, int expert_slices) {
  if (ranks <= 1 && expert_slices <= 1) return model;
  const Divider divider(model, ranks, "tensor_parallel");
  const Divider slicer(model, expert_slices, expert_slices > ranks ? "data_parallel" : "tensor_parallel");
  Architecture part = model;
  for (Layer& layer : part.layers) {
    divider.divide(layer.attention);
    slicer.divide_experts(layer.feed_forward);
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
  return (layer.has_mixer() ? 1 : 0) + (layer.cross_attention ? 1 : 0) + (layer.has_feed_forward() ? 1 : 0);
}

}  // namespace moelab

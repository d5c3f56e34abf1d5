// Steps by kernel tables. A layer is its norms, projections, rotation, attention, and feed-forward part or
// experts; behind all layers come the last norm and the head for the requests that get a token. What the
// runtime says of a step and a request is added, as with data sheets.
#include <algorithm>
#include <cmath>

#include "experiments/load/kernel_tables.hpp"
#include "experiments/load/step_times.hpp"
#include "models/input_error.hpp"
#include "models/timing.hpp"
#include "sim/serving/dense_times.hpp"

namespace moelab::replay {
namespace {

class TableTimes final : public StepTimes {
 public:
  TableTimes(const Setup& setup, KernelTables tables)
      : tables_(std::move(tables)),
        model_(setup.scenario.model),
        trace_(setup.trace),
        timing_(setup.scenario.device),
        head_(model_, timing_),
        moe_layers_(model_.moe_layers().size()),
        step_s_(setup.system().host_per_pass.value()) {}

  double seconds(const Pass& pass) override {
    const double tokens = pass.tokens;
    const double layers = static_cast<double>(model_.layers.size());
    double all = layers * (layer_seconds(tokens) + tables_.attention.at(attention_of(pass)));
    if (moe_layers_ > 0)
      all += experts_seconds(pass);
    else
      all += layers * (dense("gate_up_proj", tokens) + dense("act_fn", tokens) + dense("down_proj", tokens));
    return all + dense("embedding", tokens) + head_seconds(pass) + step_s_;
  }

 private:
  /// 0 where the tables do not have it.
  double dense(const char* layer, double tokens) const {
    const auto found = tables_.dense.find(layer);
    return found == tables_.dense.end() ? 0 : found->second.at(tokens);
  }
  double layer_seconds(double tokens) const {
    return 2 * dense("layernorm", tokens) + dense("qkv_proj", tokens) + dense("qk_norm", tokens) +
           dense("rotary_emb", tokens) + dense("o_proj", tokens);
  }

  /// Several prompts count as one that computes as many pairs of query and key.
  static AttentionTable::Point attention_of(const Pass& pass) {
    double rows = 0, pairs = 0, decoding = 0, context = 0;
    for (const RowRun& run : pass.runs) {
      if (run.prompt) {
        rows += run.rows;
        pairs += run.rows * (run.first - 1 + run.rows / 2.0);
      } else {
        decoding += run.rows;
        context += run.rows * run.first;
      }
    }
    double before = rows > 0 ? pairs / rows - rows / 2 : 0;
    if (before < 0) rows = std::sqrt(2 * pairs), before = 0;
    return {rows, before, decoding, decoding > 0 ? context / decoding : 0};
  }

  double experts_seconds(const Pass& pass) {
    double all = 0;
    for (std::size_t layer = 0; layer < moe_layers_; ++layer) {
      touched_.assign(trace_.experts(), false);
      for (const auto& [begin, end] : pass.rows)
        for (std::uint64_t row = begin; row < end; ++row)
          for (const std::uint16_t expert : trace_.experts_of(row, static_cast<std::uint32_t>(layer)))
            if (expert != kNoExpert) touched_[expert] = true;
      const auto distinct = static_cast<double>(std::count(touched_.begin(), touched_.end(), true));
      all += tables_.moe_seconds(pass.tokens, distinct);
    }
    return all;
  }

  double head_seconds(const Pass& pass) {
    if (pass.produces == 0) return 0;
    const auto head = tables_.per_sequence.find("lm_head"), sampler = tables_.per_sequence.find("sampler");
    if (head == tables_.per_sequence.end()) {
      head_.begin(pass);
      return head_.head().seconds;
    }
    const double sampling = sampler == tables_.per_sequence.end() ? 0 : sampler->second.at(pass.produces);
    return head->second.at(pass.produces) + sampling + dense("final_layernorm", pass.produces) +
           pass.produces * timing_.device().software->request;
  }

  KernelTables tables_;
  const Architecture& model_;
  const RoutingTrace& trace_;
  TimingModel timing_;
  DenseTimes head_;
  std::size_t moe_layers_;
  double step_s_;
  std::vector<bool> touched_;
};

}  // namespace

std::unique_ptr<StepTimes> table_times(const Setup& setup, const std::string& folder) {
  const Scenario& s = setup.scenario;
  if (s.gpus() > 1)
    throw InputError(folder, "tables of kernels are of one GPU, and the run shares layers between " +
                                 std::to_string(s.gpus()) + " (meta.json): leave '--tables' out");
  return std::make_unique<TableTimes>(
      setup, read_kernel_tables(folder, s.machine->gpu->name, s.model.name, s.model.is_moe()));
}

}  // namespace moelab::replay

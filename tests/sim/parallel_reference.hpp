// Serving by GPUs that differ (expert and data parallelism), written down a second time: each GPU is a
// machine of its own that is gone through at every instant, and machines meet where GPUs exchange rows. Whose
// a request is, whose an expert is and how long an exchange takes is written out here; the plan, what a
// rank's batching policy decides and what a kernel takes are the simulator's, as in paged_reference.hpp.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "tests/sim/paged_reference.hpp"

namespace moelab::test {

/// By expert: which of `gpus` has it. Dealt out in a row, the first GPUs getting what is left over.
inline std::vector<std::size_t> naive_owners(std::size_t experts, std::size_t gpus) {
  std::vector<std::size_t> owners;
  for (std::size_t gpu = 0; gpu < gpus; ++gpu) {
    std::size_t count = experts / gpus;
    if (gpu < experts - count * gpus) ++count;
    owners.insert(owners.end(), count, gpu);
  }
  return owners;
}

class NaiveGpus {
 public:
  explicit NaiveGpus(const SmallRun& run)
      : run_(run),
        s_(run.scenario),
        model_(run.scenario.model),
        requests_(served_requests(run.scenario, run.trace)),
        plan_(plan_of(run)),
        times_(run),
        gpus_(s_.tensor_parallel * s_.data_parallel),
        owners_(naive_owners(static_cast<std::size_t>(model_.moe().experts), gpus_)),
        machines_(gpus_, NaiveMachine(stretch())),
        windows_(gpus_) {
    BatchingShape shape;
    shape.kv = {run.system().kv.block_tokens, plan_.memory.kv_blocks, plan_.memory.swap_blocks,
                plan_.memory.state_blocks, state_bytes_per_request(model_) == Bytes(0)};
    shape.max_requests = s_.workload.batch;
    shape.max_tokens = run.system().batching->max_tokens;
    shape.drafts = s_.speculation.tokens;
    const PolicyChoice& policy = run.system().batching->policy;
    for (std::uint32_t rank = 0; rank < s_.data_parallel; ++rank)
      ranks_.push_back(find_batching_policy(policy.name)->make(shape, policy.parameters));
    for (const Layer& layer : model_.layers)
      moe_numbers_.push_back(layer.feed_forward.kind == FeedForward::Kind::moe ? layers_++ : -1);
  }

  NaiveResult serve() {
    std::vector<double> last(requests_.size(), -1);
    std::vector<BatchStep> steps(ranks_.size());
    for (std::size_t arrived = 0;;) {
      for (; arrived < requests_.size() && requests_[arrived].arrival_s <= now(); ++arrived)
        arrive(static_cast<std::uint32_t>(arrived));
      std::vector<bool> runs;
      for (std::size_t r = 0; r < ranks_.size(); ++r) runs.push_back(ranks_[r]->form(steps[r]));
      if (std::none_of(runs.begin(), runs.end(), [](bool any) { return any; })) {
        if (arrived == requests_.size()) break;
        wait(requests_[arrived].arrival_s);
        continue;
      }
      run_step(steps);
      for (std::size_t r = 0; r < ranks_.size(); ++r) {
        const std::vector<std::uint32_t> refused = count_tokens(steps[r], last);
        if (!runs[r]) continue;
        if (s_.speculation.tokens > 0) ranks_[r]->refuse(refused);
        ranks_[r]->complete();
      }
    }
    result_.wall_s = now();
    return result_;
  }
  double exchanged_s() const { return exchanged_s_; }

 private:
  double now() const { return machines_.front().now; }
  double stretch() const {
    double traffic = 0;
    for (const GpuCodecProfile* codec : plan_.codecs)
      if (codec != nullptr) traffic = std::max(traffic, (1 + codec->ratio.value) * codec->rate.value.value());
    return 1 + traffic / s_.device.gpu->own->bandwidth.value.value();
  }
  bool decodes() const {
    return std::any_of(plan_.codecs.begin(), plan_.codecs.end(), [](const auto* c) { return c != nullptr; });
  }

  void arrive(std::uint32_t number) {
    const ServedRequest& q = requests_[number];
    std::vector<std::uint64_t> load;
    for (const auto& rank : ranks_) {
      const KvUse use = rank->use();
      load.push_back(4 * use.waiting + 4 * use.swapped + use.running);
    }
    const auto least = static_cast<std::size_t>(std::min_element(load.begin(), load.end()) - load.begin());
    ranks_[least]->arrive({number, q.prompt_tokens, q.output_tokens, q.prefilled});
  }
  /// By share: how many of its last tokens were refused.
  std::vector<std::uint32_t> count_tokens(const BatchStep& step, std::vector<double>& last) {
    std::vector<std::uint32_t> refused;
    for (const StepShare& share : step.shares) {
      const std::uint32_t drafted = share.prompt ? 0 : share.tokens - 1;
      refused.push_back(drafted - drafts_of(s_).accepted(share.request, share.context, drafted));
      if (!share.produces) continue;
      double& before = last[share.request];
      if (before < 0)
        result_.ttft_s += now() - requests_[share.request].arrival_s;
      else
        result_.gaps_s += now() - before;
      before = now();
      result_.tokens += 1 + drafted - refused.back();
    }
    return refused;
  }

  /// All GPUs go on with what goes on besides, until `moment`.
  void wait(double moment) {
    for (NaiveMachine& machine : machines_) {
      machine.run({}, moment);
      machine.now = moment;
    }
  }
  void meet() {
    double latest = 0;
    for (const NaiveMachine& machine : machines_) latest = std::max(latest, machine.now);
    wait(latest);
  }
  void together(double seconds) {
    meet();
    wait(now() + seconds);
  }

  std::size_t add(std::size_t gpu, NaiveServer server, double seconds, std::vector<std::size_t> needs,
                  int urgency = 0, double shared = 0) {
    return machines_[gpu].add({server, seconds - shared, shared, urgency, group_, std::move(needs)});
  }
  void run_kernel(std::size_t gpu, const NaiveKernel& k, std::vector<std::size_t> needs = {}) {
    const double streams = k.bytes / s_.device.gpu->own->bandwidth.value.value();
    machines_[gpu].run(
        {add(gpu, kComputes, k.seconds, std::move(needs), 0, decodes() ? std::min(streams, k.seconds) : 0)});
  }
  void run_host(std::size_t gpu, Seconds time) {
    if (time > Seconds(0)) machines_[gpu].run({add(gpu, kHostRuns, time.value(), {})});
  }

  void swap(const std::vector<BatchStep>& steps) {
    const double block = plan_.memory.kv_block.value();
    ++group_;
    for (std::size_t gpu = 0; gpu < gpus_; ++gpu) {
      const BatchStep& step = steps[s_.data_parallel > 1 ? gpu : 0];
      const double out = static_cast<double>(step.blocks_out) * block;
      const double in = static_cast<double>(step.blocks_in) * block;
      std::vector<std::size_t> tasks;
      if (out > 0) tasks.push_back(add(gpu, kLinkOut, times_.timing().store(Bytes(out)).value(), {}));
      if (in > 0) tasks.push_back(add(gpu, kLinkIn, times_.timing().load(Bytes(in)).value(), tasks));
      if (!tasks.empty()) machines_[gpu].run(tasks);
    }
    for (const BatchStep& step : steps) {
      result_.swapped_out += static_cast<double>(step.blocks_out) * block;
      result_.swapped_in += static_cast<double>(step.blocks_in) * block;
    }
    meet();
  }

  void load(std::size_t gpu, std::uint32_t layer) {
    const StorageShape& shape = plan_.split.shape();
    double streamed = 0;
    for (std::size_t k = 0; k < shape.backends.size(); ++k)
      if (shape.backends[k].name != "resident") streamed += plan_.split.experts(layer, k);
    if (streamed == 0 || windows_[gpu].count(layer) > 0) return;
    ++group_;
    std::vector<std::size_t>& tasks = windows_[gpu][layer];
    const int matrices = model_.moe().matrices;
    for (const int of_type : {matrices - 1, 1}) {
      const double part = shape.expert_bytes * of_type / matrices;
      std::vector<std::size_t> mapped;
      if (s_.device.gpu->remap)
        mapped.push_back(add(gpu, kRemaps, times_.timing().remap(Bytes(streamed * part)).value(), {}, 1));
      tasks.insert(tasks.end(), mapped.begin(), mapped.end());
      for (std::size_t k = 0; k < shape.backends.size(); ++k) {
        const double bytes = part * plan_.split.experts(layer, k);
        if (bytes == 0 || shape.backends[k].name == "resident") continue;
        const bool decoded = plan_.codecs[k] != nullptr;
        const double seconds = decoded ? bytes / plan_.codecs[k]->rate.value.value()
                                       : times_.timing().load(Bytes(bytes)).value();
        tasks.push_back(add(gpu, decoded ? kDecodes : kLinkIn, seconds, mapped, 1, decoded ? seconds : 0));
        if (gpu == 0) (decoded ? result_.decoded : result_.loaded) += bytes;
      }
    }
  }
  void load_ahead(std::size_t i) {
    for (std::size_t gpu = 0; gpu < gpus_; ++gpu) {
      if (moe_numbers_[i] >= 0) load(gpu, static_cast<std::uint32_t>(moe_numbers_[i]));
      for (std::size_t ahead = 1; ahead < moe_numbers_.size(); ++ahead) {
        const int next = moe_numbers_[(i + ahead) % moe_numbers_.size()];
        if (next < 0) continue;
        load(gpu, static_cast<std::uint32_t>(next));
        break;
      }
      const auto loading = windows_[gpu].find(static_cast<std::uint32_t>(std::max(moe_numbers_[i], 0)));
      if (moe_numbers_[i] >= 0 && loading != windows_[gpu].end())
        for (const std::size_t task : loading->second) machines_[gpu].tasks[task].urgency = 0;
    }
  }

  /// Distinct experts and pairs of row and expert of one GPU: row by row, chosen expert by chosen expert.
  NaiveKernel experts(std::size_t gpu, const Layer& layer, std::uint32_t number) const {
    std::set<std::uint16_t> touched;
    double pairs = 0;
    for (const std::uint64_t row : all_.trace_rows)
      for (const std::uint16_t expert : run_.trace.experts_of(row, number)) {
        if (expert == kNoExpert || (s_.expert_parallel && owners_[expert] != gpu)) continue;
        touched.insert(expert);
        ++pairs;
      }
    if (!s_.expert_parallel) pairs = all_.rows * layer.feed_forward.top_k;
    const auto distinct = static_cast<double>(touched.size());
    NaiveKernel k{
        (times_.timing().grouped_experts(model_, distinct, pairs) + times_.timing().dispatch()).value(),
        distinct * expert_bytes(model_).value()};
    if (layer.feed_forward.shared_width > 0) {
      const NaiveKernel shared = times_.kernel(dense_work(model_, layer, own(gpu).rows));
      k.seconds += shared.seconds;
      k.bytes += shared.bytes;
    }
    return k;
  }

  const NaiveStep& own(std::size_t gpu) const { return s_.data_parallel > 1 ? own_[gpu] : all_; }
  double reduce_s() const {  // hidden states of all rows, 2 bytes a value
    return times_.timing()
        .all_reduce(static_cast<int>(s_.tensor_parallel), Bytes(2.0 * model_.hidden * all_.rows))
        .value();
  }
  /// Every GPU gets the rows of all others, as many as the one with most has: half of an all-reduce.
  double exchange_s(double bytes_a_row) const {
    if (s_.data_parallel == 1) return 0;
    double most = 0;
    for (const NaiveStep& n : own_) most = std::max(most, n.rows);
    for (const AllReduceProfile& measured : s_.device.gpu->node->all_reduce)
      if (measured.gpus >= static_cast<int>(gpus_))
        return measured.seconds.value(static_cast<double>(gpus_) * most * bytes_a_row / 2);
    return -1;
  }

  void run_layer(std::size_t i) {
    const Layer& layer = model_.layers[i];
    load_ahead(i);
    for (std::size_t gpu = 0; gpu < gpus_; ++gpu) {
      run_host(gpu, run_.system().host_per_layer);
      run_kernel(gpu, times_.dense(layer, own(gpu)));
    }
    if (reduce_s() > 0) together(reduce_s());
    if (moe_numbers_[i] >= 0) run_experts(layer, static_cast<std::uint32_t>(moe_numbers_[i]));
    if (reduce_s() > 0) together(reduce_s());
    meet();
  }
  void run_experts(const Layer& layer, std::uint32_t number) {
    const double out = exchange_s(2.0 * model_.hidden + 8.0 * layer.feed_forward.top_k);
    const double back = exchange_s(2.0 * model_.hidden);
    if (out > 0) together(out);
    for (std::size_t gpu = 0; gpu < gpus_; ++gpu) {
      const auto loading = windows_[gpu].find(number);
      run_kernel(gpu, experts(gpu, layer, number),
                 loading == windows_[gpu].end() ? std::vector<std::size_t>{} : loading->second);
    }
    // A window is free when all have computed from it, and that is known at the end of the layer.
    for (auto& window : windows_) window.erase(number);
    if (back > 0) together(back);
    exchanged_s_ += out + back;
  }

  void run_step(const std::vector<BatchStep>& steps) {
    all_ = {};
    own_.clear();
    for (const BatchStep& step : steps) {
      NaiveStep n = naive_step(step, requests_, run_.trace.tokens());
      all_.rows += n.rows;
      all_.decoding += n.decoding;
      all_.prompt += n.prompt;
      all_.produces += n.produces;
      all_.drafts += n.drafts;
      const auto append = [](const auto& from, auto& to) { to.insert(to.end(), from.begin(), from.end()); };
      append(n.context, all_.context);
      append(n.prompt_context, all_.prompt_context);
      append(n.trace_rows, all_.trace_rows);
      all_.drafted.resize(std::max(all_.drafted.size(), n.drafted.size()));
      for (std::size_t i = 0; i < n.drafted.size(); ++i) append(n.drafted[i], all_.drafted[i]);
      if (n.rows == 0) n.rows = n.decoding = 1, n.context = {1};  // runs along
      own_.push_back(n);
    }
    ++result_.steps;
    result_.rows += static_cast<std::uint64_t>(all_.rows);
    swap(steps);
    ++group_;
    for (std::size_t gpu = 0; gpu < gpus_; ++gpu)
      if (const NaiveKernel drafting = naive_drafting(run_, own(gpu)); drafting.seconds > 0)
        run_kernel(gpu, drafting);
    meet();
    for (std::size_t i = 0; i < model_.layers.size(); ++i) run_layer(i);
    for (std::size_t gpu = 0; gpu < gpus_; ++gpu) {
      if (const NaiveKernel head = times_.head(own(gpu)); head.seconds > 0) run_kernel(gpu, head);
      run_host(gpu, run_.system().host_per_pass);
    }
    meet();
  }

  const SmallRun& run_;
  const Scenario& s_;
  const Architecture& model_;
  std::vector<ServedRequest> requests_;
  PagedPlan plan_;
  NaiveTimes times_;
  std::size_t gpus_;
  std::vector<std::size_t> owners_;
  std::vector<NaiveMachine> machines_;
  std::vector<std::map<std::uint32_t, std::vector<std::size_t>>> windows_;  // by GPU, by MoE layer
  std::vector<std::unique_ptr<BatchingPolicy>> ranks_;
  std::vector<int> moe_numbers_;
  int layers_ = 0, group_ = 0;
  NaiveStep all_;               // of the step that runs
  std::vector<NaiveStep> own_;  // by rank
  double exchanged_s_ = 0;
  NaiveResult result_;
};

}  // namespace moelab::test

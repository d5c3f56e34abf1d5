// Serving from paged experts, written down a second time from the papers' words: a list of tasks that are
// gone through at every instant, no graphs, no engine. It shares with the simulator the plan (where experts
// lie), the batching policy (which requests run) and the timing model (what a transfer or a kernel takes).
// Residency stays as planned.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "models/timing.hpp"
#include "sim/serving/drafts.hpp"
#include "tests/sim/naive_machine.hpp"
#include "tests/sim/paged_cases.hpp"

namespace moelab::test {

/// What a step has in it, counted row by row.
struct NaiveStep {
  double rows = 0, decoding = 0, prompt = 0, produces = 0;
  double drafts = 0;  // of those that decode
  std::vector<std::vector<double>> drafted =
      {};  // by draft of a request: what each that has one more attends to
  std::vector<double> context = {}, prompt_context = {};  // tokens that each row attends to
  std::vector<std::uint64_t> trace_rows = {};
};

/// Mean over rows of what a window leaves of each; 0: no window.
inline double mean_through(const std::vector<double>& attended, int window) {
  double sum = 0;
  for (const double tokens : attended) sum += window > 0 && window < tokens ? window : tokens;
  return sum / static_cast<double>(attended.size());
}

/// Draft number `number` (from 1) of a request is made by a row that attends to so many tokens.
inline void draft_after(NaiveStep& n, std::size_t number, double attends) {
  n.drafts += 1;
  if (n.drafted.size() < number) n.drafted.resize(number);
  n.drafted[number - 1].push_back(attends);
}

inline NaiveStep naive_step(const BatchStep& step, const std::vector<ServedRequest>& requests,
                            std::uint64_t trace_rows) {
  NaiveStep n;
  for (const StepShare& share : step.shares) {
    for (std::uint64_t t = 0; t < share.tokens; ++t) {
      const double sees = static_cast<double>(share.context + t + 1);
      (share.prompt ? n.prompt : n.decoding) += 1;
      (share.prompt ? n.prompt_context : n.context).push_back(sees);
      n.trace_rows.push_back((requests[share.request].first_row + share.context + t) % trace_rows);
    }
    if (share.produces) n.produces += 1;
    for (std::uint32_t i = 1; !share.prompt && i < share.tokens; ++i)
      draft_after(n, i, static_cast<double>(share.context) + i);
  }
  n.rows = n.prompt + n.decoding;
  return n;
}

/// Seconds and bytes of a kernel.
struct NaiveKernel {
  double seconds = 0, bytes = 0;
};

class NaiveTimes {
 public:
  explicit NaiveTimes(const SmallRun& run) : NaiveTimes(run, run.scenario.model) {}
  NaiveTimes(const SmallRun& run, const Architecture& model)
      : run_(run), model_(model), timing_(run.scenario.device) {}

  NaiveKernel kernel(Work work) const {
    return {(timing_.kernel(work) + timing_.dispatch()).value(), (work.weight_bytes + work.kv_bytes).value()};
  }
  NaiveKernel dense(const Layer& layer, const NaiveStep& n) const {
    constexpr double kTile = 128;  // of a prompt's attention
    Work all;
    const int window = layer.attention.window;
    // Rows of one request read its keys and values together.
    const double together = n.decoding / (n.decoding - n.drafts);
    if (n.decoding > 0)
      all = attention_work(model_, layer, n.decoding, mean_through(n.context, window), together);
    if (n.prompt > 0) {
      const Work prompt =
          attention_work(model_, layer, n.prompt, mean_through(n.prompt_context, window), kTile);
      all.flops += prompt.flops;
      all.kv_bytes += prompt.kv_bytes;
      all.weight_bytes = prompt.weight_bytes;  // read once
      all.kernels = n.decoding > 0 ? all.kernels + 1 : prompt.kernels;
    }
    if (layer.feed_forward.kind == FeedForward::Kind::dense) {
      const Work dense = dense_work(model_, layer, n.rows);
      all.flops += dense.flops;
      all.weight_bytes += dense.weight_bytes;
      all.kernels += dense.kernels;
    }
    return kernel(all);
  }
  NaiveKernel experts(const Layer& layer, std::uint32_t moe_layer, const NaiveStep& n) const {
    std::set<std::uint16_t> touched;
    for (const std::uint64_t row : n.trace_rows)
      for (const std::uint16_t expert : run_.trace.experts_of(row, moe_layer))
        if (expert != kNoExpert) touched.insert(expert);
    return experts(layer, static_cast<double>(touched.size()), n);
  }
  NaiveKernel experts(const Layer& layer, double distinct, const NaiveStep& n) const {
    const double bytes = distinct * expert_bytes(model_).value();
    NaiveKernel all{
        (timing_.grouped_experts(model_, distinct, n.rows * layer.feed_forward.top_k) + timing_.dispatch())
            .value(),
        bytes};
    if (layer.feed_forward.shared_width > 0) {
      const NaiveKernel shared = kernel(dense_work(model_, layer, n.rows));
      all.seconds += shared.seconds;
      all.bytes += shared.bytes;
    }
    return all;
  }
  NaiveKernel head(const NaiveStep& n) const {
    return n.produces == 0 ? NaiveKernel{} : kernel(head_work(model_, n.produces + n.drafts));
  }
  /// A pass of this model, which is dense, over a step.
  NaiveKernel pass(const NaiveStep& n) const {
    NaiveKernel all = head(n);
    for (const Layer& layer : model_.layers) {
      const NaiveKernel one = dense(layer, n);
      all.seconds += one.seconds;
      all.bytes += one.bytes;
    }
    return all;
  }
  double all_reduce(const NaiveStep& n) const {  // 2 bytes a hidden value of each row
    return timing_
        .all_reduce(static_cast<int>(run_.scenario.tensor_parallel), Bytes(2.0 * model_.hidden * n.rows))
        .value();
  }
  const TimingModel& timing() const { return timing_; }

 private:
  const SmallRun& run_;
  const Architecture& model_;
  TimingModel timing_;
};

/// What drafting takes in a step: by a model one pass after the other, each of the requests that draft so
/// many, and one of the prompts' rows.
inline NaiveKernel naive_drafting(const SmallRun& run, const NaiveStep& n) {
  const SpeculationConfig& s = run.scenario.speculation;
  NaiveKernel all;
  const auto add = [&all](double seconds, double bytes) {
    all.seconds += seconds;
    all.bytes += bytes;
  };
  if (s.tokens == 0) return all;
  const TimingModel timing(run.scenario.device);
  if (s.model) {
    const NaiveTimes times(run, *s.model);
    const double host = static_cast<double>(s.model->layers.size()) * run.system().host_per_layer.value() +
                        run.system().host_per_pass.value();
    const auto add_pass = [&](const NaiveStep& of_draft) {
      const NaiveKernel one = times.pass(of_draft);
      add(one.seconds + host, one.bytes);
    };
    if (n.prompt > 0) add_pass({.rows = n.prompt, .prompt = n.prompt, .prompt_context = n.prompt_context});
    for (const std::vector<double>& attends : n.drafted) {
      const auto requests = static_cast<double>(attends.size());
      add_pass({.rows = requests, .decoding = requests, .produces = requests, .context = attends});
    }
    return all;
  }
  for (const std::vector<double>& attends : n.drafted) {
    if (s.time) add(s.time->value(), 0);
    if (s.time || s.head == Bytes(0)) continue;
    // 13 kernels; two FLOPs a weight of two bytes.
    Work work;
    work.weight_bytes = s.head;
    work.flops = Flops(s.head.value() * static_cast<double>(attends.size()));
    work.kernels = 13;
    add((timing.kernel(work) + timing.dispatch()).value(), s.head.value());
  }
  return all;
}

struct NaiveResult {
  double wall_s = 0, gaps_s = 0, ttft_s = 0;
  double swapped_out = 0, swapped_in = 0, decoded = 0, loaded = 0;
  std::uint64_t steps = 0, rows = 0, tokens = 0;
};

/// What a run counts beside what a naive one does.
inline void check_equal(const Metrics& m, const NaiveResult& n) {
  CHECK(m.wall_s == Approx(n.wall_s).epsilon(1e-9));
  CHECK(std::accumulate(m.token_gaps_s.begin(), m.token_gaps_s.end(), 0.0) == Approx(n.gaps_s).epsilon(1e-9));
  CHECK(std::accumulate(m.ttft_s.begin(), m.ttft_s.end(), 0.0) == Approx(n.ttft_s).epsilon(1e-9));
  CHECK(m.tokens == n.tokens);
  CHECK(m.serving.steps == n.steps);
  CHECK(m.serving.rows == n.rows);
  CHECK(m.serving.swap_in_bytes == Approx(n.swapped_in).epsilon(1e-12));
  CHECK(m.serving.swap_out_bytes == Approx(n.swapped_out).epsilon(1e-12));
  CHECK(m.serving.decoded_bytes == Approx(n.decoded).epsilon(1e-12));
  CHECK(m.serving.loaded_bytes == Approx(n.loaded).epsilon(1e-12));
}

class NaiveServing {
 public:
  virtual ~NaiveServing() = default;
  explicit NaiveServing(const SmallRun& run)
      : run_(run),
        requests_(served_requests(run.scenario, run.trace)),
        plan_(plan_of(run)),
        times_(run),
        machine_(stretch(run, plan_)) {}

  NaiveResult serve() {
    const Scenario& s = run_.scenario;
    const auto batching = make_batching(s, run_.system(), plan_.memory);
    std::vector<double> last(requests_.size(), -1);
    std::size_t arrived = 0;
    BatchStep step;
    for (;;) {
      for (; arrived < requests_.size() && requests_[arrived].arrival_s <= machine_.now; ++arrived) {
        const ServedRequest& q = requests_[arrived];
        batching->arrive(
            {static_cast<std::uint32_t>(arrived), q.prompt_tokens, q.output_tokens, q.prefilled});
      }
      if (!batching->form(step)) {
        if (arrived == requests_.size()) break;
        machine_.run({}, requests_[arrived].arrival_s);
        machine_.now = requests_[arrived].arrival_s;
        continue;
      }
      run_step(step);
      std::vector<std::uint32_t> refused;
      for (const StepShare& share : step.shares) {
        const std::uint32_t drafted = share.prompt ? 0 : share.tokens - 1;
        refused.push_back(drafted - accepted(share, drafted));
        if (!share.produces) continue;
        double& before = last[share.request];
        if (before < 0)
          result_.ttft_s += machine_.now - requests_[share.request].arrival_s;
        else
          result_.gaps_s += machine_.now - before;
        before = machine_.now;
        result_.tokens += 1 + drafted - refused.back();
      }
      if (std::count(refused.begin(), refused.end(), 0U) < static_cast<std::ptrdiff_t>(refused.size()))
        batching->refuse(refused);
      batching->complete();
    }
    result_.wall_s = machine_.now;
    return result_;
  }

 protected:
  /// One draft after the other, up to the first that is refused.
  std::uint32_t accepted(const StepShare& share, std::uint32_t drafted) const {
    const Drafts drafts = drafts_of(run_.scenario);
    std::uint32_t count = 0;
    while (count < drafted && drafts.accepted(share.request, share.context + count, 1) == 1) ++count;
    return count;
  }
  static double stretch(const SmallRun& run, const PagedPlan& plan) {
    double traffic = 0;  // compressed in, plain out
    for (const GpuCodecProfile* codec : plan.codecs)
      if (codec != nullptr) traffic = std::max(traffic, (1 + codec->ratio.value) * codec->rate.value.value());
    return 1 + traffic / run.scenario.device.gpu->own->bandwidth.value.value();
  }
  bool decodes() const {
    return std::any_of(plan_.codecs.begin(), plan_.codecs.end(), [](const auto* c) { return c != nullptr; });
  }
  std::size_t add(NaiveServer server, double seconds, std::vector<std::size_t> needs, int urgency = 0,
                  double shared = 0) {
    return machine_.add({server, seconds - shared, shared, urgency, group_, std::move(needs)});
  }
  std::size_t add_kernel(const NaiveKernel& k, std::vector<std::size_t> needs) {
    const double streams = k.bytes / run_.scenario.device.gpu->own->bandwidth.value.value();
    return add(kComputes, k.seconds, std::move(needs), 0, decodes() ? std::min(streams, k.seconds) : 0);
  }

  void swap(const BatchStep& step) {
    const double block = plan_.memory.kv_block.value();
    const double out = static_cast<double>(step.blocks_out) * block;
    const double in = static_cast<double>(step.blocks_in) * block;
    std::vector<std::size_t> tasks;
    ++group_;
    if (out > 0) tasks.push_back(add(kLinkOut, times_.timing().store(Bytes(out)).value(), {}));
    if (in > 0) tasks.push_back(add(kLinkIn, times_.timing().load(Bytes(in)).value(), tasks));
    if (!tasks.empty()) machine_.run(tasks);
    result_.swapped_out += out;
    result_.swapped_in += in;
  }

  /// Experts of an MoE layer that are not there as they are, each tensor type remapped, then brought.
  virtual void load(std::uint32_t layer) {
    const StorageShape& shape = plan_.split.shape();
    double streamed = 0;
    for (std::size_t k = 0; k < shape.backends.size(); ++k)
      if (shape.backends[k].name != "resident") streamed += plan_.split.experts(layer, k);
    if (streamed == 0 || window_.count(layer) > 0) return;
    REQUIRE(window_.size() < 2);
    ++group_;
    std::vector<std::size_t>& tasks = window_[layer];
    const int matrices = run_.scenario.model.moe().matrices;
    for (const int of_type : {matrices - 1, 1}) {
      const double part = shape.expert_bytes * of_type / matrices;
      std::vector<std::size_t> mapped;
      if (run_.scenario.device.gpu->remap)
        mapped.push_back(add(kRemaps, times_.timing().remap(Bytes(streamed * part)).value(), {}, 1));
      tasks.insert(tasks.end(), mapped.begin(), mapped.end());
      for (std::size_t k = 0; k < shape.backends.size(); ++k) {
        const double bytes = part * plan_.split.experts(layer, k);
        if (bytes == 0 || shape.backends[k].name == "resident") continue;
        if (plan_.codecs[k] != nullptr) {
          const double seconds = bytes / plan_.codecs[k]->rate.value.value();
          tasks.push_back(add(kDecodes, seconds, mapped, 1, seconds));
          result_.decoded += bytes;
        } else {
          tasks.push_back(add(kLinkIn, times_.timing().load(Bytes(bytes)).value(), mapped, 1));
          result_.loaded += bytes;
        }
      }
    }
  }

  virtual void run_layer(std::size_t i, const NaiveStep& n, const std::vector<int>& moe_number) {
    const Layer& layer = run_.scenario.model.layers[i];
    if (moe_number[i] >= 0) load(static_cast<std::uint32_t>(moe_number[i]));
    for (std::size_t ahead = 1; ahead < moe_number.size();
         ++ahead) {  // the next with experts, also of the next step
      const int next = moe_number[(i + ahead) % moe_number.size()];
      if (next < 0) continue;
      load(static_cast<std::uint32_t>(next));
      break;
    }
    ++group_;
    std::vector<std::size_t> before;
    if (run_.system().host_per_layer > Seconds(0))
      before = {add(kHostRuns, run_.system().host_per_layer.value(), {})};
    before = {add_kernel(times_.dense(layer, n), before)};
    const double reduce = times_.all_reduce(n);
    if (reduce > 0) before = {add(kReduces, reduce, before)};
    if (moe_number[i] >= 0) {
      const auto number = static_cast<std::uint32_t>(moe_number[i]);
      if (const auto loading = window_.find(number); loading != window_.end()) {
        for (const std::size_t task : loading->second) machine_.tasks[task].urgency = 0;
        before.insert(before.end(), loading->second.begin(), loading->second.end());
      }
      before = {add_kernel(times_.experts(layer, number, n), before)};
      window_.erase(number);
    }
    if (reduce > 0) before = {add(kReduces, reduce, before)};
    machine_.run(before);
  }

  void run_step(const BatchStep& step) {
    const NaiveStep n = naive_step(step, requests_, run_.trace.tokens());
    ++result_.steps;
    result_.rows += static_cast<std::uint64_t>(n.rows);
    swap(step);
    if (const NaiveKernel drafting = naive_drafting(run_, n); drafting.seconds > 0) {
      ++group_;
      machine_.run({add_kernel(drafting, {})});
    }
    std::vector<int> moe_number;
    int next = 0;
    for (const Layer& layer : run_.scenario.model.layers)
      moe_number.push_back(layer.feed_forward.kind == FeedForward::Kind::moe ? next++ : -1);
    for (std::size_t i = 0; i < moe_number.size(); ++i) run_layer(i, n, moe_number);
    ++group_;
    std::vector<std::size_t> before;
    if (const NaiveKernel head = times_.head(n); head.seconds > 0) before = {add_kernel(head, {})};
    if (run_.system().host_per_pass > Seconds(0))
      before = {add(kHostRuns, run_.system().host_per_pass.value(), before)};
    if (!before.empty()) machine_.run(before);
  }

  const SmallRun& run_;
  std::vector<ServedRequest> requests_;
  PagedPlan plan_;
  NaiveTimes times_;
  NaiveMachine machine_;
  int group_ = 0;
  std::map<std::uint32_t, std::vector<std::size_t>> window_;  // by MoE layer
  NaiveResult result_;
};

}  // namespace moelab::test

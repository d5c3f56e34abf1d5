#include "sim/advise/advice.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "models/input_error.hpp"
#include "models/nothing_fits.hpp"
#include "models/runtime_fit.hpp"
#include "models/stored_weights.hpp"
#include "sim/advise/advice_flags.hpp"
#include "sim/advise/advice_space.hpp"
#include "sim/advise/gpu_shares.hpp"
#include "sim/results/text_table.hpp"
#include "sim/serving/memory_plan.hpp"

namespace moelab {
namespace {

/// Why a place cannot be. Of several the nearest to what can be is the one where the host's memory alone
/// lacks something and that needs the least of it: its figure is the least that does. Where there is none
/// such, the one that needs the least of a GPU's memory.
struct Obstacle {
  std::string what;                                            // empty: not filled
  double gpu_bytes = std::numeric_limits<double>::infinity();  // needed of the fullest GPU; 0: it has them
  double host_bytes = std::numeric_limits<double>::infinity();

  bool nearer_than(const Obstacle& other) const {
    return std::pair(gpu_bytes, host_bytes) < std::pair(other.gpu_bytes, other.host_bytes);
  }
};

/// One runtime with one format on the request's machine: what it could do, and whether that fits.
class Search {
 public:
  Search(const AdviceRequest& request, const Runtime& runtime, const std::string& weights)
      : request_(request), runtime_(runtime), model_(request.model) {
    // In the model's own format it has its own groups.
    if (!weights.empty() && weights != model_.stored.name) model_.stored = stored_as(model_, weights);
    if (!request.kv.empty()) model_.stored.kv = cache_bytes(request.kv).value();
    // Estimates keep references to their machine.
    for (int gpus = 0; gpus <= request.machine.gpus; ++gpus) {
      machines_.push_back(request.machine);
      machines_.back().gpus = gpus;
    }
  }

  const Architecture& model() const { return model_; }
  std::vector<AdvicePlace> places() const { return places_of(runtime_, model_, request_.machine); }
  /// Why not on all GPUs together; empty where it could.
  std::string not_on_all_gpus() const {
    return request_.machine.gpus > 1 ? cannot_share(runtime_, model_, request_.machine.gpus) : "";
  }
  double decode_s(const AdvicePlace& place) const {
    return estimate(place).decode(request_.users, request_.context).total();
  }
  double expert_bytes_on_gpu(const AdvicePlace& place) const {
    return estimate(place).memory(tokens()).gpu_experts;
  }
  /// Why it cannot be, with a micro-batch of so many tokens; empty where it can.
  std::string impossible(const AdvicePlace& place, double micro_batch) const;
  /// The place and micro-batch with which a prompt and its answer are there soonest; nothing where no place
  /// fits, and then `nearest` is what the nearest of its places lacks, if that is nearer than what it was.
  std::optional<Advice> best(Obstacle& nearest) const;
  /// Whether all of it is in the memory of discrete GPUs, with the smallest micro-batch.
  bool whole_on_gpus() const {
    const MachineParts& machine = request_.machine;
    return machine.gpu && !machine.gpu->unified() &&
           impossible({machine.gpus, Split{}}, micro_batches_of(runtime_).front()).empty();
  }

 private:
  double tokens() const { return request_.context * request_.users; }
  LoadOptions options(double micro_batch) const {
    return {.micro_batch = micro_batch, .sequences = request_.users};
  }
  ServingEstimate estimate(const AdvicePlace& place) const {
    return {model_, machines_[static_cast<std::size_t>(place.gpus)], runtime_, place.split};
  }
  SplitMemory memory(const AdvicePlace& place, double micro_batch) const;
  std::string beyond_budget(const AdvicePlace& place, const SplitMemory& memory) const;
  std::string beyond_mac_limit(const SplitMemory& memory) const;
  Obstacle obstacle(const AdvicePlace& place, double micro_batch, std::string what) const;
  struct Way {
    AdvicePlace place;
    double micro_batch, decode_s;
  };
  /// All that fits, the most on the GPU first, and of a place the smallest micro-batch first.
  std::vector<Way> fitting(Obstacle& lacking) const;
  Advice advice_for(const AdvicePlace& place, double micro_batch) const;

  const AdviceRequest& request_;
  const Runtime& runtime_;
  Architecture model_;
  std::vector<MachineParts> machines_;  // by how many of the GPUs take part
};

/// A runtime with a law for its buffers has them by micro-batch. What another reserves has room for its own
/// micro-batch; a larger one's rows and logits take more, on each GPU.
SplitMemory Search::memory(const AdvicePlace& place, double micro_batch) const {
  SplitMemory m = estimate(place).memory(tokens(), options(micro_batch));
  if (runtime_.has_buffers()) return m;
  const auto rows = [&](double n) {
    const auto whole = static_cast<std::uint64_t>(n);
    return activation_bytes(model_, whole, whole).value();
  };
  const double more = std::max(0.0, rows(micro_batch) - rows(runtime_.micro_batch));
  (place.split.cpu_only || place.gpus == 0 ? m.host : m.gpu_reserve) += more * std::max(1, place.gpus);
  return m;
}

/// Of a run's budget: without what driver, libraries and pools hold.
std::string Search::beyond_budget(const AdvicePlace& place, const SplitMemory& m) const {
  const MachineParts& machine = machines_[static_cast<std::size_t>(place.gpus)];
  const bool own_memory = machine.gpu && !machine.gpu->unified();
  if (!request_.budget || (own_memory && place.split.cpu_only)) return {};
  const double held = m.gpu_context + m.gpu_reserve;
  const double needed =
      own_memory ? gpu_shares(model_, runtime_, place.split, m, place.gpus, tokens(), request_.users).most -
                       held / std::max(1, place.gpus)
                 : m.host_total() + m.gpu() - held;
  if (Bytes(needed) <= *request_.budget) return {};
  return std::string(own_memory ? "a GPU's memory" : "the host's memory") + " needs " +
         to_string(Bytes(needed)) + " beside driver and libraries, and the budget is " +
         to_string(*request_.budget);
}

/// Of what macOS lets the GPU take, or the budget says that it was raised to.
std::string Search::beyond_mac_limit(const SplitMemory& m) const {
  const std::optional<Bytes> share = request_.machine.gpu_share_of_ram();
  const double raised = request_.budget ? request_.budget->value() + m.gpu_context + m.gpu_reserve : 0;
  if (!share || m.gpu() <= std::max(share->value(), raised)) return {};
  return "macOS lets the GPU take " + to_string(*share) + " of " + to_string(*request_.machine.ram) +
         ", and it needs " + to_string(Bytes(m.gpu())) + ": `" + raised_limit_command(Bytes(m.gpu())) +
         "` gives it that, and --budget says so here";
}

std::string Search::impossible(const AdvicePlace& place, double micro_batch) const {
  const SplitMemory m = memory(place, micro_batch);
  std::string problem = beyond_budget(place, m);
  if (problem.empty()) problem = estimate(place).impossible(tokens(), options(micro_batch));
  if (!problem.empty()) return problem;
  const MachineParts& machine = machines_[static_cast<std::size_t>(place.gpus)];
  const bool unified = machine.gpu && machine.gpu->unified();
  if (unified && !machine.ram)
    return "nothing says how much memory the " + machine.gpu->title + " has; say so, as in 'ram: 64 GiB'";
  const double host = m.host_total() + (unified ? m.gpu() : 0);
  if (std::string lacks = machine.lacks_ram(Bytes(host)); !lacks.empty()) return lacks;
  if (unified) return beyond_mac_limit(m);
  if (place.split.cpu_only || !machine.gpu) return {};
  const double most = gpu_shares(model_, runtime_, place.split, m, place.gpus, tokens(), request_.users).most;
  if (Bytes(most) <= machine.gpu->memory) return {};
  return std::string(place.gpus > 1 ? "the fullest GPU" : "the GPU's memory") + " needs " +
         to_string(Bytes(most)) + " and has " + to_string(machine.gpu->memory);
}

/// Of a place that cannot be, and why.
Obstacle Search::obstacle(const AdvicePlace& place, double micro_batch, std::string what) const {
  const SplitMemory m = memory(place, micro_batch);
  const MachineParts& machine = machines_[static_cast<std::size_t>(place.gpus)];
  if (!machine.gpu || machine.gpu->unified()) return {std::move(what), 0, m.host_total() + m.gpu()};
  if (place.split.cpu_only) return {std::move(what), 0, m.host_total()};
  const double most = gpu_shares(model_, runtime_, place.split, m, place.gpus, tokens(), request_.users).most;
  const bool has_it = Bytes(most) <= machine.gpu->memory && beyond_budget(place, m).empty();
  return {std::move(what), has_it ? 0 : most, m.host_total()};
}

AdviceGroup group_of(const AdvicePlace& place, const MachineParts& machine) {
  const Split& split = place.split;
  if (split.cpu_only || !machine.gpu) return AdviceGroup::cpu_only;
  if (!(split == Split{})) return AdviceGroup::experts_on_cpu;
  if (place.gpus > 1) return AdviceGroup::several_gpus;
  return machine.gpu->unified() ? AdviceGroup::unified : AdviceGroup::one_gpu;
}

Advice Search::advice_for(const AdvicePlace& place, double micro_batch) const {
  const ServingEstimate e = estimate(place);
  const StepEstimate step = e.decode(request_.users, request_.context);
  const StepEstimate prompt = e.prompt(request_.prompt, micro_batch);
  Advice a;
  a.runtime = runtime_.name;
  a.family = family_of(runtime_);
  a.title = runtime_.title;
  a.weights = model_.stored.name;
  a.weight_bits = 8 * total_bytes(model_).value() / total_weights(model_);
  a.gpus = place.split.cpu_only ? 0 : place.gpus;
  a.split = place.split;
  a.micro_batch = micro_batch;
  a.decode_s = step.total();
  a.prompt_s = prompt.total();
  a.request_s = a.prompt_s + request_.answer * a.decode_s;
  a.bound = step.bound(), a.bound_word = step.bound_word();
  a.prompt_bound = prompt.bound(), a.prompt_bound_word = prompt.bound_word();
  a.memory = memory(place, micro_batch);
  const GpuShares shares =
      gpu_shares(model_, runtime_, place.split, a.memory, a.gpus, tokens(), request_.users);
  a.gpu_most = shares.most;
  if (is_llama(a.family)) a.layers_a_gpu = shares.layers;  // others are told no more than how many GPUs
  a.error = error_of(group_of(place, request_.machine));
  for (const RuntimeCaveat& caveat : runtime_.caveats)
    if (caveat.concerns(model_.name, model_.stored.name)) a.caveat = caveat.what;
  return a;
}

std::vector<Search::Way> Search::fitting(Obstacle& lacking) const {
  std::vector<Way> ways;
  for (const AdvicePlace& place : places()) {
    double decode = 0;
    for (const double micro_batch : micro_batches_of(runtime_)) {
      std::string problem = impossible(place, micro_batch);
      if (!problem.empty()) {
        Obstacle found = obstacle(place, micro_batch, std::move(problem));
        if (found.nearer_than(lacking)) lacking = std::move(found);
        break;  // a larger one takes more
      }
      if (decode == 0) decode = decode_s(place);
      ways.push_back({place, micro_batch, decode});
    }
  }
  return ways;
}

std::optional<Advice> Search::best(Obstacle& nearest) const {
  Obstacle lacking;
  std::optional<Way> best;
  double best_s = 0;
  for (const Way& way : fitting(lacking)) {
    const double answer = request_.answer * way.decode_s;
    if (best && answer >= best_s) continue;
    const double request = answer + estimate(way.place).prompt(request_.prompt, way.micro_batch).total();
    // Of times alike the first: with the most on the GPU and the smallest micro-batch.
    if (best && request >= best_s * (1 - 1e-9)) continue;
    best = way;
    best_s = request;
  }
  if (!best) {
    if (lacking.nearer_than(nearest)) nearest = std::move(lacking);
    return {};
  }
  Advice a = advice_for(best->place, best->micro_batch);
  a.command = command_of(a, request_, model_);
  a.weights_from = weights_from(a, request_);
  return a;
}

/// "no CPU is named ..." where memory lacks, and the smallest weights would go into that of GPUs and host
/// together.
std::string unnamed_cpu(const AdviceRequest& request, const std::string& lacks) {
  const MachineParts& machine = request.machine;
  if (lacks.empty() || !machine.gpu || machine.cpu || machine.gpu->unified()) return {};
  const std::vector<std::string> runtimes = runtimes_for(request);
  const auto splits = [&](const std::string& name) { return offers_host(load_runtime(name)); };
  if (std::none_of(runtimes.begin(), runtimes.end(), splits)) return {};
  const Runtime runtime = load_runtime(runtimes.front());
  const bool own = request.weights.empty() && !request.gguf.empty();  // a GGUF file's
  const Search search(request, runtime, own ? std::string() : nearest_to_fitting(request).weights);
  const double gpus = machine.gpus * machine.gpu->memory.value();
  if (const auto ram = machine.usable_ram(); ram && total_bytes(search.model()) > *ram + Bytes(gpus))
    return {};
  return "no CPU is named, which could serve from the host's memory what the GPU has no room for: name it by "
         "--cpu NAME (`moelab parts` lists them); without it, ";
}

/// What trying runtimes with their formats has brought so far.
struct Tried {
  AdviceList list;
  std::string refused;      // why the first of runtimes and formats is not run there; empty: none was refused
  Obstacle nearest;         // to having room, of the usual formats
  Obstacle nearest_of_few;  // of those of fewer than four bits
};

/// One runtime in all of `formats`.
void try_runtime(const AdviceRequest& request, const std::string& name,
                 const std::vector<std::string>& formats, Tried& tried) {
  AdviceList& list = tried.list;
  const Runtime runtime = load_runtime(name);
  const std::size_t before = list.ways.size();
  std::string why_refused;  // of the formats that it does not run
  Obstacle here;            // of the format that comes nearest to having room
  std::string here_weights;
  for (const std::string& weights : formats) {
    std::string reason = cannot_run(runtime, weights, request);
    if (reason.empty()) reason = cannot_cache(runtime, request.kv);
    if (!reason.empty()) {
      if (tried.refused.empty()) tried.refused = reason;
      if (why_refused.find(reason) == std::string::npos)
        why_refused += (why_refused.empty() ? "" : "; ") + reason;
      continue;
    }
    Obstacle lacking;
    const Search search(request, runtime, weights);
    if (std::optional<Advice> advice = search.best(lacking)) {
      advice->asked = name;
      list.ways.push_back(std::move(*advice));
      if (std::string why = search.not_on_all_gpus(); !why.empty())
        list.left_out.push_back({runtime.name, std::move(why), weights, request.machine.gpus});
    } else if (lacking.nearer_than(here)) {
      here = std::move(lacking);
      if (const std::string why = search.not_on_all_gpus(); !why.empty())
        here.what += "; not on " + std::to_string(request.machine.gpus) + " GPUs together: " + why;
      here_weights = weights;
    }
  }
  if (list.ways.size() == before)
    list.left_out.push_back(
        {runtime.name,
         here.what.empty() ? why_refused : (here_weights.empty() ? "" : here_weights + ": ") + here.what});
  if (!here.nearer_than(tried.nearest)) return;
  here.what = runtime.name + (here_weights.empty() ? ": " : " with " + here_weights + ": ") + here.what;
  tried.nearest = std::move(here);
}

/// Whether GPUs hold any of the usual weights whole in memories of their own, however much the host has:
/// then fewer bits have no host's memory to save, and are not worth their answers.
bool holds_usual_weights(const AdviceRequest& request, const Runtime& runtime) {
  AdviceRequest roomy = request;
  roomy.machine.ram.reset();
  return std::ranges::any_of(weights_for(family_of(runtime), request), [&](const std::string& weights) {
    return cannot_run(runtime, weights, request).empty() && Search(roomy, runtime, weights).whole_on_gpus();
  });
}

/// Whether the machine has room for the largest usual weights: who has it needs no fewer bits than four.
bool has_room_for_all(const AdviceRequest& request, const Runtime& runtime, const std::string& largest) {
  Obstacle none;
  return cannot_run(runtime, largest, request).empty() &&
         Search(request, runtime, largest).best(none).has_value();
}

/// Of fewer bits than four, the most that have room, and the fastest. Says whether there is one.
bool try_few_bits(const AdviceRequest& request, const std::string& name, Tried& tried) {
  Tried few;
  try_runtime(request, name, few_bit_weights_for(family_of(load_runtime(name)), request), few);
  if (few.nearest.nearer_than(tried.nearest_of_few)) tried.nearest_of_few = few.nearest;
  std::vector<Advice>& ways = few.list.ways;
  if (ways.empty()) return false;
  const auto fastest = std::ranges::min_element(ways, {}, &Advice::decode_s);
  if (fastest != ways.begin()) tried.list.ways.push_back(*fastest);
  tried.list.ways.push_back(std::move(ways.front()));
  return true;
}

/// The most bits, of four and more, that a runtime has room for beside a KV cache of q8_0; empty: none.
std::string with_q8_0_cache(AdviceRequest request, const Runtime& runtime,
                            const std::vector<std::string>& formats) {
  if (!request.kv.empty()) return {};
  request.kv = "q8_0";
  Obstacle none;
  for (const std::string& weights : formats)
    if (Search(request, runtime, weights).best(none)) return weights;
  return {};
}

/// One runtime in all that is tried of it.
void try_all_of(const AdviceRequest& request, const std::string& name, Tried& tried) {
  AdviceList& list = tried.list;
  const Runtime runtime = load_runtime(name);
  const std::string family = family_of(runtime);
  const std::vector<std::string> smaller = smaller_weights_for(family, request);
  std::vector<std::string> formats = weights_for(family, request);
  const bool for_cpu = request.runtimes.empty() && is_for_cpu_experts(family);
  const bool whole = (for_cpu || !smaller.empty()) && holds_usual_weights(request, runtime);
  if (whole && for_cpu) return;
  if (!whole) formats.insert(formats.end(), smaller.begin(), smaller.end());
  const std::size_t out = list.left_out.size(), before = list.ways.size();
  try_runtime(request, name, formats, tried);
  const bool none = list.ways.size() == before;
  if (whole || smaller.empty() || has_room_for_all(request, runtime, formats.front())) return;
  if (!try_few_bits(request, name, tried) || !none) return;
  for (std::size_t i = out; i < list.left_out.size(); ++i)
    list.left_out[i].why = "of 4 bits and more, " + list.left_out[i].why;
  if (list.four_bits_with_q8_0_cache.empty())
    list.four_bits_with_q8_0_cache = with_q8_0_cache(request, runtime, formats);
}

/// As AdviceList has them.
void sort_ways(const AdviceRequest& request, std::vector<Advice>& ways) {
  const bool asked = !request.weights.empty();
  std::ranges::stable_sort(ways, [asked](const Advice& a, const Advice& b) {
    if (a.few_bits() != b.few_bits()) return b.few_bits();
    const bool by_bits = a.few_bits() && !asked;
    return std::pair(by_bits ? -a.weight_bits : 0, a.decode_s) <
           std::pair(by_bits ? -b.weight_bits : 0, b.decode_s);
  });
  if (ways.empty() || ways.front().caveat.empty()) return;
  const Advice& first = ways.front();
  const auto without = std::ranges::find_if(ways, [&](const Advice& a) {
    return a.caveat.empty() && a.few_bits() == first.few_bits() &&
           a.decode_s <= first.decode_s * (1 + first.error.decode);
  });
  if (without != ways.end()) std::rotate(ways.begin(), without, without + 1);
}

}  // namespace

AdviceList find_ways(const AdviceRequest& request) {
  Tried tried;
  AdviceList& list = tried.list;
  for (const std::string& name : runtimes_for(request)) try_all_of(request, name, tried);
  sort_ways(request, list.ways);
  const bool none = list.ways.empty();
  const bool few_alone =
      !none && list.ways.front().few_bits() && request.weights.empty() && request.gguf.empty();
  const std::string of_cpu = none || few_alone ? unnamed_cpu(request, tried.nearest.what) : "";
  if (few_alone) list.lacks_of_four_bits = of_cpu + tried.nearest.what;
  if (none && tried.nearest_of_few.nearer_than(tried.nearest)) tried.nearest = tried.nearest_of_few;
  if (none) list.lacks = of_cpu + tried.nearest.what;
  if (none && list.lacks.empty() && !tried.refused.empty()) throw InputError("", tried.refused);
  // What four bits lack is said of all together then.
  if (few_alone)
    std::erase_if(list.left_out, [&](const AdviceList::LeftOut& out) {
      return std::ranges::any_of(list.ways, [&](const Advice& a) { return a.runtime == out.runtime; });
    });
  return std::move(list);
}

bool Advice::few_bits() const {
  const std::size_t digit = weights.find_first_of("123456789");
  const bool by_name = weights.starts_with("gguf-") && digit != std::string::npos && weights[digit] < '4' &&
                       (digit + 1 == weights.size() || weights[digit + 1] == '_');
  return weight_bits < 4 || by_name;
}

std::string raised_limit_command(Bytes taken) {
  return "sudo sysctl iogpu.wired_limit_mb=" + fixed(std::ceil(taken.value() / 0x1p20), 0);
}

std::string raised_gtt_parameter(Bytes taken) {
  constexpr double kPage = 4096;  // bytes
  return "ttm.pages_limit=" + fixed(std::ceil(taken.value() / kPage), 0);
}

double default_context(double prompt, double answer) {
  constexpr double kStep = 1024;
  return std::max(AdviceRequest{}.context, std::ceil((prompt + answer) / kStep) * kStep);
}

void throw_nothing_fits(const AdviceRequest& request, const std::string& lacks) {
  const auto tries_few_bits = [&](const std::string& name) {
    return !few_bit_weights_for(family_of(load_runtime(name)), request).empty();
  };
  const bool all_tried = std::ranges::any_of(runtimes_for(request), tries_few_bits);
  const bool mxfp4 = has_mxfp4_experts(request.model);  // the fewest bits that its files have
  const auto keeps_mxfp4 = [](const std::string& weights) {
    return weights.starts_with("gguf-") || weights == "mxfp4";
  };
  const bool none_smaller =
      all_tried || (mxfp4 && (request.weights.empty() || std::ranges::any_of(request.weights, keeps_mxfp4)));
  const std::string smaller = mxfp4 ? "gguf-mxfp4" : "gguf-q2_k";
  throw NothingFits("", "'" + request.model.name + "' does not fit in any way that was tried" +
                            (all_tried ? ", down to 2 bits a weight: " : ": ") + lacks + ". " +
                            (none_smaller ? "A" : "Smaller weights (--weights " + smaller + "), a") +
                            " shorter --context or more memory would help");
}

std::vector<Advice> advise(const AdviceRequest& request) {
  AdviceList list = find_ways(request);
  if (list.ways.empty()) throw_nothing_fits(request, list.lacks);
  return std::move(list.ways);
}

Advice nearest_to_fitting(const AdviceRequest& request) {
  const Runtime runtime = load_runtime(runtimes_for(request).front());
  Advice nearest;
  nearest.runtime = runtime.name;
  nearest.family = family_of(runtime);
  nearest.asked = runtimes_for(request).front();
  nearest.title = runtime.title;
  nearest.gpus = std::min(1, request.machine.gpus);
  double least = 0;
  std::vector<std::string> formats = weights_for(nearest.family, request);
  const std::vector<std::string> smaller = smaller_weights_for(nearest.family, request);
  formats.insert(formats.end(), smaller.begin(), smaller.end());
  for (const std::string& weights : formats) {
    const Search search(request, runtime, weights);
    const double bytes = total_bytes(search.model()).value();
    if (least > 0 && bytes >= least) continue;
    least = bytes;
    nearest.weights = search.model().stored.name;
  }
  return nearest;
}

std::vector<AdviceCurve> decode_curves(const AdviceRequest& request, const std::vector<Advice>& list) {
  std::vector<AdviceCurve> curves;
  for (const Advice& a : list) {
    if (std::any_of(curves.begin(), curves.end(), [&](const auto& c) { return c.runtime == a.runtime; }))
      continue;
    const Runtime runtime = load_runtime(a.asked);
    // Of a GGUF file the weights are the model's own.
    const bool own = request.weights.empty() && !request.gguf.empty();
    const Search search(request, runtime, own ? std::string() : a.weights);
    AdviceCurve curve{a.runtime, a.weights, {}};
    for (const AdvicePlace& place : search.places())
      if (search.impossible(place, micro_batches_of(runtime).front()).empty())
        curve.points.push_back({search.expert_bytes_on_gpu(place), search.decode_s(place),
                                place.split.cpu_only ? 0 : place.gpus, place.split});
    std::stable_sort(curve.points.begin(), curve.points.end(), [](const auto& x, const auto& y) {
      return std::pair(x.gpus, x.gpu_expert_bytes) < std::pair(y.gpus, y.gpu_expert_bytes);
    });
    curves.push_back(std::move(curve));
  }
  return curves;
}

}  // namespace moelab

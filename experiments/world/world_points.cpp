#include "experiments/world/world_points.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>

#include "models/config_store.hpp"
#include "models/input_error.hpp"
#include "models/stored_weights.hpp"
#include "traces/import/csv_reader.hpp"

namespace moelab::world {
namespace {

constexpr double kShortPrompt = 32;    // where a source says "short"
constexpr double kShortContext = 256;  // prompt and some answer

std::optional<double> number_in(const std::string& text) {
  return parse_number(text);
}

/// The number behind `key` in "ncmoe=25 ubatch=2048".
std::optional<double> option(const std::string& text, const std::string& key) {
  const std::size_t at = text.find(key + "=");
  if (at == std::string::npos) return {};
  double value = 0;
  const char* const begin = text.data() + at + key.size() + 1;
  const auto [rest, error] = std::from_chars(begin, text.data() + text.size(), value);
  if (error != std::errc()) return {};
  return value;
}

/// A runtime for an engine: that of its version's name, where there is one ("ktransformers-0.2" for V0.2.1).
std::string runtime_of(const Point& point) {
  const std::vector<std::string> known = config_names("runtimes");
  std::string best;
  for (const std::string& name : known) {
    if (name == point.engine) best = best.empty() ? name : best;
    if (!name.starts_with(point.engine + "-")) continue;
    const std::string version = name.substr(point.engine.size() + 1);
    const std::size_t digits = point.version.find_first_of("0123456789");
    if (digits == std::string::npos || digits > 1 || version.find_first_of("0123456789") != 0) continue;
    const std::string stated = point.version.substr(digits);
    if (stated == version || stated.starts_with(version + ".")) best = name;
  }
  return best;
}

/// The share of experts that fits beside the rest.
double share_that_fits(const Question& q, const Runtime& runtime) {
  Split none;
  none.gpu_expert_share = 0;
  const SplitMemory without = ServingEstimate(q.model, q.machine, runtime, none).memory(q.context);
  const double left = q.machine.gpu_memory().value() - without.gpu();
  return std::clamp(left / routed_bytes(q.model).value(), 0.0, 1.0);
}

void read_split(const Point& point, const Runtime& runtime, Question& q) {
  const std::string& o = point.offload;
  const int moe_layers = static_cast<int>(q.model.moe_layers().size());
  if (const auto layers = option(o, "ncmoe")) {
    if (!(*layers >= 0)) q.why_not = "ncmoe is a number of layers; 99 means all";
    q.split.cpu_expert_layers = static_cast<int>(std::clamp(*layers, 0.0, static_cast<double>(moe_layers)));
  } else if (const auto experts = option(o, "gpu-experts-per-layer")) {
    q.split.gpu_expert_share = std::clamp(*experts / q.model.moe().experts, 0.0, 1.0);
  } else if (const auto percent = option(o, "gpu-experts-share")) {
    q.split.gpu_expert_share = std::clamp(*percent / 100, 0.0, 1.0);
  } else if (o.starts_with("experts-on-cpu=all")) {
    q.split.gpu_expert_share = 0;
  } else if (o.starts_with("experts-on-cpu")) {
    q.split.gpu_expert_share = share_that_fits(q, runtime);
  } else if (o.starts_with("cpu-only")) {
    q.split.cpu_only = true;
  } else if (!o.starts_with("resident")) {
    q.why_not = "offload '" + o + "' is not known";
  }
  q.micro_batch = option(o, "ubatch");
  if (q.micro_batch) q.micro_batch = std::max(1.0, *q.micro_batch);
}

std::string group_of(const Point& point, const Question& q) {
  const bool prefill = q.prefill && q.micro_batch.value_or(2) > 1;
  std::string place;
  if (q.split.cpu_only || !q.machine.gpu)
    place = "CPU only";
  else if (q.split.cpu_expert_layers > 0 || q.split.gpu_expert_share < 1)
    place = "experts on the CPU";
  else if (point.gpus > 1)
    place = "several GPUs";
  else
    place = q.machine.gpu->unified() ? "unified memory" : "one GPU";
  return place + (prefill ? ", prefill" : ", decode");
}

/// The machine, as far as the question depends on it: a CPU that is not known may be left out where its
/// memory says enough, and all of the host where everything is on the GPU.
void read_machine(const Point& point, Question& q) {
  MachineText text;
  text.gpu = point.gpu;
  text.gpus = point.gpu.empty() ? 0 : std::max(1, point.gpus);
  text.cpu = point.cpu == "not stated" ? "" : point.cpu;
  text.sockets = point.sockets;
  text.memory = point.memory;
  const bool resident = point.offload.starts_with("resident");
  MachineText without_cpu = text;
  without_cpu.cpu.clear();
  if (resident && text.memory.find("unified") == std::string::npos) without_cpu.memory.clear();
  const bool memory_says_enough =
      text.memory.find("channel") != std::string::npos || text.memory.find("GB/s") != std::string::npos;
  try {
    q.machine = machine_of(text);
  } catch (const InputError&) {
    if (text.gpu.empty() || text.cpu.empty() || !(resident || memory_says_enough)) throw;
    q.machine = machine_of(without_cpu);
  }
}

void read_amounts(const Point& point, Question& q) {
  q.batch = point.batch;
  constexpr double kMost = 1e7;  // tokens
  q.prompt = std::max(number_in(point.prompt).value_or(kShortPrompt), 1.0);
  q.context = std::max(number_in(point.context).value_or(kShortContext), 1.0);
  if (!(q.prompt <= kMost && q.context <= kMost && q.batch <= kMost))
    throw InputError("", "more tokens than any published run has");
  q.prefill = point.metric == "prefill" || point.metric == "ttft_ms";
  // "pp512 @ d8192" of llama-bench: a prompt of 512 tokens behind 8192, a context of 8704.
  if (point.metric == "prefill" && number_in(point.context) && number_in(point.prompt))
    q.before = std::max(0.0, q.context - q.prompt);
  const std::vector<std::string> metrics{"decode", "prefill", "throughput", "tpot_ms", "ttft_ms"};
  if (std::find(metrics.begin(), metrics.end(), point.metric) == metrics.end())
    q.why_not = "metric '" + point.metric + "' is not known";
  const std::string unit = point.metric.ends_with("_ms") ? "ms" : "tok/s";
  if (q.why_not.empty() && !point.unit.empty() && point.unit != unit)
    q.why_not = "unit '" + point.unit + "' is not that of " + point.metric + ": " + unit;
}

bool uses_cpu(const Question& q) {
  return q.split.cpu_only || q.split.cpu_expert_layers > 0 || q.split.gpu_expert_share < 1;
}

/// What cannot be said of a point that was read.
std::string unanswerable(const Point& point, const Question& q, const Runtime& runtime) {
  if (point.metric == "ttft_ms" && q.batch > 1)
    return "when the first of several requests' tokens comes depends on when they come (`moelab run` has a "
           "workload for that)";
  if (!uses_cpu(q)) return {};
  const bool copied = q.prefill && runtime.stream_from > 0 &&
                      std::min(q.micro_batch.value_or(runtime.micro_batch), q.prompt) >= runtime.stream_from;
  if ((q.machine.host_bandwidth().value() <= 0 || (q.prefill && !q.machine.cpu)) && !copied)
    return "the CPU computes experts, and the source does not say which CPU or memory";
  return {};
}

/// FLOPs without which no program can have computed a prompt: each weight of a token once, scores of what it
/// attends to, of latent attention none, since how its products are put together is the program's choice.
double least_flops(const Question& q) {
  const Architecture& model = q.model;
  double flops = head_work(model, 1).flops.value();
  for (const Layer& layer : model.layers) {
    const double attended = attended_tokens(q.before + 1, q.prompt, layer.attention.window) / q.prompt;
    const Work mixer = attention_work(model, layer, q.prompt, attended);
    flops += mixer.flops.value() + dense_work(model, layer, q.prompt).flops.value();
    if (layer.attention.kind == Attention::Kind::mla) flops -= mixer.mixing.value();
    const FeedForward& ff = layer.feed_forward;
    if (ff.kind == FeedForward::Kind::moe) flops += expert_work(model, ff, ff.top_k * q.prompt).flops.value();
  }
  return flops;
}

/// A prompt that took less than its FLOPs need at the data sheet's peak was not computed whole (a server had
/// a part of it from an earlier request), or not by that machine: whatever predicts it, its row measures
/// something else. The peak is that of 16 bits with sums in 32; GeForce boards do twice that with sums in 16,
/// and less than 16 bits a weight may be computed in 8 or 4.
std::string beyond_peak(const Point& point, const Question& q) {
  if (!q.prefill || uses_cpu(q) || q.model.has_encoder()) return {};
  const GpuPart& gpu = *q.machine.gpu;
  const bool small =
      q.model.stored.quantised(WeightPart::experts) || q.model.stored.quantised(WeightPart::dense);
  const double times = small ? std::max(4.0, gpu.byte_products) : std::max(1.0, gpu.byte_products / 2);
  const double seconds = point.metric == "ttft_ms" ? point.value / 1e3 : q.prompt / point.value;
  const FlopsPerSecond rate(least_flops(q) / seconds), peak = times * q.machine.gpus * gpu.peak;
  if (rate <= peak) return {};
  return "that would be " + to_string(rate) + " on a machine of " + to_string(peak) +
         ": not all of the prompt was computed";
}

/// A runtime and those that it stands on.
void add_with_bases(std::string name, Runtimes& runtimes) {
  while (!name.empty() && !runtimes.contains(name))
    name = runtimes.emplace(name, load_runtime(name)).first->second.based_on;
}

}  // namespace

std::vector<Point> read_points(const std::string& path) {
  CsvReader csv(path);
  const auto column = [&](const char* name) { return csv.column(name); };
  const std::size_t id = column("id"), source = column("source"), engine = column("engine"),
                    version = column("version"), model = column("model"), weights = column("weights"),
                    gpu = column("gpu"), gpus = column("gpus"), cpu = column("cpu"),
                    sockets = column("sockets"), memory = column("memory"), offload = column("offload"),
                    batch = column("batch"), prompt = column("prompt"), context = column("context"),
                    metric = column("metric"), value = column("value"), unit = column("unit"),
                    grade = column("grade");
  const auto count = [&](std::size_t at, double least, double most, double fallback) {
    if (csv.field(at).empty()) return fallback;
    const double n = csv.number_at(at, "a number");
    if (!(n >= least && n <= most && n == std::floor(n)))
      csv.fail(at, "expected a whole number from " + std::to_string(int(least)) + " to " +
                       std::to_string(int(most)));
    return n;
  };
  std::vector<Point> points;
  std::set<std::string> ids;
  while (csv.next()) {
    const auto text = [&](std::size_t at) { return std::string(csv.field(at)); };
    Point p{text(id),  text(source), text(engine),  text(version), text(model),   text(weights), text(gpu),
            text(cpu), text(memory), text(offload), text(prompt),  text(context), text(metric)};
    if (!ids.insert(p.id).second) csv.fail(id, "expected an id of its own: another row has it");
    p.gpus = static_cast<int>(count(gpus, 0, 1024, p.gpu.empty() ? 0 : 1));
    p.sockets = static_cast<int>(count(sockets, 1, 64, 1));
    p.batch = count(batch, 1, 1e6, 1);
    p.value = csv.number_at(value, "a measured value");
    if (!(p.value >= 1e-6 && p.value <= 1e12))
      csv.fail(value, "expected a speed or time of more than nothing");
    p.unit = text(unit);
    p.grade = csv.field(grade).empty() ? 'C' : csv.field(grade).front();
    points.push_back(std::move(p));
  }
  return points;
}

Question question_of(const Point& point, Runtimes& runtimes) {
  Question q;
  try {
    q.runtime = runtime_of(point);
    if (q.runtime.empty())
      throw InputError(
          "", "no runtime '" + point.engine + "'" + suggestion(point.engine, config_names("runtimes")));
    add_with_bases(q.runtime, runtimes);
    q.model = load_architecture(point.model);
    q.model.stored = stored_as(q.model, point.weights);
    read_machine(point, q);
    read_amounts(point, q);
    if (q.why_not.empty()) read_split(point, runtimes.at(q.runtime), q);
    q.group = group_of(point, q);
    if (q.why_not.empty()) q.why_not = unanswerable(point, q, runtimes.at(q.runtime));
    if (q.why_not.empty()) q.why_not = beyond_peak(point, q);
  } catch (const InputError& error) {
    q.why_not = error.problems().front().what;
  }
  return q;
}

Prediction predict(const Point& point, const Question& q, const Runtimes& runtimes) {
  const ServingEstimate estimate(q.model, q.machine, runtimes.at(q.runtime), q.split);
  if (q.prefill) {
    const StepEstimate prompt = estimate.prompt(q.prompt, q.micro_batch, q.before);
    const double seconds = prompt.total();
    return {point.metric == "ttft_ms" ? seconds * 1e3 : q.prompt / seconds, prompt.bound()};
  }
  const StepEstimate step = estimate.decode(q.batch, q.context);
  const double seconds = step.total();
  if (point.metric == "tpot_ms") return {seconds * 1e3, step.bound()};
  return {(point.metric == "throughput" ? q.batch : 1) / seconds, step.bound()};
}

double null_prediction(const Point& point, const Question& q) {
  const double host = q.machine.host_bandwidth().value();
  const double bandwidth = uses_cpu(q) && host > 0 ? host
                           : q.machine.gpu         ? q.machine.gpu->bandwidth.value()
                                                   : host;
  double seconds = active_bytes(q.model).value() / bandwidth;
  if (q.prefill) {
    const double peak = q.machine.gpu ? q.machine.gpu->peak.value() : q.machine.cpu_peak().value();
    seconds = 2 * active_weights(q.model) * q.prompt / peak;
  }
  if (point.metric == "ttft_ms" || point.metric == "tpot_ms") return seconds * 1e3;
  if (q.prefill) return q.prompt / seconds;
  return (point.metric == "throughput" ? q.batch : 1) / seconds;
}

}  // namespace moelab::world

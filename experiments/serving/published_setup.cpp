#include "experiments/serving/published_setup.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "experiments/load/replay_setup.hpp"
#include "experiments/serving/front_end.hpp"
#include "models/input_error.hpp"
#include "models/model_import.hpp"
#include "models/runtime.hpp"
#include "sim/serving/arrival_times.hpp"
#include "traces/portable_math.hpp"

namespace moelab::published {
namespace {

constexpr double kGiB = 0x1p30;
constexpr const char* kSystem = "server";

/// The number behind "0." of a version, 17 of "0.17.1"; nothing of a version that begins otherwise.
std::optional<int> minor_version(std::string_view version) {
  if (!version.starts_with("0.")) return {};
  int minor = 0;
  const auto [rest, error] = std::from_chars(version.data() + 2, version.data() + version.size(), minor);
  return error == std::errc() ? std::optional(minor) : std::nullopt;
}

/// vLLM 0.14 made asynchronous scheduling its default; it came out in January 2026.
bool schedules_ahead(const ServingPoint& point) {
  constexpr int kFirst = 14;
  if (const auto minor = minor_version(point.version)) return *minor >= kFirst;
  return point.date >= "2026-02";
}

/// vllm/engine/arg_utils.py: large GPUs but for A100 get larger steps and more requests. Memory for a trial
/// step is kept free, of which most is for sampling (vllm/v1/worker, _dummy_sampler_run with top-k and
/// top-p): of each request and word logits in 16 and in 32 bits, sorted with their places, probabilities, and
/// logits in order again.
EngineDefaults vllm_defaults(const ServingPoint& point, const GpuPart& gpu) {
  constexpr double kSampled = 2 + 4 + (4 + 8) + 4 + 4;
  const bool large = gpu.memory.value() >= 70 * kGiB && !gpu.name.starts_with("a100");
  const std::uint64_t requests = large ? 1024 : 256;
  return {.max_tokens = large ? 8192u : 2048u,
          .max_requests = requests,
          .memory_share = 0.9,
          .async = schedules_ahead(point),
          .sampling_bytes = kSampled * static_cast<double>(requests)};
}

/// sglang/srt/server_args.py (0.5): prompts of a step by the GPU's memory; memory is kept for activations
/// (1.5 MiB a token of a step of prompts), for graphs (2 MiB a request of the largest; with attention by
/// requests more) and for more GPUs.
EngineDefaults sglang_defaults(const ServingPoint& point, const GpuPart& gpu, double visible) {
  constexpr double kMiB = 0x1p20;
  const double memory = gpu.memory.value();
  const bool middle = memory >= 60 * kGiB;
  const std::uint64_t tokens = memory >= 160 * kGiB  ? 16384
                               : middle              ? 8192
                               : memory >= 35 * kGiB ? 4096
                                                     : 2048;
  const bool few = point.gpus < 4;
  const double graphs = memory >= 160 * kGiB  ? 512
                        : middle              ? (few ? 256 : 512)
                        : memory >= 35 * kGiB ? (few ? 32 : 160)
                                              : (few ? 24 : 80);
  double kept = 512 + 1.5 * static_cast<double>(tokens) + 2 * graphs + 128.0 * point.gpus;
  if (point.data_parallel > 1) kept += graphs * point.data_parallel * (graphs > 300 ? 4.5 : 3);
  if (middle) kept = std::max(kept, 10240.0);
  return {.max_tokens = tokens,
          .max_requests = 2048,
          .memory_share = 1 - kept * kMiB / visible,
          .async = true,
          .sampling_bytes = 0};
}

std::uint64_t whole_option(const ServingPoint& point, const std::string& key, std::uint64_t fallback) {
  const auto found = point.options.find(key);
  if (found == point.options.end()) return fallback;
  std::uint64_t value = 0;
  const char* const end = found->second.data() + found->second.size();
  const auto [rest, error] = std::from_chars(found->second.data(), end, value);
  if (error != std::errc() || rest != end)
    throw InputError("", "option '" + key + "=" + shown_word(found->second) + "': expected a whole number");
  return value;
}

/// Options that say something that this program does not simulate.
void check_options(const ServingPoint& point) {
  for (const auto& [key, value] : point.options) {
    if (key == "async" || key == "max_tokens" || key == "kv") continue;
    if (key == "pipeline_parallel")
      throw InputError(
          "", "GPUs that have layers of their own, one behind the other, are not simulated under load");
    throw InputError(
        "", "option '" + shown_word(key) + "' is not known" +
                suggestion(key, std::vector<std::string>{"async", "max_tokens", "kv", "pipeline_parallel"}));
  }
  if (point.users && point.rate)
    throw InputError(
        "",
        "users who also keep to a rate are not simulated: requests come at a rate, or when others "
        "are answered");
  if (point.gpus != point.tensor_parallel * point.data_parallel)
    throw InputError("", std::to_string(point.gpus) +
                             " GPUs are not tensor_parallel times data_parallel, which is " +
                             std::to_string(point.tensor_parallel * point.data_parallel));
}

bool runs_ahead(const ServingPoint& point, const EngineDefaults& engine) {
  return whole_option(point, "async", engine.async ? 1 : 0) != 0;
}

/// A token is a page of its own. With attention by requests (--enable-dp-attention) each GPU's prompts have
/// their part of a step, and 0.3 of the usual tokens to come is expected (_handle_data_parallelism).
void set_sglang_batching(const ServingPoint& point, std::uint64_t tokens, nlohmann::ordered_json& system) {
  constexpr double kByRequests = 0.3;
  const bool by_requests = point.data_parallel > 1;
  const auto ranks = static_cast<std::uint64_t>(std::max(1, point.data_parallel));
  system["kv"] = {{"block_tokens", 1}};
  system["batching"] = {{"policy", "sglang"},
                        {"chunked_prefill_size", std::max<std::uint64_t>(1, tokens / ranks)},
                        {"schedule_conservativeness", by_requests ? kByRequests : 1.0},
                        {"max_tokens", tokens}};
}

nlohmann::ordered_json system_json(const ServingPoint& point, const EngineDefaults& engine) {
  using Json = nlohmann::ordered_json;
  const std::uint64_t tokens = whole_option(point, "max_tokens", engine.max_tokens);
  Json system;
  system["name"] = kSystem;
  system["title"] = point.runtime;
  system["source"] = point.source;
  system["weights"] = "paged";
  system["paging"] = {{"backends", Json::array({"resident"})}};
  if (point.runtime == "vllm")
    system["batching"] = {
        {"policy", "vllm-v1"}, {"async", runs_ahead(point, engine) ? 1 : 0}, {"max_tokens", tokens}};
  else
    set_sglang_batching(point, tokens, system);
  return system;
}

std::string runtime_of(const ServingPoint& point, const EngineDefaults& engine) {
  if (point.runtime == "sglang") return "sglang-load";
  return runs_ahead(point, engine) ? "vllm-v1" : "vllm-v1-sync";
}

std::string document_of(const ServingPoint& point, const GpuPart& gpu) {
  using Json = nlohmann::ordered_json;
  const EngineDefaults engine = engine_defaults(point, gpu);
  const std::string runtime = runtime_of(point, engine);
  const double budget = replay::visible_bytes(gpu) * engine.memory_share - load_runtime(runtime).gpu_reserve -
                        engine.sampling_bytes * find_model(point.model).vocab;
  Json s;
  s["name"] = point.id;
  s["question"] = "How near is a prediction to a published run?";
  s["model"] = point.model;
  const auto kv = point.options.find("kv");
  if (kv == point.options.end())
    s["weights"] = point.weights;
  else
    s["weights"] = {{"all", point.weights}, {"kv", kv->second}};
  s["machine"] = {{"gpu", gpu.name}, {"gpus", point.gpus}};
  s["runtime"] = runtime;
  if (point.tensor_parallel > 1) s["tensor_parallel"] = point.tensor_parallel;
  if (point.data_parallel > 1) s["data_parallel"] = point.data_parallel;
  if (point.expert_parallel && point.gpus > 1) s["expert_parallel"] = true;
  s["budget"] = std::to_string(static_cast<std::uint64_t>(std::max(1.0, budget))) + " B";
  s["seed"] = 1;
  s["workload"] = {
      {"batch", engine.max_requests}, {"requests", 1}, {"prompt_tokens", 1}, {"output_tokens", 1}};
  s["systems"] = Json::array({system_json(point, engine)});
  return s.dump();
}

/// Numbers from 0 to 1 that lie as far apart as can be for any number of them: multiples of an irrational
/// one.
double spread(std::uint64_t number, double step) {
  const double all = (static_cast<double>(number) + 0.5) * step;
  return all - std::floor(all);
}

double length_at(const ServingPoint& point, const LengthRange& range, double share) {
  if (point.shape == ServingPoint::Shape::sharegpt) return -portable_log(1 - share);
  return range.least + (range.most - range.least) * share;
}

/// Lengths that add up to `all`, where that is known.
std::vector<double> drawn(const ServingPoint& point, const LengthRange& range, std::optional<double> all,
                          double step) {
  std::vector<double> lengths;
  double sum = 0;
  for (std::uint64_t i = 0; i < point.requests; ++i) {
    lengths.push_back(length_at(point, range, spread(i, step)));
    sum += lengths.back();
  }
  if (all)
    for (double& length : lengths) length *= *all / sum;
  return lengths;
}

std::uint32_t tokens_of(double length) {
  return static_cast<std::uint32_t>(std::max(1.0, std::round(length)));
}

std::vector<double> sent_times(const ServingPoint& point, std::uint64_t seed) {
  std::vector<double> sent(point.requests, 0.0);
  if (!point.rate) return sent;
  ArrivalTimes arrivals({}, *point.rate, seed);
  for (double& at : sent) at = arrivals.next();
  return sent;
}

/// A user's next request is sent when the last one is answered, and comes when the front end has taken it in.
void give_requests(const ServingPoint& point, ServingQuestion& question) {
  Scenario& s = *question.scenario;
  std::vector<double> come(point.requests, 0.0);
  if (point.users) {
    s.workload.closed_loop =
        ClosedLoop{.users = static_cast<std::uint32_t>(*point.users), .think_s = kFrontEnd.request_s};
  } else {
    question.sent_s = sent_times(point, s.seed);
    come = taken_in(question.sent_s, kFrontEnd);
  }
  const std::vector<RequestLengths> lengths = lengths_of(point);
  for (std::size_t i = 0; i < lengths.size(); ++i)
    s.workload.log.push_back({come[i], lengths[i].prompt, lengths[i].output});
  s.workload.requests = static_cast<std::uint32_t>(s.workload.log.size());
}

}  // namespace

EngineDefaults engine_defaults(const ServingPoint& point, const GpuPart& gpu) {
  if (point.runtime == "vllm") return vllm_defaults(point, gpu);
  if (point.runtime == "sglang") return sglang_defaults(point, gpu, replay::visible_bytes(gpu));
  throw InputError("", "no runtime '" + shown_word(point.runtime) + "'" +
                           suggestion(point.runtime, std::vector<std::string>{"vllm", "sglang"}) +
                           "; expected vllm or sglang");
}

std::vector<RequestLengths> lengths_of(const ServingPoint& point) {
  constexpr double kGolden = 0.6180339887498949, kRootOfTwo = 0.41421356237309515;
  const std::vector<double> prompts = drawn(point, point.prompt, point.prompt_tokens_all, kGolden);
  const std::vector<double> outputs = drawn(point, point.output, point.output_tokens_all, kRootOfTwo);
  std::vector<RequestLengths> lengths;
  for (std::size_t i = 0; i < prompts.size(); ++i)
    lengths.push_back({tokens_of(prompts[i]), tokens_of(outputs[i])});
  return lengths;
}

ServingQuestion serving_question(const ServingPoint& point) {
  try {
    check_options(point);
    const GpuPart& gpu = find_gpu(point.gpu);
    const Scenario read = scenario_of_document(point.id, document_of(point, gpu));
    ServingQuestion question{
        .scenario = scenario_of_system(read, read.systems.front()), .sent_s = {}, .why_not = ""};
    give_requests(point, question);
    return question;
  } catch (const InputError& error) {
    return {.scenario = {}, .sent_s = {}, .why_not = error.problems().front().what};
  }
}

}  // namespace moelab::published

#include "sim/results/benchmark_file.hpp"

#include <algorithm>
#include <vector>

#include "models/json.hpp"
#include "sim/results/statistics.hpp"

namespace moelab {
namespace {

using Json = nlohmann::ordered_json;

/// "mean_ttft_ms" and so on; null of no values.
void add_statistics(Json& all, const std::string& name, const std::vector<double>& seconds) {
  const Summary s = summarize(seconds);
  const auto ms = [&](double value) { return seconds.empty() ? Json(nullptr) : Json(1e3 * value); };
  all["mean_" + name + "_ms"] = ms(s.mean);
  all["median_" + name + "_ms"] = ms(s.p50);
  all["std_" + name + "_ms"] = ms(standard_deviation(seconds));
  all["p99_" + name + "_ms"] = ms(s.p99);
}

/// Answered, and of the statistics, by arrival.
std::vector<RequestTimes> told_requests(const RunResult& r) {
  std::vector<RequestTimes> told;
  std::copy_if(r.metrics.requests.begin(), r.metrics.requests.end(), std::back_inserter(told),
               [](const RequestTimes& q) { return q.answered() && q.measured; });
  std::stable_sort(told.begin(), told.end(), [](const RequestTimes& a, const RequestTimes& b) {
    return a.arrival_s != b.arrival_s ? a.arrival_s < b.arrival_s : a.number < b.number;
  });
  return told;
}

struct Lists {
  Json inputs = Json::array(), outputs = Json::array(), starts = Json::array(), firsts = Json::array();
  std::vector<double> ttft_s, tpot_s, e2e_s;
  std::uint64_t input_tokens = 0, output_tokens = 0;
  double begin_s = 0, end_s = 0;
};

Lists lists_of(const std::vector<RequestTimes>& requests) {
  Lists l;
  if (!requests.empty()) l.begin_s = requests.front().arrival_s;
  for (const RequestTimes& q : requests) {
    l.inputs.push_back(q.prompt_tokens);
    l.outputs.push_back(q.output_tokens);
    l.starts.push_back(q.arrival_s);
    l.ttft_s.push_back(q.first_token_s - q.arrival_s);
    l.firsts.push_back(l.ttft_s.back());
    l.e2e_s.push_back(q.end_s - q.arrival_s);
    if (q.output_tokens > 1) l.tpot_s.push_back((q.end_s - q.first_token_s) / (q.output_tokens - 1));
    l.input_tokens += q.prompt_tokens;
    l.output_tokens += q.output_tokens;
    l.end_s = std::max(l.end_s, q.end_s);
  }
  return l;
}

}  // namespace

std::string benchmark_json(const RunResult& r) {
  const std::vector<RequestTimes> requests = told_requests(r);
  const auto asked = std::count_if(r.metrics.requests.begin(), r.metrics.requests.end(),
                                   [](const RequestTimes& q) { return q.measured; });
  const Lists l = lists_of(requests);
  const double duration = l.end_s - l.begin_s;
  const auto rate = [&](std::uint64_t count) {
    return duration > 0 ? Json(static_cast<double>(count) / duration) : Json(nullptr);
  };
  Json all = {{"backend", "moelab"},
              {"model_id", r.model},
              {"label", r.system},
              {"seed", r.seed},
              {"num_prompts", asked},
              {"duration", duration},
              {"completed", requests.size()},
              {"failed", static_cast<std::size_t>(asked) - requests.size()},
              {"total_input_tokens", l.input_tokens},
              {"total_output_tokens", l.output_tokens},
              {"request_throughput", rate(requests.size())},
              {"input_throughput", rate(l.input_tokens)},
              {"output_throughput", rate(l.output_tokens)},
              {"total_token_throughput", rate(l.input_tokens + l.output_tokens)}};
  add_statistics(all, "ttft", l.ttft_s);
  add_statistics(all, "tpot", l.tpot_s);
  add_statistics(all, "itl", r.metrics.token_gaps_s);
  add_statistics(all, "e2el", l.e2e_s);         // vLLM's name
  add_statistics(all, "e2e_latency", l.e2e_s);  // SGLang's
  all["input_lens"] = l.inputs;
  all["output_lens"] = l.outputs;
  all["start_times"] = l.starts;
  all["ttfts"] = l.firsts;
  return all.dump() + "\n";
}

}  // namespace moelab

// Routing traces of DeepSeek-V2-Lite's sizes (26 layers, 6 of 64 experts, gate scores): reading, statistics,
// drawing. CPU time of one thread, beside a copy of the same bytes. See README.md.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

#include "traces/generator.hpp"
#include "traces/law/law_generator.hpp"
#include "traces/mapped_file.hpp"
#include "traces/routing_trace.hpp"
#include "traces/statistics/routing_statistics.hpp"

namespace moelab {
namespace {

constexpr std::uint32_t kLayers = 26, kExperts = 64, kTopK = 6;
constexpr std::uint32_t kRequests = 400, kPromptTokens = 128, kOutputTokens = 373;
constexpr std::uint64_t kTokens = std::uint64_t{kRequests} * (kPromptTokens + kOutputTokens - 1);
static_assert(kTokens == 200'000);

struct Sums {
  std::uint64_t ids = 0;
  double scores = 0;
  bool operator==(const Sums&) const = default;
};

/// Row after row, layer after layer, as a simulated server takes them.
Sums read_rows(const RoutingTrace& trace) {
  Sums sums;
  for (std::uint64_t token = 0; token < trace.tokens(); ++token) {
    for (std::uint32_t layer = 0; layer < trace.layers(); ++layer) {
      for (const std::uint16_t id : trace.experts_of(token, layer)) sums.ids += id;
      float scores = 0;
      for (const float score : trace.scores_of(token, layer)) scores += score;
      sums.scores += static_cast<double>(scores);
    }
  }
  return sums;
}

/// A generated trace in a file that goes with the process, and a copy of its bytes.
class BenchTrace {
 public:
  static BenchTrace& instance() {
    static BenchTrace file;
    return file;
  }
  ~BenchTrace() { std::filesystem::remove(path_); }
  BenchTrace(const BenchTrace&) = delete;
  BenchTrace& operator=(const BenchTrace&) = delete;

  const std::filesystem::path& path() const { return path_; }
  const Sums& sums() const { return sums_; }  // of the trace before it was written
  void copy() {
    std::memcpy(copy_.data(), mapped_.bytes().data(), copy_.size());
    benchmark::DoNotOptimize(copy_.data());
    benchmark::ClobberMemory();
  }

 private:
  BenchTrace() : mapped_(MappedFile::open(write())), copy_(mapped_.bytes().size()) { copy(); }

  const std::filesystem::path& write() {
    GeneratorParameters parameters;
    parameters.model = "bench";
    parameters.layers = kLayers;
    parameters.experts = kExperts;
    parameters.top_k = kTopK;
    parameters.requests = kRequests;
    parameters.prompt_tokens = kPromptTokens;
    parameters.output_tokens = kOutputTokens;
    const RoutingTrace trace = generate_routing_trace(parameters);
    sums_ = read_rows(trace);
    write_routing_trace(trace, path_);
    return path_;
  }

  std::filesystem::path path_ = std::filesystem::temp_directory_path() /
                                ("moelab_bench." + std::to_string(::getpid()) + ".safetensors");
  Sums sums_;
  MappedFile mapped_;
  std::vector<std::byte> copy_;
};

template <class Work>
double cpu_seconds(Work work) {
  const std::clock_t begin = std::clock();
  work();
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// `work` on all tokens, and in turns with it a copy of the file, so that a busy machine slows both.
/// `work` gives false where its answer is wrong.
template <class Work>
void measure(benchmark::State& state, Work work) {
  BenchTrace& file = BenchTrace::instance();
  std::vector<double> ours, copies;
  for (auto _ : state) {
    bool right = false;
    ours.push_back(cpu_seconds([&] { right = work(); }));
    if (!right) return state.SkipWithError("wrong answer");
    state.SetIterationTime(ours.back());
    copies.push_back(cpu_seconds([&] { file.copy(); }));
  }
  state.counters["tokens/s"] = static_cast<double>(kTokens) / median(ours);
  state.counters["s_per_million"] = median(ours) * 1e6 / static_cast<double>(kTokens);
  state.counters["of_memcpy"] = median(ours) / median(copies);
}

void trace_opened(benchmark::State& state) {
  const auto& path = BenchTrace::instance().path();
  measure(state, [&] { return read_routing_trace(path).tokens() == kTokens; });
}

void trace_read(benchmark::State& state) {
  const RoutingTrace trace = read_routing_trace(BenchTrace::instance().path());
  measure(state, [&] { return read_rows(trace) == BenchTrace::instance().sums(); });
}

void trace_opened_and_read(benchmark::State& state) {
  const BenchTrace& file = BenchTrace::instance();
  measure(state, [&] { return read_rows(read_routing_trace(file.path())) == file.sums(); });
}

bool is_plausible(const LayerStatistics& layer, bool curves) {
  std::uint64_t uses = 0, used = 0;
  for (const std::uint64_t n : layer.uses) {
    uses += n;
    used += n > 0;
  }
  // A cache of all experts misses each once.
  const double hits = static_cast<double>(uses - used) / static_cast<double>(uses);
  return uses == kTokens * kTopK && (!curves || (layer.lru.back() == hits && layer.belady.back() == hits));
}

void statistics_of(benchmark::State& state, bool curves) {
  const RoutingTrace trace = read_routing_trace(BenchTrace::instance().path());
  measure(state, [&] {
    const auto statistics = routing_statistics(trace, {.curves = curves, .threads = 1, .progress = {}});
    return std::all_of(statistics.layers.begin(), statistics.layers.end(),
                       [&](const LayerStatistics& layer) { return is_plausible(layer, curves); });
  });
}
void trace_statistics(benchmark::State& state) {
  statistics_of(state, false);
}
void trace_statistics_with_curves(benchmark::State& state) {
  statistics_of(state, true);
}

/// As a fit leaves it: all terms in all layers, gates.
RoutingLaw law_of_all_terms() {
  RoutingLaw law;
  law.model = law.provenance = "bench";
  law.experts = kExperts;
  law.top_k = kTopK;
  law.prompt_tokens = kPromptTokens;
  law.decode_tokens = kOutputTokens - 1;
  law.span_tokens = {1, 8, 64};
  law.domains = {"one", "other"};
  law.domain_shares = {0.5, 0.5};
  LayerLaw layer;
  for (std::uint32_t r = 0; r < kExperts; ++r) layer.bias.push_back(1 - 2.0 * r / (kExperts - 1));
  layer.domain = layer.prompt = 0.1;
  layer.spans = {0.1, 0.1, 0.1};
  layer.coupling = 0.5;
  layer.gate_gaps.assign(kTopK - 1, 1.0);
  law.layers.assign(kLayers, layer);
  return law;
}

void draw_from_law(benchmark::State& state) {
  constexpr std::uint64_t kDrawn = kTokens / 10;
  LawGenerator generator(law_of_all_terms(), 1);
  std::uint64_t number = 0;
  for (auto _ : state) {
    for (std::uint64_t t = 0; t < kDrawn; ++t) {
      const std::uint64_t in_request = t % (kPromptTokens + kOutputTokens - 1);
      if (in_request == 0) {
        generator.begin_request(number, generator.domain_of(number));
        ++number;
      }
      const TraceRow row = generator.next(in_request < kPromptTokens ? Phase::prefill : Phase::decode);
      if (*std::max_element(row.ids.begin(), row.ids.end()) >= kExperts)
        return state.SkipWithError("no such expert");
    }
  }
  state.counters["tokens/s"] =
      benchmark::Counter(static_cast<double>(kDrawn), benchmark::Counter::kIsIterationInvariantRate);
}

BENCHMARK(trace_opened)->UseManualTime()->Iterations(11)->Unit(benchmark::kMillisecond);
BENCHMARK(trace_read)->UseManualTime()->Iterations(11)->Unit(benchmark::kMillisecond);
BENCHMARK(trace_opened_and_read)->UseManualTime()->Iterations(11)->Unit(benchmark::kMillisecond);
BENCHMARK(trace_statistics)->UseManualTime()->Iterations(5)->Unit(benchmark::kMillisecond);
BENCHMARK(trace_statistics_with_curves)->UseManualTime()->Iterations(5)->Unit(benchmark::kMillisecond);
BENCHMARK(draw_from_law)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace moelab

#include "experiments/world/memory_points.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "models/input_error.hpp"
#include "models/stored_weights.hpp"
#include "traces/import/csv_reader.hpp"

namespace moelab::world {
namespace {

constexpr double kMib = 1048576;
/// Any card with memory of its own: buffers depend on that alone.
constexpr std::string_view kSomeGpu = "rtx-3090-24gb";
constexpr std::string_view kFork = "ik_llama.cpp";

constexpr std::array<std::string_view, kMemoryItems> kColumns{"weights_mib", "kv_mib", "gpu_compute_mib",
                                                              "host_compute_mib"};
constexpr std::array<std::string_view, kMemoryItems> kExcepted{"weights", "kv", "compute", "host"};

double cache_bits(const std::string& type) {
  if (type.empty() || type == "f16") return 16;
  return find_weight_format(type).bits;
}

/// A build between two pull requests, as the column `graphs` calls it; nothing is said: the runtime's own.
void set_graphs(const std::string& graphs, Runtime& runtime) {
  if (graphs.empty()) return;
  if (graphs == "2026-06") {
    runtime.mask_bytes = 2;
    runtime.logits_rows = 0;
    runtime.kv_copy = 1;
    return;
  }
  const bool f16 = graphs.starts_with("f16-mask"), f32 = graphs.starts_with("f32-mask");
  const std::string rest = graphs.substr(f16 || f32 ? 8 : 0);
  if (!(f16 || f32) || !(rest.empty() || rest == " no-logits"))
    throw InputError("", "graphs '" + graphs + "' are not known");
  runtime.mask_bytes = f16 ? 2 : 4;
  runtime.logits_rows = rest.empty() ? 1 : 0;
  runtime.kv_copy = 0;
}

Architecture model_of(const MemoryRow& row) {
  const std::string dense = MOELAB_SOURCE_DIR "/experiments/world/models/" + row.model + ".yaml";
  Architecture model = load_any_architecture(std::filesystem::exists(dense) ? dense : row.model);
  if (!row.weights.empty()) model.stored = stored_as(model, row.weights);
  return model;
}

Split split_of(const MemoryRow& row, const Architecture& model) {
  Split split;
  split.cpu_only = row.cpu_only;
  const int layers = static_cast<int>(model.moe_layers().size());
  split.cpu_expert_layers = row.all_experts_on_cpu ? layers : std::min(row.cpu_expert_layers, layers);
  return split;
}

void read_experts(const std::string& text, MemoryRow& row) {
  row.cpu_only = text == "cpu-only";
  row.all_experts_on_cpu = text == "all";
  if (row.cpu_only || row.all_experts_on_cpu || text.empty()) return;
  const std::optional<std::uint64_t> layers = parse_unsigned(text);
  if (!layers || *layers > 100000)
    throw InputError("", "cpu_experts '" + text + "': expected layers, 'all' or 'cpu-only'");
  row.cpu_expert_layers = static_cast<int>(*layers);
}

void read_figures(const CsvReader& csv, MemoryRow& row) {
  const std::string except = " " + std::string(csv.field(csv.column("except"))) + " ";
  const std::string set_on = " " + std::string(csv.field(csv.column("set_on"))) + " ";
  row.why_not = csv.field(csv.column("why_not"));
  row.whole = row.why_not.empty() || except != "  ";
  for (std::size_t i = 0; i < kMemoryItems; ++i) {
    const std::size_t at = csv.column(std::string(kColumns[i]));
    row.set_on[i] = set_on.find(" " + std::string(kExcepted[i]) + " ") != std::string::npos;
    if (csv.field(at).empty() || except.find(" " + std::string(kExcepted[i]) + " ") != std::string::npos)
      continue;
    row.measured[i] = csv.number_at(at, "MiB");
  }
}

void read_options(const CsvReader& csv, MemoryRow& row) {
  const auto number = [&](const char* name, double fallback, double low) {
    const std::size_t at = csv.column(name);
    return csv.field(at).empty() ? fallback : std::clamp(csv.number_at(at, "a number"), low, 1e9);
  };
  row.gpus = static_cast<int>(std::min(number("gpus", 1, 0), 1024.0));
  row.context = number("n_ctx", 0, 0);
  if (!csv.field(csv.column("n_ubatch")).empty()) row.options.micro_batch = number("n_ubatch", 0, 1);
  row.options.sequences = std::min(number("n_seq", 1, 1), 1e5);
  row.streamed = number("streamed", 1, 0) != 0;
  row.options.unified = number("unified", 0, 0) != 0;
  row.options.flash_attention = number("flash_attn", 1, 0) != 0;
  if (!csv.field(csv.column("copies")).empty()) row.copies = number("copies", 1, 1);
}

Runtime runtime_of_row(const MemoryRow& row, const LawConstants& constants) {
  Runtime runtime = load_runtime(row.runtime);
  if (!runtime.has_buffers()) throw InputError("", "runtime '" + row.runtime + "' has no law for buffers");
  set_graphs(row.graphs, runtime);
  if (!row.streamed) runtime.stream_from = 0;
  if (row.copies) runtime.input_copies = *row.copies;
  runtime.hidden_states = constants.hidden_states;
  runtime.expert_outputs = row.runtime.starts_with(kFork) ? constants.fork_outputs : constants.expert_outputs;
  return runtime;
}

double compute_error(const MemoryRow& row, const LawConstants& constants) {
  const std::size_t item = static_cast<std::size_t>(MemoryItem::gpu_compute);
  if (!row.whole || !row.measured[item]) return 0;
  return std::abs(*stated_memory(row, constants)[item] - *row.measured[item]);
}

}  // namespace

std::string_view to_string(MemoryItem item) {
  constexpr std::array<std::string_view, kMemoryItems> names{"weights", "KV cache", "compute buffers",
                                                             "host's compute buffers"};
  return names[static_cast<std::size_t>(item)];
}

std::vector<MemoryRow> read_memory_rows(const std::string& path) {
  CsvReader csv(path);
  std::vector<MemoryRow> rows;
  while (csv.next()) {
    const auto text = [&](const char* name) { return std::string(csv.field(csv.column(name))); };
    MemoryRow row;
    row.id = text("id");
    row.source = text("source");
    row.build = text("build");
    row.runtime = text("runtime");
    row.graphs = text("graphs");
    row.model = text("model");
    row.weights = text("weights");
    row.notes = text("notes");
    read_figures(csv, row);
    if (row.whole) {
      read_experts(text("cpu_experts"), row);
      read_options(csv, row);
      row.options.kv_bits = cache_bits(text("kv_type"));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

LawConstants law_constants() {
  const Runtime llama = load_runtime("llama.cpp-cuda"), fork = load_runtime("ik_llama.cpp-cuda");
  return {llama.hidden_states, llama.expert_outputs, fork.expert_outputs};
}

LawConstants fit_law(const std::vector<MemoryRow>& rows) {
  const auto error = [&](const LawConstants& c) {
    double sum = 0;
    for (const MemoryRow& row : rows) sum += compute_error(row, c);
    return sum;
  };
  LawConstants best = law_constants();
  double least = error(best);
  constexpr int kMostStates = 6, kMostOutputs = 3;
  for (int states = 1; states <= kMostStates; ++states)
    for (int outputs = 1; outputs <= kMostOutputs; ++outputs)
      for (int of_fork = 1; of_fork <= kMostOutputs; ++of_fork) {
        const LawConstants tried{1.0 * states, 1.0 * outputs, 1.0 * of_fork};
        const double now = error(tried);
        if (now >= least) continue;
        least = now;
        best = tried;
      }
  return best;
}

MemoryFigures stated_memory(const MemoryRow& row, const LawConstants& constants) {
  const Architecture model = model_of(row);
  const Runtime runtime = runtime_of_row(row, constants);
  MachineParts machine;
  if (!row.cpu_only) machine.gpu = find_gpu(kSomeGpu);
  machine.gpus = std::max(1, row.gpus);
  const ServingEstimate estimate(model, machine, runtime, split_of(row, model));
  const SplitMemory m = estimate.memory(row.context, row.options);
  const double all = total_bytes(model).value();
  const std::array<double, kMemoryItems> bytes{row.cpu_only ? all : m.gpu_weights,
                                               row.cpu_only ? m.host - all : m.gpu_kv, m.gpu_compute,
                                               m.host_compute};
  MemoryFigures figures;
  for (std::size_t i = 0; i < kMemoryItems; ++i)
    if (row.measured[i]) figures[i] = bytes[i] / kMib;
  return figures;
}

bool near_enough(double measured, double stated) {
  constexpr double kShare = 0.03, kDistance = 150;
  const double error = std::abs(stated - measured);
  return error <= kDistance || error <= kShare * measured;
}

}  // namespace moelab::world

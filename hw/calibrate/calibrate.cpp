#include "hw/calibrate/calibrate.hpp"

#include <unistd.h>
#include <system_error>

#include <algorithm>
#include <cmath>

#include "hw/bench/bench_read.hpp"
#include "hw/bench/bench_team.hpp"
#include "hw/bench/bench_workspace.hpp"
#include "hw/codec/chunk.hpp"
#include "hw/codec/planes.hpp"
#include "hw/io/aligned_memory.hpp"
#include "hw/store/synthetic_source.hpp"
#include "models/input_error.hpp"

namespace moelab {

namespace {

constexpr std::size_t KiB = 1024, MiB = 1024 * KiB;
constexpr std::size_t kLargestSize = 16 * MiB;  // of reads and shards: beyond, time is their rate's
constexpr unsigned kMostShards = 256;
constexpr std::uint64_t kSeed = 1;
/// Speeds of virtual machines swing by tens of per cent from minute to minute: medians over a few of them.
constexpr std::size_t kSamplesOfMinutes = 40;

std::vector<std::string> codecs_of(const CalibrationOptions& options) {
  if (!options.codecs.empty()) return options.codecs;
  std::vector<std::string> names;
  for (const CodecRow& row : codec_table().subspan(1)) names.emplace_back(row.name);  // the first is the copy
  return names;
}

ExpertShape shape_of(const Architecture& model) {
  const FeedForward& moe = model.moe();
  return {static_cast<std::size_t>(model.hidden), static_cast<std::size_t>(moe.width), moe.matrices};
}

/// Bytes of reads and shards: those of the model's shards, planes and whole tensors, and some below.
std::vector<std::size_t> sizes_for(const CalibrationOptions& options) {
  const ExpertShape shape = shape_of(options.models.front());
  const std::size_t elements = shape.hidden * shape.width;
  std::vector<std::size_t> sizes = {64 * KiB, elements / options.shards, elements, 2 * elements};
  if (!options.quick) sizes.insert(sizes.end(), {16 * KiB, 256 * KiB, MiB});
  for (std::size_t& size : sizes)
    size = std::clamp((size + 4 * KiB - 1) / (4 * KiB) * (4 * KiB), 4 * KiB, kLargestSize);
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

/// Of one expert's tensors, made as `moelab pack --synthetic` makes them.
std::vector<CodecRatio> ratios_of(const CalibrationOptions& options) {
  const SyntheticSource source(expert_weights_of(options.models.front()), kSeed);
  const ExpertShape shape = shape_of(options.models.front());
  const std::size_t elements = shape.hidden * shape.width;
  AlignedMemory weights(2 * elements), exponents(elements), signs(elements);
  source.read({0, 0, 0}, weights.as<std::uint16_t>().first(elements));
  split_planes(weights.as<std::uint16_t>().first(elements), exponents.bytes().first(elements),
               signs.bytes().first(elements));
  std::vector<CodecRatio> ratios;
  for (const std::string& name : codecs_of(options)) {
    const std::unique_ptr<Codec> codec = find_codec(name);
    CodecRatio ratio{name, codec->name(), {}};
    for (std::size_t shard = 0; shard < options.shards; ++shard) {
      const ShardRange range = shard_range(elements, options.shards, shard);
      if (range.size == 0) continue;
      const Chunk chunk = make_chunk(*codec, exponents.bytes().subspan(range.first, range.size));
      ratio.samples.push_back(static_cast<double>(chunk.record.stored_bytes) /
                              static_cast<double>(range.size));
    }
    ratios.push_back(std::move(ratio));
  }
  return ratios;
}

void check(const CalibrationOptions& options) {
  if (options.models.empty()) throw InputError("calibrate", "needs a model whose experts are measured");
  for (const Architecture& model : options.models) {
    if (!model.is_moe()) throw InputError("model " + model.name, "has no experts to measure");
    model.moe();  // throws where they have several shapes
  }
  if (options.shards < 1 || options.shards > kMostShards)
    throw InputError("shards " + std::to_string(options.shards),
                     "expected 1 to " + std::to_string(kMostShards));
  for (const std::string& codec : options.codecs) {
    const auto same = [name = find_codec(codec)->name()](const std::string& other) {
      return find_codec(other)->name() == name;
    };
    if (std::ranges::count_if(options.codecs, same) > 1) throw InputError("codec " + codec, "is named twice");
  }
  std::error_code none;
  if (!std::filesystem::is_directory(options.folder, none))
    throw InputError(options.folder.string(), "is not a folder");
  if (::access(options.folder.c_str(), W_OK) != 0)
    throw InputError(options.folder.string(), "cannot be written: a file is put there to be read");
}

int attention_kernels(const Architecture& model) {
  const auto first = static_cast<std::size_t>(model.moe_layers().front());
  return std::max(1, attention_work(model, model.layers[first], 1, 1).kernels);
}

ProfileContext context_of(const CalibrationOptions& options, const BenchOptions& bench,
                          const MachineContext& machine) {
  ProfileContext context;
  context.name = options.name;
  context.title = options.title;
  if (context.title.empty())
    context.title = machine.cpu + ", " + std::to_string(machine.cores) + " cores, " + machine.filesystem;
  context.command = options.command;
  context.machine = machine;
  if (options.stand_in_gpu)  // half of what there is: experts lie in the other
    context.stand_in_bytes = std::floor(static_cast<double>(machine.available_memory) / 2);
  else if (options.gpu)
    context.gpu_memory = gpu_memory();
  context.experts = bench.experts;
  context.dense_kernels = attention_kernels(options.models.front());
  context.expert_kernels =
      std::max(1, expert_work(options.models.front(), options.models.front().moe(), 1).kernels);
  context.ratios = ratios_of(options);
  context.ratios_of = "a synthetic tensor of " + options.models.front().name + " in " +
                      std::to_string(options.shards) + " shards";
  return context;
}

BenchOptions bench_options(const CalibrationOptions& options) {
  BenchOptions bench;
  bench.quick = options.quick;
  if (!options.quick) bench.samples = kSamplesOfMinutes;
  bench.folder = options.folder;
  bench.sizes = sizes_for(options);
  for (const Architecture& model : options.models)
    if (const ExpertShape shape = shape_of(model);
        std::ranges::find(bench.experts, shape) == bench.experts.end())
      bench.experts.push_back(shape);
  bench.codecs = codecs_of(options);
  return bench;
}

/// What all cases need, for none of them can be left out.
void require_room(const BenchOptions& bench) {
  const BenchWorkspace workspace(bench);
  if (const std::string why = why_no_room(workspace); !why.empty())
    throw InputError(bench.folder.string(), "no file can be put there to be read: " + why);
  if (const std::string why = workspace.why_no_memory(); !why.empty()) throw InputError("calibrate", why);
}

std::vector<std::string> cases_for(const CalibrationOptions& options, const ProfileContext& context) {
  std::vector<std::string> cases = {"read",   "decompress", "interference", "join",
                                    "expert", "dense",      "handoff"};
  cases.emplace_back(options.stand_in_gpu ? "link-sharing" : "sharing");
  if (options.stand_in_gpu)
    cases.insert(cases.end(), {"copy", "remap"});
  else if (options.gpu)
    cases.insert(cases.end(), {"cuda-copy", "cuda-expert", "cuda-link"});
  if (context.gpu_memory) cases.insert(cases.end(), {"cuda-recover", "cuda-remap"});
  return cases;
}

}  // namespace

CalibrationResult calibrate(const CalibrationOptions& options, const BenchProgress& progress) {
  check(options);
  const double begin = seconds_now();
  CalibrationResult result;
  result.machine = machine_context(options.folder, options.program);
  const BenchOptions bench = bench_options(options);
  require_room(bench);
  const ProfileContext context = context_of(options, bench, result.machine);
  result.measured = run_cases(cases_for(options, context), bench, progress);
  CalibratedProfile made = profile_from(result.measured, context);
  result.profile = std::move(made.profile);
  result.figures = std::move(made.figures);
  result.seconds = seconds_now() - begin;
  return result;
}

}  // namespace moelab

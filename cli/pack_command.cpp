// moelab pack: a checkpoint's experts, or synthetic ones, into a chunk store.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <thread>

#include "cli/commands.hpp"
#include "cli/terminal_line.hpp"
#include "hw/store/checkpoint_source.hpp"
#include "hw/store/chunk_store_report.hpp"
#include "hw/store/pack.hpp"
#include "hw/store/synthetic_source.hpp"
#include "models/input_error.hpp"
#include "models/json.hpp"

namespace moelab::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kComparedTensors = 8;

struct PackArguments {
  std::string source, synthetic, model, out, format = "table";
  int layers = 0, experts = 0, hidden = 0, width = 0;  // 0: the model's
  std::uint64_t seed = 1;
  PackOptions pack;
  bool verify = false, no_compare = false;
};

struct Outcome {
  bool was_there = false;            // the store, whole
  std::uint64_t tensors_before = 0;  // packed before an interruption
  StoreReport report;
  std::vector<CodecSize> compared;
};

/// The model's experts, with the sizes that were asked for.
ExpertWeights synthetic_weights(const PackArguments& options) {
  Architecture model = load_architecture(options.synthetic);
  if (options.hidden > 0) model.hidden = options.hidden;
  for (Layer& layer : model.layers) {
    if (layer.feed_forward.kind != FeedForward::Kind::moe) continue;
    if (options.experts > 0) layer.feed_forward.experts = options.experts;
    if (options.width > 0) layer.feed_forward.width = options.width;
  }
  ExpertWeights weights = expert_weights_of(model);
  const auto count = static_cast<std::size_t>(options.layers);
  if (count > 0 && count < weights.layers.size()) weights.layers.resize(count);
  while (weights.layers.size() < count) weights.layers.push_back(weights.layers.back() + 1);
  if (options.layers + options.experts + options.hidden + options.width > 0) weights.model += ", resized";
  return weights;
}

std::unique_ptr<WeightSource> open_source(const PackArguments& options) {
  if (!options.synthetic.empty())
    return std::make_unique<SyntheticSource>(synthetic_weights(options), options.seed);
  if (options.model.empty()) return std::make_unique<CheckpointSource>(options.source, "");
  const Architecture model = load_architecture(options.model);
  auto source = std::make_unique<CheckpointSource>(options.source, model.name);
  require_model(source->weights(), model, options.source);
  return source;
}

PackProgress progress(TerminalLine& line, const std::string& doing) {
  return [&line, doing](std::uint64_t done, std::uint64_t all) {
    line.show(doing + ": " + std::to_string(done) + " of " + std::to_string(all) + " tensors");
  };
}

/// With --verify a store that is there already is verified, not packed again: the same command ends what an
/// interrupted one began, wherever it was.
ChunkStoreReader packed_store(const PackArguments& options, const WeightSource& source, Outcome& outcome) {
  TerminalLine line;
  PackOptions how = options.pack;
  how.progress = progress(line, "pack");
  outcome.was_there = options.verify && std::filesystem::exists(options.out);
  if (!outcome.was_there) outcome.tensors_before = pack(source, options.out, how);
  ChunkStoreReader store(options.out);
  const ChunkStoreDescription& found = store.description();
  if (found.codec != find_codec(how.codec)->name() || found.shards != how.shards)
    throw InputError(options.out, "exists already, by codec " + found.codec + " in " +
                                      std::to_string(found.shards) + " shards; remove it, or name another");
  if (options.verify) verify_store(store, source, how.threads, progress(line, "verify"));
  return store;
}

Json json_of(const CodecSize& size) {
  return {{"codec", size.codec},
          {"exponent_plane_bytes", size.exponent_plane_bytes},
          {"exponent_stored_bytes", size.exponent_stored_bytes},
          {"sign_mantissa_bytes", size.sign_mantissa_bytes},
          {"plane_ratio", size.plane_ratio()},
          {"tensor_ratio", size.tensor_ratio()},
          {"chunks", size.chunks},
          {"plain_chunks", size.plain_chunks}};
}

void print_json(const PackArguments& options, const ChunkStoreReader& store, const Outcome& outcome) {
  const ExpertWeights& weights = store.weights();
  const StoreReport& report = outcome.report;
  Json compared = Json::array();
  for (const CodecSize& size : outcome.compared) compared.push_back(json_of(size));
  const Json all = {{"store", options.out},
                    {"model", weights.model},
                    {"source", weights.source},
                    {"layers", weights.layers.size()},
                    {"experts", weights.experts},
                    {"tensors_per_expert", weights.kinds.size()},
                    {"weights", weights.weights()},
                    {"shards", store.description().shards},
                    {"tensors", weights.tensors()},
                    {"tensors_packed_before", outcome.was_there ? weights.tensors() : outcome.tensors_before},
                    {"verified", options.verify},
                    {"exponent_entropy_bits", report.exponent_entropy},
                    {"tensor_exponent_entropy_bits", report.tensor_exponent_entropy},
                    {"exponent_support", report.support},
                    {"entropy_bound", report.bound()},
                    {"size", json_of(report.size)},
                    {"data_bytes", report.data_bytes},
                    {"codecs_compared", compared}};
  std::cout << all.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
}

void print_size(const CodecSize& size, const char* paper) {
  std::printf("%-14s %13.1f %13.1f %8.2f %% %8.2f %%  %s\n", size.codec.c_str(),
              static_cast<double>(size.exponent_stored_bytes) / 1e6,
              static_cast<double>(size.sign_mantissa_bytes) / 1e6, size.plane_ratio() * 100,
              size.tensor_ratio() * 100, paper);
}

const char* paper_size(const std::string& codec) {
  return codec.starts_with("lz4hc") ? "74 % (Z3)" : codec == "zstd-1" ? "68 % (Z3)" : "";
}

void print_table(const PackArguments& options, const ChunkStoreReader& store, const Outcome& outcome) {
  const ExpertWeights& weights = store.weights();
  const StoreReport& report = outcome.report;
  char what[100];
  std::snprintf(what, sizeof what, "%zu MoE layers of %u experts of %zu tensors, %.3f GB of BF16",
                weights.layers.size(), weights.experts, weights.kinds.size(),
                static_cast<double>(weights.weights()) * 2e-9);
  // Names of others go to the terminal by std::cout alone, which lets no control characters pass.
  std::cout << options.out << ": " << weights.model << ", " << what << " (" << weights.source << ")"
            << std::endl;
  if (outcome.was_there) std::printf("was there already, and is not packed again\n");
  if (outcome.tensors_before > 0)
    std::printf("went on from an interrupted pack: %llu of %llu tensors were there\n",
                static_cast<unsigned long long>(outcome.tensors_before),
                static_cast<unsigned long long>(weights.tensors()));
  if (options.verify) std::printf("verified: every tensor reads back bit for bit as the source has it\n");
  std::printf("\n%-30s %14s  %s\n", "", "here", "ZipMoE paper");
  std::printf("%-30s %9.3f bits  2.651, 2.563, 2.554 bits (Z1)\n", "exponent entropy",
              report.exponent_entropy);
  std::printf("%-30s %9.3f bits\n", "  of each tensor by itself", report.tensor_exponent_entropy);
  std::printf("%-30s %12.2f %%  14.06, 11.33, 14.84 %% (Z2)\n", "exponents that occur, of 256",
              report.support / 2.56);
  std::printf("%-30s %12.2f %%  66.02, 65.96, 66.52 %% (Z4)\n", "entropy bound, of BF16",
              report.bound() * 100);
  std::printf("\n%-14s %13s %13s %10s %10s  %s\n", "codec", "exponents MB", "sign-mant. MB", "of plane",
              "of BF16", "paper");
  print_size(report.size, paper_size(report.size.codec));
  std::printf("E-chunks: %llu, of them %llu as they are; %s with alignment: %.3f GB, %.2f %% of BF16\n",
              static_cast<unsigned long long>(report.size.chunks),
              static_cast<unsigned long long>(report.size.plain_chunks), kStoreDataName,
              static_cast<double>(report.data_bytes) * 1e-9,
              static_cast<double>(report.data_bytes) / static_cast<double>(weights.weights()) * 50);
  if (outcome.compared.empty()) return;
  std::printf("\nevery codec, on a sample of %llu tensors:\n",
              static_cast<unsigned long long>(std::min(kComparedTensors, weights.tensors())));
  for (const CodecSize& size : outcome.compared) print_size(size, paper_size(size.codec));
}

void run_pack(const PackArguments& options) {
  if (options.source.empty() == options.synthetic.empty())
    throw InputError("moelab pack", "needs either a checkpoint or --synthetic MODEL");
  const bool sized = options.layers + options.experts + options.hidden + options.width > 0;
  if (sized && options.synthetic.empty())
    throw InputError("moelab pack", "--layers, --experts, --hidden and --width go with --synthetic");
  if (!options.model.empty() && options.source.empty())
    throw InputError("moelab pack", "--model goes with a checkpoint");
  const std::unique_ptr<WeightSource> source = open_source(options);
  Outcome outcome;
  const ChunkStoreReader store = packed_store(options, *source, outcome);
  outcome.report = report_on(store);
  if (!options.no_compare) outcome.compared = compare_codecs(store, kComparedTensors);
  options.format == "json" ? print_json(options, store, outcome) : print_table(options, store, outcome);
}

void add_synthetic(CLI::App& command, PackArguments& options) {
  command.add_option("--synthetic", options.synthetic,
                     "Instead of a checkpoint: weights that compress like trained ones, for this model");
  command.add_option("--layers", options.layers, "With --synthetic: MoE layers; the model's")
      ->check(CLI::Range(1, 10'000));
  command.add_option("--experts", options.experts, "With --synthetic: experts a layer; the model's")
      ->check(CLI::Range(1, 65'536));
  command.add_option("--hidden", options.hidden, "With --synthetic: hidden size; the model's")
      ->check(CLI::Range(1, 1'000'000));
  command
      .add_option("--width", options.width, "With --synthetic: an expert's intermediate size; the model's")
      ->check(CLI::Range(1, 10'000'000));
  command.add_option("--seed", options.seed, "With --synthetic: the same seed draws the same weights")
      ->check(is_a_seed)
      ->capture_default_str();
}

std::string codec_names() {
  std::string names;
  for (const CodecRow& row : codec_table()) {
    names += (names.empty() ? "" : ", ") + std::string(row.name);
    if (row.last_level != 0) names += "[-LEVEL]";
  }
  return names;
}

}  // namespace

void add_pack(CLI::App& program) {
  const auto options = std::make_shared<PackArguments>();
  options->pack.threads = std::max(1U, std::thread::hardware_concurrency());
  CLI::App* command = program.add_subcommand(
      "pack", "Pack a model's experts into a chunk store: exponents compressed in shards, the rest as it is");
  command->add_option("SOURCE", options->source,
                      "BF16 checkpoint: a .safetensors file, the index of several, or their folder");
  command->add_option("--model", options->model, "Model that the checkpoint must be (see 'moelab models')");
  add_synthetic(*command, *options);
  command->add_option("--codec", options->pack.codec, "One of " + codec_names())->capture_default_str();
  command->add_option("--shards", options->pack.shards, "Shards of each exponent plane (K)")
      ->check(CLI::Range(1, 4'096))
      ->capture_default_str();
  command
      ->add_option(
          "--out", options->out,
          "Folder to make. Until it is whole it is called OUT.partial; interrupted, the same command "
          "goes on from there")
      ->required()
      ->check(names_a_file);
  command->add_option("--threads", options->pack.threads, "Threads; the processor's")
      ->check(CLI::Range(1, 1'024));
  command->add_flag(
      "--verify", options->verify,
      "Read everything back and compare it with the source; a store that is there already is only verified");
  command->add_flag("--no-compare", options->no_compare,
                    "Leave out what every codec makes of a sample of the tensors");
  add_format(*command, options->format);
  add_example(*command,
              "moelab pack --synthetic olmoe-1b-7b --layers 2 --experts 8 --codec fixed3 --shards 4 --out "
              "olmoe.store --verify");
  command->callback([options] { run_pack(*options); });
}

}  // namespace moelab::cli

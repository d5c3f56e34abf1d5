#include "hw/validate/validation.hpp"

#include <algorithm>
#include <cmath>
#include <deque>

#include "hw/executor/cpu_device.hpp"
#include "hw/executor/cuda_compute_device.hpp"
#include "hw/executor/stand_in_device.hpp"
#include "hw/io/system_memory.hpp"
#include "hw/validate/validation_cpu.hpp"
#include "hw/validate/validation_fit.hpp"
#include "hw/validate/validation_memory.hpp"
#include "hw/validate/validation_profile.hpp"
#include "hw/validate/validation_run.hpp"
#include "models/input_error.hpp"
#include "models/nothing_fits.hpp"
#include "models/timing.hpp"
#include "sim/run.hpp"
#include "sim/scenario.hpp"
#include "sim/scenario_trace.hpp"
#include "sim/serving/expert_costs.hpp"
#include "sim/serving/kv_plan.hpp"
#include "sim/serving/kv_pressure.hpp"
#include "sim/serving/memory_plan.hpp"
#include "sim/serving/served_request.hpp"

namespace moelab {
namespace {

/// Beside budget and files: what dense kernels stream over, gaps between buffers, the program.
constexpr double kOtherMemory = 512e6;
/// How experts are packed that are not read compressed: no codec, to be quick.
constexpr const char* kAsTheyAre = "none";

void require_threads(const DeviceProfile& device, const std::vector<std::uint32_t>& threads) {
  for (const std::uint32_t n : threads)
    if (n > static_cast<std::uint32_t>(device.cpu.threads.value))
      throw InputError(
          "--threads " + std::to_string(n),
          "device '" + device.name + "' has " + std::to_string(device.cpu.threads.value) + " cores");
}

void require_gpu(const DeviceProfile& device, const ValidationOptions& options) {
  if (!device.gpu)
    throw InputError("--compute gpu",
                     "device '" + device.name + "' has no GPU: there is nothing to predict by");
  if (device.has_stand_in())
    throw InputError(
        "--compute gpu",
        "device '" + device.name + "' describes a GPU that the CPU plays (gpu.stand_in): leave it out");
  if (!options.dense)
    throw InputError("--no-dense",
                     "is for runs on the CPU: a GPU's experts are predicted by the same roofline");
}

/// Points are told apart by these.
template <class T>
void require_once(const std::string& option, const std::vector<T>& values) {
  if (values.empty()) throw InputError(option, "expected at least one");
  for (auto one = values.begin(); one != values.end(); ++one)
    if (std::find(values.begin(), one, *one) != one) throw InputError(option, "one of them is given twice");
}

/// What lies in memory so that it can be read at a pace.
Bytes paced_bytes(const ValidationStore& store, const ValidationOptions& options, const Scenario& scenario) {
  if (scenario.device.is_discrete()) return Bytes(routed_weights(scenario.model) * 2);
  if (!options.pace) return {};
  double files = static_cast<double>(std::filesystem::file_size(store.chunks().data_path()));
  const bool whole = std::any_of(scenario.systems.begin(), scenario.systems.end(),
                                 [](const SystemConfig& s) { return !s.compressed; });
  if (whole) files += routed_weights(scenario.model) * 2;
  return Bytes(files);
}

/// Beside the budget, of the system that takes most: experts in use in steps that run more than a decode
/// step does, and what is swapped out of the KV cache.
Bytes beside_budget(const Scenario& scenario, const RoutingTrace& trace) {
  Bytes most;
  for (const SystemConfig& system : scenario.systems) {
    Bytes swapped;
    if (system.batching) {
      const MemoryPlan plan = plan_of_system(scenario, system, trace);
      swapped = Bytes(static_cast<double>(swap_room(scenario, system, trace, plan).host_bytes));
    }
    const Bytes beyond = system.paging ? Bytes(0) : experts_beyond_plan(scenario, system, trace);
    most = std::max(most, beyond + swapped);
  }
  return most;
}

void require_memory(Bytes budget, Bytes beside, Bytes files) {
  const double available = static_cast<double>(system_memory().available);
  const double needed = budget.value() + beside.value() + files.value() + kOtherMemory +
                        static_cast<double>(ValidationCpu::bytes());
  if (available > 0 && needed > available)
    throw InputError("--budgets " + to_string(budget),
                     "needs " + to_string(Bytes(needed)) + " of memory (" + to_string(files) +
                         " of it for the paced files, " + to_string(beside) +
                         " for what steps have in use beyond a decode step's experts, and swap), there are " +
                         to_string(Bytes(available)));
}

Scenario at(const Scenario& scenario, Bytes budget, std::uint32_t threads, const std::string& codec) {
  Scenario s = scenario;
  s.budget = budget;
  for (SystemConfig& system : s.systems) {
    if (!system.compressed) continue;
    system.codec = codec;
    system.threads = threads;
  }
  return s;
}

ValidationPoint point_at(const std::string& codec, Bytes budget, std::uint32_t threads,
                         const SystemConfig& system) {
  ValidationPoint point;
  point.codec = codec;
  point.budget = budget;
  point.threads = threads;
  point.system = system.name;
  return point;
}

std::string describe_storage(const DeviceProfile& device, const std::optional<Pace>& pace) {
  if (device.has_stand_in()) return "host memory, copied by the CPU to the memory of the GPU that it plays";
  if (device.is_discrete()) return "host memory, over the link of the GPU";
  if (!pace) return "the disk, as it was right before each run";
  return "paced at " + to_string(pace->rate) + " and " + to_string(pace->latency) + " a read, from memory";
}

/// Experts packed by one codec, and what they are read from.
struct Packed {
  Packed(const std::string& by, const Scenario& scenario, const ValidationOptions& options,
         const PackOptions& how)
      : codec(by), store(scenario.model, scenario.seed, options.stores, how), storage(store, options.pace) {}
  std::string codec;
  ValidationStore store;
  ValidationStorage storage;
};

/// With a discrete GPU: all experts in host memory, and who computes there.
struct LoadedHost {
  LoadedHost(const ChunkStoreReader& store, ComputeDevice& cpu, ComputeDevice& gpu)
      : experts(store, &gpu), end{experts, cpu} {}
  LoadedHost(const LoadedHost&) = delete;
  HostExperts experts;
  HostEnd end;
};

class Validator {
 public:
  Validator(const Scenario& scenario, const ValidationOptions& options)
      : scenario_(scenario), options_(options), trace_(scenario_trace(scenario)) {}

  Validation run() {
    begin();
    pack();
    if (options_.verify) run_all(true);
    for (std::uint32_t turn = 0; turn < options_.repeats; ++turn) run_all(false);
    for (const Packed& packed : packed_) {
      for (const std::string& reader : packed.storage.readers()) found_.notes.push_back("reader: " + reader);
      found_.disk.insert(found_.disk.end(), packed.storage.measured().begin(),
                         packed.storage.measured().end());
    }
    if (cpu_) {
      found_.cpu_ratios = cpu_->ratios();
      found_.hand_over_ratios = cpu_->hand_over_ratios();
      found_.reading_ratios = cpu_->reading_ratios();
    }
    return std::move(found_);
  }

 private:
  void begin() {
    require_fit_for_hardware(scenario_, options_.gpu);
    window_codec_ = window_codec_of(scenario_);
    shards_ = shards_of(scenario_);
    found_.scenario = scenario_.name;
    found_.model = scenario_.model.name;
    found_.device = scenario_.device.name;
    const MachineContext& here = found_.machine =
        machine_context(std::filesystem::absolute(options_.stores), "moelab validate");
    for (const std::string& line :
         machine_differences(scenario_.device, {here.cpu, here.kernel, here.driver, here.gpu}))
      found_.warnings.push_back("the profile is not of this machine: " + line);
    for (const std::string& line : here.warnings()) found_.warnings.push_back(line);
    if (options_.gpu)
      require_gpu(scenario_.device, options_);
    else if (!scenario_.device.has_stand_in())
      scenario_.device = cpu_side(scenario_.device, found_.notes);
    found_.discrete = scenario_.device.is_discrete();
    found_.storage = describe_storage(scenario_.device, options_.pace);
    choose_grid();
    if (!options_.gpu && !has_measured_experts(scenario_.device, scenario_.model))
      found_.warnings.push_back(
          "the profile has no time of experts of this shape (cpu.experts): a roofline predicts them");
    if (!options_.dense) leave_out_dense(scenario_.device, scenario_.model);
    found_.dispatch_s = scenario_.device.cpu.dispatch.value.value();
    budgets_ = options_.budgets.empty() ? default_budgets(scenario_, trace_) : options_.budgets;
    require_once("--budgets", budgets_);
    const Bytes most = *std::max_element(budgets_.begin(), budgets_.end());
    beside_ = beside_budget(at(scenario_, most, threads_.front(), profile_name(codecs_.front())), trace_);
    Bytes files;  // about as many as there will be: nothing is packed that cannot be run
    if (found_.discrete)
      files = Bytes(routed_weights(scenario_.model) * 2);
    else if (options_.pace)
      for (const std::string& codec : codecs_)
        files = files + Bytes(routed_weights(scenario_.model) * (1 + ratio_in_profile(codec)));
    require_memory(most, beside_, files);
    if (const std::string note = check_arrivals(scenario_, trace_, runs_of_each_system()); !note.empty())
      found_.notes.push_back(note);
    if (options_.timeline)
      for (const SystemConfig& system : scenario_.systems)
        check_reaches(*options_.timeline, tokens_of_run(scenario_, system, trace_), "--timeline-tokens");
    make_devices();
    for (const std::string& codec : codecs_)
      for (const Bytes budget : budgets_) {
        const Scenario point = at(scenario_, budget, threads_.front(), profile_name(codec));
        check_scenario(point, trace_);
        check_fits(point, trace_);
        check_windows_fit(point);
      }
  }

  void check_windows_fit(const Scenario& point) const {
    for (const SystemConfig& system : point.systems) {
      if (!system.paging) continue;
      const MemoryPlan plan = plan_of_system(point, system, trace_);
      if (plan.shortfall > Bytes(0))
        throw NothingFits(point.name,
                          "budget " + to_string(plan.budget) + " is too small for system '" + system.name +
                              "': it needs " + to_string(plan.budget + plan.shortfall) +
                              " for one block of the KV cache beside non-expert weights " +
                              to_string(plan.non_expert) + ", experts in the GPU's memory " +
                              to_string(plan.expert_cache) + ", a window of two layers " +
                              to_string(plan.staging) + " and activations " + to_string(plan.activations));
    }
  }

  /// Experts in host memory are as they are: no codec, and nothing is decompressed. Those that a window takes
  /// from the GPU's memory are packed by what it decodes.
  void choose_grid() {
    if (found_.discrete) {
      codecs_ = {window_codec_.empty() ? kAsTheyAre : window_codec_};
      threads_ = {1};
      return;
    }
    codecs_ = options_.codecs;
    threads_ = options_.threads;
    require_threads(scenario_.device, threads_);
    require_once("--threads", threads_);
    require_once("--codecs", codecs_);
    for (const std::string& codec : codecs_) profile_name(codec);
  }

  std::uint64_t runs_of_each_system() const {
    return std::uint64_t{codecs_.size()} * budgets_.size() * threads_.size() *
           (options_.repeats + (options_.verify ? 1 : 0));
  }

  /// Of a codec; empty where experts are not compressed.
  std::string profile_name(const std::string& codec) const {
    return found_.discrete ? "" : codec_in_profile(scenario_.device, codec);
  }
  double ratio_in_profile(const std::string& codec) const {
    return scenario_.device.codecs.at(profile_name(codec)).ratio.value;
  }

  void make_devices() {
    const FeedForward& moe = scenario_.model.moe();
    const ExpertShape shape{static_cast<std::size_t>(scenario_.model.hidden),
                            static_cast<std::size_t>(moe.width), moe.matrices};
    if (options_.gpu)
      computes_ = make_cuda_compute_device(shape);
    else if (found_.discrete)
      computes_ = std::make_unique<StandInDevice>(shape);
    else
      computes_ = std::make_unique<CpuDevice>(shape);
    if (found_.discrete) host_computes_ = std::make_unique<CpuDevice>(shape);
  }

  void say(const std::string& text) const {
    if (options_.progress) options_.progress(text);
  }

  void pack() {
    Bytes files;
    for (const std::string& codec : codecs_) {
      PackOptions how{codec, shards_, options_.pack_threads, {}};
      how.progress = [&](std::uint64_t done, std::uint64_t all) {
        say("packing by " + codec + ": " + std::to_string(done) + " of " + std::to_string(all) + " tensors");
      };
      const ValidationStore& store = packed_.emplace_back(codec, scenario_, options_, how).store;
      files = files + paced_bytes(store, options_, scenario_);
      if (found_.discrete) continue;
      found_.notes.push_back("codec " + codec +
                             ": the profile's ratio is replaced by that of the store's chunks, " +
                             std::to_string(store.ratio()) + ", so that simulated bytes are those there are");
    }
    require_memory(*std::max_element(budgets_.begin(), budgets_.end()), beside_, files);
    if (found_.discrete) host_end_.emplace(packed_.front().store.chunks(), *host_computes_, *computes_);
    if (options_.cpu_now) cpu_.emplace(scenario_.model, shards_, timed_codecs(), found_.discrete);
  }

  /// Those by which the CPU decodes.
  std::vector<std::string> timed_codecs() const {
    if (!found_.discrete) return codecs_;
    return window_codec_.empty() || options_.gpu ? std::vector<std::string>() : codecs_;
  }

  /// Everything once: a machine that is slow for a minute is so for all codecs and systems, in some turn.
  void run_all(bool verify) {
    std::size_t number = 0;
    for (Packed& packed : packed_)
      for (const Bytes budget : budgets_)
        for (const std::uint32_t threads : threads_) {
          const std::string codec = profile_name(packed.codec);
          Scenario scenario = at(scenario_, budget, threads, codec);
          if (!codec.empty()) scenario.device.codecs.at(codec).ratio.value = packed.store.ratio();
          if (!window_codec_.empty())  // of whole weights: the other half lies there as it is
            scenario.device.gpu->codecs.at(window_codec_).ratio.value = (1 + packed.store.ratio()) / 2;
          const DeviceProfile device = scenario.device;
          for (const SystemConfig& system : scenario.systems) {
            if (number == found_.points.size())
              found_.points.push_back(point_at(packed.codec, budget, threads, system));
            run_system_at(found_.points[number++], packed, device, scenario, system, verify);
          }
        }
  }

  /// The profile with the storage that is read from, and what its reads cost the CPU: paced, nothing.
  void read_from(ValidationStorage& storage, std::uint32_t threads, bool verify, DeviceProfile& device) {
    device.ssd = storage.profile(scenario_.device.ssd, threads + 1);
    if (options_.pace)
      device.cpu.slowdown_while_reading.reset();
    else if (cpu_ && !verify && device.cpu.sharing)
      device.cpu.slowdown_while_reading = {cpu_->slowdown_while(storage.reads()), ""};
  }

  void run_system_at(ValidationPoint& point, Packed& packed, const DeviceProfile& device, Scenario& scenario,
                     const SystemConfig& system, bool verify) {
    say(point.codec + ", " + to_string(point.budget) + ", " + std::to_string(point.threads) + " threads, " +
        system.name);
    const std::string decoded = options_.gpu ? "" : window_codec_;  // by the CPU, for the GPU that it plays
    const std::string codec = found_.discrete ? decoded : packed.codec;
    const std::string in_profile = found_.discrete ? decoded : profile_name(codec);
    scenario.device = cpu_ && !verify ? cpu_->now(device, codec, in_profile, options_.dense) : device;
    if (!found_.discrete) read_from(packed.storage, point.threads, verify, scenario.device);
    RunHow how{.verify = verify, .dense = options_.dense};
    std::optional<Timeline> measured, predicted;
    // The first places of the grid are the systems' at its first point.
    if (options_.timeline && !verify && found_.timeline.size() < 2 * scenario.systems.size()) {
      how.measured = &measured.emplace(*options_.timeline);
      how.predicted = &predicted.emplace(*options_.timeline);
    }
    const RunPair pair = run_both(scenario, system, trace_, packed.store, packed.storage, *computes_,
                                  host_end_ ? &host_end_->end : nullptr, how);
    if (!verify) {
      point.disturbance.add(pair.disturbance);
      if (cpu_) point.disturbance.add({.speed_change = cpu_->changed_since()});
    }
    add(point, pair, packed.store, !verify);
    if (measured) add_timeline(pair, *measured, *predicted);
  }

  /// Side by side, the first token of both at the same time.
  void add_timeline(const RunPair& pair, const Timeline& measured, const Timeline& predicted) {
    const double first = std::max(measured.first_token_s(), predicted.first_token_s());
    const auto add_one = [&](const Timeline& timeline, const RunResult& result, const std::string& which) {
      found_.timeline.push_back(timeline.events(options_.timeline_form, result,
                                                {.process = static_cast<int>(found_.timeline.size()) + 1,
                                                 .name = which + ": " + result.system,
                                                 .shift_s = first - timeline.first_token_s()}));
    };
    add_one(measured, pair.measured, "hardware");
    add_one(predicted, pair.predicted, "simulated");
  }

  void add(ValidationPoint& point, const RunPair& pair, const ValidationStore& store, bool timed) {
    point.predicted_hits = pair.predicted.metrics.hits;
    point.measured_hits = pair.measured.metrics.hits;
    for (const Tier tier : {Tier::ssd, Tier::host})
      point.simulated_bytes += pair.predicted.metrics.bytes[static_cast<std::size_t>(tier)];
    point.loaded = pair.measured.metrics.execution.loaded;
    point.on_cpu = pair.measured.metrics.execution.on_cpu;
    point.substituted = pair.measured.metrics.routing.substituted;
    point.named_bytes += bytes_named(*pair.predicted_record, store.chunks());
    point.read_bytes += pair.moved.read;
    if (pair.predicted_window) {
      point.windowed = true;
      point.named_bytes += pair.named.loaded;
      point.streamed = pair.moved.streamed;
      for (const WindowEvent& event : pair.measured_window->events())
        point.layers_streamed += timed && event.what == WindowEvent::What::load ? 1 : 0;
    }
    const auto difference = first_difference(pair);
    if (difference && point.difference.empty()) point.difference = *difference;
    if (!timed || difference) return;
    add_served(point.serving, pair);
    point.predicted_tpot.push_back(mean(pair.predicted.metrics.token_gaps_s));
    point.measured_tpot.push_back(mean(pair.measured.metrics.token_gaps_s));
    for (std::size_t i = 0; i < pair.measured_record->graphs().size(); ++i)
      add(point, pair.predicted_record->graphs()[i], pair.measured_record->graphs()[i]);
    add(pair);
  }

  void add(ValidationPoint& point, const RecordedGraph& predicted, const RecordedGraph& measured) {
    if (measured.has_experts() && !measured.streams()) {
      point.predicted_layers.push_back(predicted.seconds);
      point.measured_layers.push_back(measured.seconds);
    }
    for (std::size_t op = 0; op < measured.operations.size(); ++op) {
      OperationTimes& times = point.operations[measured.operations[op].label.kind];
      times.predicted.push_back(predicted.operations[op].seconds);
      times.measured.push_back(measured.operations[op].seconds);
    }
  }

  void add(const RunPair& pair) {
    found_.resources.clear();
    for (const ResourceUse& resource : pair.measured.busy) found_.resources.push_back(resource.name);
    found_.hand_offs.resize(std::max(found_.hand_offs.size(), pair.hand_offs.size()));
    for (std::size_t r = 0; r < pair.hand_offs.size(); ++r) {
      found_.hand_offs[r].operations += pair.hand_offs[r].operations;
      found_.hand_offs[r].out_s += pair.hand_offs[r].out_s;
      found_.hand_offs[r].work_s += pair.hand_offs[r].work_s;
      found_.hand_offs[r].back_s += pair.hand_offs[r].back_s;
    }
  }

  Scenario scenario_;
  const ValidationOptions& options_;
  RoutingTrace trace_;
  std::vector<std::string> codecs_;
  std::vector<std::uint32_t> threads_;
  std::unique_ptr<ComputeDevice> computes_, host_computes_;  // the second beside a discrete GPU
  std::optional<ValidationCpu> cpu_;                         // where the CPU is timed before each run
  std::uint32_t shards_ = 1;
  std::string window_codec_;  // of experts in a GPU's memory; empty: none are compressed there
  std::vector<Bytes> budgets_;
  Bytes beside_;               // a budget
  std::deque<Packed> packed_;  // storages refer to their stores
  std::optional<LoadedHost> host_end_;
  Validation found_;
};

/// All that a system needs that pages its experts: with blocks for the longest requests that run at once.
Bytes paged_needs(const Scenario& scenario, const SystemConfig& system, const RoutingTrace& trace,
                  const MemoryPlan& plan) {
  const Bytes kv = planned_kv_bytes(scenario, system, plan, served_requests(scenario, trace));
  return plan.non_expert + plan.activations + plan.staging + plan.expert_cache + std::max(kv, plan.kv_block);
}

}  // namespace

std::vector<Bytes> default_budgets(const Scenario& scenario, const RoutingTrace& trace) {
  Scenario roomy = scenario;  // the plan's parts but for the cache do not depend on the budget
  roomy.budget = scenario.device.memory.total.value - scenario.device.memory.system_reserve.value;
  if (scenario.device.is_discrete())
    roomy.budget = scenario.device.gpu->own->total.value - scenario.device.gpu->own->reserve.value;
  double needed = 0;
  const Bytes experts = routed_bytes(scenario.model);
  for (const SystemConfig& system : roomy.systems) {
    SystemConfig any = system;
    if (any.compressed && !scenario.device.codecs.contains(any.codec) && !scenario.device.codecs.empty())
      any.codec = scenario.device.codecs.begin()->first;
    const MemoryPlan plan = plan_of_system(roomy, any, trace);
    needed = std::max(needed, (any.paging ? paged_needs(roomy, any, trace, plan) - experts / 4
                                          : plan.budget - plan.expert_cache)
                                  .value());
  }
  std::vector<Bytes> budgets;
  const double step = std::pow(10.0, std::floor(std::log10(experts.value())) - 2);
  for (const double share : {0.25, 0.5, 0.75})
    budgets.emplace_back(std::ceil((needed + share * experts.value()) / step) * step);
  return budgets;
}

Validation validate(const Scenario& scenario, const ValidationOptions& options) {
  return Validator(scenario, options).run();
}

}  // namespace moelab

#include "hw/validate/machine_record.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <iterator>
#include <map>
#include <sstream>
#include <utility>

#include "hw/validate/validation.hpp"
#include "models/control_characters.hpp"
#include "models/input_error.hpp"
#include "sim/results/text_table.hpp"
#include "sim/scenario.hpp"

namespace moelab {
namespace {

/// By its numbers alone: what else a compiler says of itself may have paths in it.
std::string compiler_version() {
#if defined(__clang__)
  return "clang++ " + std::to_string(__clang_major__) + "." + std::to_string(__clang_minor__) + "." +
         std::to_string(__clang_patchlevel__);
#else
  return "g++ " + std::to_string(__GNUC__) + "." + std::to_string(__GNUC_MINOR__) + "." +
         std::to_string(__GNUC_PATCHLEVEL__);
#endif
}

/// A name as a record has it: no longer than its texts are, with '?' for what is not to be shown.
std::string plain_name(std::string name) {
  cut_text(name, kRecordText);
  for (std::size_t at = 0; at < name.size(); ++at)
    if (const std::size_t bytes = control_character_at(name, at)) name.replace(at, bytes, "?");
  return name;
}

std::string first_word(const std::string& text) {
  return text.substr(0, text.find(' '));
}

RecordStorage storage_of(const ValidationOptions& options, const Validation& v) {
  if (v.discrete) return options.gpu ? RecordStorage::gpu : RecordStorage::stand_in;
  return options.pace ? RecordStorage::paced : RecordStorage::disk;
}

RecordMachine machine_of(const MachineContext& here, RecordStorage storage) {
  constexpr int kDigits = 2;  // of memory: that of one machine is a little less after each update
  RecordMachine m;
  m.processor = here.cpu;
  m.cores = static_cast<int>(here.cores);
  if (here.memory > 0) m.memory = Bytes(significant_digits(static_cast<double>(here.memory), kDigits));
  m.kernel = kernel_family(here.kernel);
  m.governor = here.governor;
  if (storage == RecordStorage::disk) m.filesystem = first_word(here.filesystem);
  if (storage != RecordStorage::gpu) return m;
  m.gpu = here.gpu;
  m.driver = here.driver;
  return m;
}

RecordModel model_of(const Architecture& model) {
  const FeedForward& moe = model.moe();
  return {.name = plain_name(model.name),
          .layers = static_cast<int>(model.moe_layers().size()),
          .experts = moe.experts,
          .top_k = moe.top_k,
          .hidden = model.hidden,
          .width = moe.width,
          .matrices = moe.matrices};
}

/// "2026-11-28" of "2026-11-28T10:00:00Z"; empty of what is no date.
std::string day_of(const std::string& date) {
  const std::string day = date.substr(0, 10);
  return is_day(day) ? day : "";
}

RecordWork work_of(const Scenario& scenario, const ValidationOptions& options, const Validation& v) {
  RecordWork work;
  work.scenario = plain_name(scenario.name);
  work.model = model_of(scenario.model);
  for (const SystemConfig& system : scenario.systems) work.systems.push_back(plain_name(system.name));
  for (const ValidationPoint& point : v.points)
    if (std::find(work.budgets.begin(), work.budgets.end(), point.budget) == work.budgets.end())
      work.budgets.push_back(point.budget);
  work.requests = scenario.workload.requests;
  work.batch = scenario.workload.batch;
  work.prompt_tokens = scenario.workload.prompt_tokens;
  work.output_tokens = scenario.workload.output_tokens;
  work.storage = storage_of(options, v);
  if (work.storage == RecordStorage::paced) work.pace = options.pace;
  work.repeats = options.repeats;
  work.probed = options.cpu_now;
  const MachineContext& here = v.machine;
  work.own_profile = same_machine(scenario.device, {here.cpu, here.kernel, here.driver, here.gpu});
  if (scenario.device.measured_on) work.profile_date = day_of(scenario.device.measured_on->date);
  return work;
}

double rounded(double figure) {
  constexpr int kDigits = 4;
  return significant_digits(figure, kDigits);
}

/// Rounded; nothing where there are none.
std::optional<ErrorSummary> if_any(const ErrorSummary& error) {
  if (error.count == 0) return std::nullopt;
  return ErrorSummary{error.count, rounded(error.median), rounded(error.p90), rounded(error.bias)};
}

RecordLoad load_of(const Validation& v) {
  RecordLoad load;
  load.before = rounded(v.machine.load);
  double sum = 0;
  std::size_t watched = 0;
  for (const ValidationPoint& point : v.points) {
    load.speed_change = std::max(load.speed_change, rounded(point.disturbance.speed_change));
    const std::optional<double> cores = point.disturbance.others_cores();
    if (!cores) continue;
    sum += *cores;
    ++watched;
    load.others_most = std::max(load.others_most.value_or(0), rounded(*cores));
  }
  if (watched > 0) load.others_mean = rounded(sum / static_cast<double>(watched));
  return load;
}

/// The points of one codec and number of threads.
Validation part_of(const Validation& v, const std::string& codec, std::uint32_t threads) {
  Validation part;
  std::copy_if(v.points.begin(), v.points.end(), std::back_inserter(part.points),
               [&](const ValidationPoint& p) { return p.codec == codec && p.threads == threads; });
  return part;
}

RecordGroup group_of(const Validation& part) {
  RecordGroup group;
  group.points = part.points.size();
  group.too_noisy = part.too_noisy();
  group.layers = if_any(part.layer_error());
  group.tpot = if_any(part.tpot_error());
  for (const ValidationGroup& place : part.groups()) group.ordering.add(place.ordering);
  for (const auto& [key, times] : part.quiet_operations())
    if (const auto error = if_any(errors_of(times.predicted, times.measured)))
      group.operations.push_back({std::get<OpKind>(key), *error});
  return group;
}

std::vector<RecordGroup> groups_of(const Validation& v) {
  std::vector<RecordGroup> groups;
  std::vector<std::pair<std::string, std::uint32_t>> places;
  for (const ValidationPoint& point : v.points)
    if (std::find(places.begin(), places.end(), std::pair(point.codec, point.threads)) == places.end())
      places.emplace_back(point.codec, point.threads);
  for (const auto& [codec, threads] : places) {
    RecordGroup& group = groups.emplace_back(group_of(part_of(v, codec, threads)));
    const bool windowed =
        std::any_of(v.points.begin(), v.points.end(), [](const ValidationPoint& p) { return p.windowed; });
    if (!v.discrete || windowed) group.codec = codec;
    if (!v.discrete) group.threads = threads;
  }
  return groups;
}

}  // namespace

std::string_view to_string(RecordStorage storage) {
  static constexpr std::array<std::string_view, 4> kNames = {"paced", "disk", "stand-in", "gpu"};
  return kNames[static_cast<std::size_t>(storage)];
}

std::string kernel_family(const std::string& kernel) {
  std::istringstream words(kernel);
  std::string name, release, processor;
  words >> name >> release >> processor;
  std::size_t end = 0;
  for (int numbers = 0; numbers < 2; ++numbers) {
    const std::size_t begin = numbers == 0 ? 0 : end + 1;
    if (begin > 0 && (end >= release.size() || release[end] != '.')) break;
    std::size_t at = begin;
    while (at < release.size() && std::isdigit(static_cast<unsigned char>(release[at])) != 0) ++at;
    if (at == begin) break;
    end = at;
  }
  std::string family = name;
  for (const std::string& part : {release.substr(0, end), processor})
    if (!part.empty()) family += " " + part;
  return family;
}

bool is_day(std::string_view text) {
  constexpr std::string_view kForm = "0000-00-00";
  if (text.size() != kForm.size()) return false;
  for (std::size_t i = 0; i < kForm.size(); ++i)
    if (kForm[i] == '0' ? text[i] < '0' || text[i] > '9' : text[i] != kForm[i]) return false;
  const auto number = [&](std::size_t at) {
    return static_cast<unsigned>(10 * (text[at] - '0') + (text[at + 1] - '0'));
  };
  return std::chrono::year_month_day(std::chrono::year(static_cast<int>(100 * number(0) + number(2))),
                                     std::chrono::month(number(5)), std::chrono::day(number(8)))
      .ok();
}

MachineRecord machine_record(const Scenario& scenario, const ValidationOptions& options, const Validation& v,
                             const std::string& version) {
  MachineRecord record;
  record.date = day_of(v.machine.date);
  record.machine = machine_of(v.machine, storage_of(options, v));
  record.program = {version, compiler_version(), v.machine.libraries};
  record.work = work_of(scenario, options, v);
  record.load = load_of(v);
  record.groups = groups_of(v);
  record.same_work = v.same_work();
  return record;
}

}  // namespace moelab

// Memory, threads and what the CPU computes.
#include <algorithm>
#include <map>

#include "hw/bench/handoff_team.hpp"
#include "hw/calibrate/profile_parts.hpp"
#include "models/input_error.hpp"
#include "models/units.hpp"

namespace moelab {

namespace {

constexpr auto kIdleMicroseconds = static_cast<std::uint64_t>(kHandoffIdle * 1e6 + 0.5);

Account stated(const std::string& what) {
  Account account;
  account.what = what;
  return account;
}

/// An operation is handed over twice: to the thread that does it, which waited for storage or for others, and
/// back to the engine, which slept meanwhile.
Sourced<Seconds> dispatch(const Measurements& measured, FigureLedger& ledger) {
  const BenchParameters which = {
      {"kind", "condition_variable"}, {"threads", std::uint64_t{1}}, {"idle_us", kIdleMicroseconds}};
  const BenchPoints points = measured.of("handoff", which);
  if (points.empty())
    throw InputError("cpu.dispatch", "cannot be measured here: " + measured.why_not("handoff", which));
  Account account = account_of("handoff " + to_string(which), {points.front()});
  account.how = "twice: there and back";
  const Seconds both(2 * points.front()->statistics.median);
  return ledger.enter("cpu.dispatch", both, to_string(both), account, FigureLedger::Kind::same);
}

Sourced<Curve> recover(const Measurements& measured, FigureLedger& ledger) {
  const BenchParameters which = {{"threads", std::uint64_t{1}}};
  return enter_curve(ledger, "cpu.recover", "join " + to_string(which),
                     points_for_curve(measured, "cpu.recover", "join", which, CurveAmount::elements),
                     CurveAmount::elements, Beyond::no_faster_rate);
}

void add_dense(const Measurements& measured, FigureLedger& ledger, CpuProfile& cpu) {
  const BenchPoints points = measured.of("dense");
  const std::optional<RooflineFit> fit = roofline_of(points);
  if (!fit) throw InputError("cpu.peak", "no roofline fits the dense products: " + measured.why_not("dense"));
  Account account = account_of("dense", points);
  const int kernels = measured.context.dense_kernels;
  const Seconds launch(fit->launch / kernels);
  account.fit = "roofline " + to_string(FlopsPerSecond(fit->peak)) + ", " +
                to_string(BytesPerSecond(fit->bandwidth)) + ", " + to_string(Seconds(fit->launch));
  account.quality = fit->quality;
  const FlopsPerSecond peak(fit->peak);
  const BytesPerSecond bandwidth(fit->bandwidth);
  cpu.peak = ledger.enter("cpu.peak", peak, to_string(peak), account, FigureLedger::Kind::inverse);
  cpu.bandwidth =
      ledger.enter("cpu.bandwidth", bandwidth, to_string(bandwidth), account, FigureLedger::Kind::inverse);
  account.spread.reset();  // of whole operations, not of their beginnings
  account.how = "what an operation costs to begin, " + to_string(Seconds(fit->launch)) + ", over the " +
                std::to_string(kernels) +
                " kernels that the simulator counts in the model's attention and the executor runs as one";
  cpu.dense_launch = ledger.enter("cpu.dense_launch", launch, to_string(launch), account);
}

void add_expert(const Measurements& measured, const ExpertShape& shape, FigureLedger& ledger,
                CpuProfile& cpu) {
  const BenchParameters which = {{"hidden", std::uint64_t{shape.hidden}},
                                 {"width", std::uint64_t{shape.width}},
                                 {"matrices", static_cast<std::uint64_t>(shape.matrices)}};
  const std::string path = "cpu.experts " + std::to_string(shape.hidden) + "x" + std::to_string(shape.width) +
                           "x" + std::to_string(shape.matrices);
  cpu.experts.push_back({static_cast<int>(shape.hidden), static_cast<int>(shape.width), shape.matrices,
                         enter_curve(ledger, path, "expert " + to_string(which),
                                     points_for_curve(measured, path, "expert", which, CurveAmount::tokens),
                                     CurveAmount::tokens)});
}

void add_sharing(const Measurements& measured, FigureLedger& ledger, CpuProfile& cpu) {
  const bool links = measured.context.stand_in_bytes > 0;
  const char* const name = links ? "link-sharing" : "sharing";
  std::map<std::uint64_t, PairedRatios> by_busy;
  std::size_t points = 0;
  for (const BenchResult* several : measured.of(name)) {
    const std::uint64_t busy = several->parameters.number("busy");
    const BenchPoints alone =
        measured.of(name, {{"work", several->parameters.text("work")}, {"busy", std::uint64_t{1}}});
    if (busy < 2 || alone.empty()) continue;
    by_busy[busy].add(*several, *alone.front());
    ++points;
  }
  std::vector<UserFactor> known;
  double variation = 0;
  SampleStatistics at_most{};
  std::size_t samples = 0;
  for (const auto& [busy, ratios] : by_busy) {
    if (ratios.empty()) continue;
    const SampleStatistics found = ratios.statistics();
    known.push_back({busy, found.median});
    samples += found.count;
    if (found.variation >= variation) at_most = found;
    variation = std::max(variation, found.variation);
  }
  if (known.empty()) return;  // a profile does without: operations are then taken not to hinder each other
  double correction = 0;
  const std::vector<double> factors = factors_by_users(known, correction);
  Account account = account_of(std::string(name) + ", so many threads busy over one", points, at_most);
  account.how = std::string(links ? "copies and experts" : "decompression, joins and experts") +
                " alike; spread of the number of threads that varies most";
  account.samples = samples;
  account.correction = correction;
  cpu.sharing = ledger.enter("cpu.sharing", factors, shown_factors(factors), account);
}

}  // namespace

void add_memory(const Measurements& measured, FigureLedger& ledger, DeviceProfile& profile) {
  const MachineContext& machine = measured.context.machine;
  if (machine.memory == 0 || machine.available_memory == 0 || machine.available_memory > machine.memory)
    throw InputError("memory.total", "the system does not say how much memory there is and is free");
  const Bytes total(static_cast<double>(machine.memory));
  const Bytes available(static_cast<double>(machine.available_memory));
  const Bytes set_apart(measured.context.stand_in_bytes);
  const Bytes held = total - available + set_apart;
  profile.memory.total =
      ledger.enter("memory.total", total, to_string(total), stated("what the system says it has"));
  profile.memory.system_reserve =
      ledger.enter("memory.system_reserve", held, to_string(held),
                   stated("all but the " + to_string(available) + " that could be had before measuring" +
                          (set_apart > Bytes(0) ? ", and gpu.memory" : "")));
}

void add_cpu(const Measurements& measured, FigureLedger& ledger, DeviceProfile& profile) {
  CpuProfile& cpu = profile.cpu;
  const int cores = static_cast<int>(std::max(1U, measured.context.machine.cores));
  cpu.threads = ledger.enter("cpu.threads", cores, std::to_string(cores), stated("cores that may be used"));
  cpu.dispatch = dispatch(measured, ledger);
  if (!measured.has_gpu()) cpu.recover = recover(measured, ledger);  // else the GPU joins
  for (const ExpertShape& shape : measured.context.experts) add_expert(measured, shape, ledger, cpu);
  add_dense(measured, ledger, cpu);
  add_sharing(measured, ledger, cpu);
  if (cpu.sharing) add_slowdown_while_reading(measured, ledger, cpu);
}

}  // namespace moelab

// Compressed planes in the host's memory of a discrete GPU: laws, naive replays, closed forms, and what they
// must equal.
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "models/input_error.hpp"
#include "models/tensor_parallel.hpp"
#include "sim/results/result_json.hpp"
#include "sim/serving/memory_plan.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/discrete_cases.hpp"
#include "tests/sim/serving_checks.hpp"
#include "tests/sim/serving_reference.hpp"

namespace moelab::linked_planes_test {

using namespace moelab::test;

namespace {

/// One layer with one expert of two matrices, always used; nothing is kept.
SmallRun two_matrices(Decoder decoder, std::uint32_t shards, std::uint32_t threads) {
  SmallRun run;
  Scenario& s = run.scenario;
  s.name = "two matrices";
  ModelShape shape;
  shape.moe_layers = shape.experts = shape.top_k = 1;
  shape.matrices = 2;
  s.model = small_model(shape);
  s.device = small_discrete_device();
  s.device.gpu->codecs["lz"] = {{0.75, ""}, {BytesPerSecond(8e8), ""}};
  s.workload.trace_file = "made up";
  SystemConfig system = plain_system();
  system.compressed = true;
  system.codec = "lz";
  system.decoder = decoder;
  system.shards = shards;
  system.threads = threads;
  s.systems = {system};
  run.trace = steady_trace(s.model, {0, 3});
  give_room(run, 0);
  return run;
}

/// Seconds from a layer's begin to the end of its expert's execution, in each pass.
std::vector<double> layer_seconds(const SmallRun& run) {
  Recorder record;
  run.run(&record);
  std::vector<double> seconds;
  for (const DoneGraph& graph : record.graphs)
    if (graph.holds(OpKind::execute) || graph.holds(OpKind::cpu_execute))
      seconds.push_back(end_of(graph) - graph.submitted);
  return seconds;
}

/// The same experts whole, by the same policies.
SmallRun whole_of(SmallRun run) {
  SystemConfig& system = run.scenario.systems.front();
  system.compressed = false;
  system.shards = 0;
  system.threads = 1;
  system.decoder = Decoder::cpu;
  return run;
}

}  // namespace

TEST_CASE("planes over a link: random systems keep the laws and agree with naive replays") {
  std::map<std::string, int> seen;
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(500u, 150u); ++seed) {
    SmallRun run = random_planes_run(seed);
    Random host(seed + 0xd15c);
    if (host.below(3) == 0) crowd_host(run, host);
    const SystemConfig& system = run.system();
    const bool on_cpu = system.decoder == Decoder::cpu;
    INFO("seed " << seed << ", cache " << system.cache.name << ", prefetch " << system.prefetch.name
                 << (on_cpu ? ", cpu" : ", gpu"));
    Recorder record;
    const RunResult r = run.run(&record);
    check_no_gaps(record, r, on_cpu);
    check_conservation(run, record, r);
    check_prefetch_counts(r, record);
    Recorder again;
    CHECK(results_json({run.run(&again)}) == results_json({r}));
    const RunResult unseen = run.run();  // remembers what layers come to
    CHECK(unseen.metrics.hits == r.metrics.hits);
    CHECK(unseen.metrics.wall_s == Approx(r.metrics.wall_s).epsilon(1e-12));
    for (std::size_t cause = 0; cause < kCauses; ++cause)
      CHECK(unseen.metrics.stall_s[cause] == Approx(r.metrics.stall_s[cause]).epsilon(1e-9).margin(1e-15));
    CHECK_FALSE(r.counted.execution);
    if (system.prefetch.name == "none") {
      const Counts expected = replay(run, r);
      CHECK(r.metrics.hits == expected.hits);
      CHECK(r.metrics.decode_hits == expected.decode_hits);
      for (std::size_t t = 0; t < expected.bytes.size(); ++t)
        CHECK(r.metrics.bytes[t] == Approx(expected.bytes[t]).epsilon(1e-9));
    }
    bool decoded = false;
    for (const DoneGraph& graph : record.graphs) decoded |= graph.holds(OpKind::decompress);
    CHECK((!decoded || on_cpu));  // the GPU decodes as it joins
    ++seen[on_cpu ? "cpu" : "gpu"];
    ++seen["cache " + system.cache.name];
    seen["prefetch"] += system.prefetch.name != "none" ? 1 : 0;
    seen["routing"] += system.routing.name == "smoe" ? 1 : 0;
    seen["decoded"] += decoded ? 1 : 0;
    seen["on the SSD"] += r.memory.experts_on_ssd ? 1 : 0;
    if (!r.memory.experts_on_ssd) CHECK(r.metrics.bytes[static_cast<std::size_t>(Tier::ssd)] == 0);
  }
  for (const char* what : {"cpu", "gpu", "prefetch", "routing", "decoded", "on the SSD"})
    CHECK(seen[what] > moelab::test::random_runs(50));
  for (const auto& entry : cache_policies()) CHECK(seen["cache " + std::string(entry.info.name)] > 0);
}

TEST_CASE("planes over a link: a GPU's decoding follows each matrix's transfers") {
  // Two matrices of 32 x 48 values. Link: 3 us and 400 MB/s. Codec: 0.75 of the whole, so half of the
  // exponents; 3072 plain bytes at 800 MB/s, or 1.75 times as many through 1 GB/s; 2 us a kernel.
  for (const std::uint32_t shards : {1u, 2u, 3u}) {
    const SmallRun run = two_matrices(Decoder::gpu, shards, 1);
    const double values = 32 * 48;
    const double sm = 3e-6 + values / 4e8, chunk = 3e-6 + std::ceil(values / 2 / shards) / 4e8;
    const double matrix = sm + shards * chunk, decode = 3072 * 1.75 / 1e9 + 2e-6;
    const double execute =
        TimingModel(run.scenario.device).expert(run.scenario.model, run.scenario.model.moe(), 1).value();
    const double expected = std::max(matrix, decode) + matrix + decode + execute;
    for (const double seconds : layer_seconds(run)) CHECK(seconds == Approx(expected).epsilon(1e-12));
    CHECK(run.costs().stored.value() == 2 * (values + shards * std::ceil(values / 2 / shards)));
    CHECK(plan_memory(run.scenario, run.system(), run.costs(), run.trace).host_experts == run.costs().stored);
  }
}

TEST_CASE("planes over a link: the CPU's decoding comes before the transfer") {
  // As above; a thread decodes 400 MB/s, a chunk goes plain, 3072 values are joined through 1 GB/s, 2 us a
  // kernel. The link takes the sign-mantissas first, and each chunk when it is plain.
  for (const std::uint32_t shards : {1u, 2u, 3u})
    for (const std::uint32_t threads : {1u, 2u, 8u}) {
      const SmallRun run = two_matrices(Decoder::cpu, shards, threads);
      const double values = 32 * 48;
      const double sm = 3e-6 + values / 4e8, chunk = 3e-6 + std::ceil(values / shards) / 4e8;
      const double decode = values / shards / 4e8, join = 4 * values / 1e9 + 2e-6;
      std::vector<double> plain;  // when each chunk of both matrices is
      for (std::uint32_t c = 0; c < 2 * shards; ++c)
        plain.push_back((c < threads ? 0 : plain[c - threads]) + decode);
      double link = 0, joined = 0;
      std::vector<double> ready = {0};  // sign-mantissas of the first matrix, its chunks, those of the second
      std::vector<double> takes = {sm};
      for (std::uint32_t c = 0; c < 2 * shards; ++c) {
        if (c == shards) {
          ready.push_back(0);
          takes.push_back(sm);
        }
        ready.push_back(plain[c]);
        takes.push_back(chunk);
      }
      std::vector<bool> done(ready.size(), false);
      double last[2] = {0, 0};
      for (std::size_t n = 0; n < ready.size(); ++n) {
        // The link is given to the first in order of what is ready; where nothing is, to what is ready next.
        double when = 1e9;
        for (std::size_t i = 0; i < ready.size(); ++i)
          if (!done[i]) when = std::min(when, std::max(link, ready[i]));
        std::size_t next = 0;
        while (done[next] || ready[next] > when) ++next;
        done[next] = true;
        link = when + takes[next];
        last[next > shards ? 1 : 0] = link;
      }
      for (const double of : {std::min(last[0], last[1]), std::max(last[0], last[1])})
        joined = std::max(joined, of) + join;
      const double execute =
          TimingModel(run.scenario.device).expert(run.scenario.model, run.scenario.model.moe(), 1).value();
      INFO("shards " << shards << ", threads " << threads);
      for (const double seconds : layer_seconds(run))
        CHECK(seconds == Approx(joined + execute).epsilon(1e-9));
      CHECK(run.costs().stored.value() == 2 * (values + shards * std::ceil(values / 2 / shards)));
    }
}

TEST_CASE("planes over a link: a code of ratio 1 that takes no time is no code") {
  int compared = 0;
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(300u); ++seed) {
    SmallRun run = random_planes_run(seed);
    SystemConfig& system = run.scenario.systems.front();
    INFO("seed " << seed << ", cache " << system.cache.name);
    DeviceProfile& device = run.scenario.device;
    GpuMemory& own = *device.gpu->own;
    own.link.to_device.value = Curve::affine(0, 4e8);  // so that pieces take as long as the whole
    device.cpu.dispatch.value = Seconds(0);
    device.gpu->codecs["lz"].ratio.value = 1;
    // Whole tensors are kept, and no plane alone.
    system.pools = {true, false, false, false, false};
    system.kept_as = State::F;
    if (system.planning.name == "fixed") system.ratios = {1, 0, 0, 0, 0};
    system.schedule.name = "fifo";
    system.prefetch = {"none", {}};
    system.prefetch_buffer = 0;
    system.shards = 1;
    give_room(run, 2);
    SmallRun whole = whole_of(run);
    // Staging for planes beside what is joined of them is the compressed system's alone.
    const Bytes more = plan_memory(whole.scenario, whole.system(), whole.costs(), whole.trace).expert_cache -
                       plan_memory(run.scenario, run.system(), run.costs(), run.trace).expert_cache;
    whole.scenario.budget -= more;
    RunOptions options;
    options.free_resources = {"recover", "decompress", "expert_compute"};  // whose order is another
    const RunResult planes = run_system(run.scenario, run.system(), run.trace, options);
    const RunResult plain = run_system(whole.scenario, whole.system(), whole.trace, options);
    CHECK(planes.metrics.hits == plain.metrics.hits);
    CHECK(planes.metrics.decode_hits == plain.metrics.decode_hits);
    for (std::size_t t = 0; t < kTiers; ++t)
      CHECK(planes.metrics.bytes[t] == Approx(plain.metrics.bytes[t]).epsilon(1e-12));
    CHECK(planes.metrics.wall_s == Approx(plain.metrics.wall_s).epsilon(1e-9));
    ++compared;
  }
  CHECK(compared == static_cast<int>(moelab::test::random_runs(300u)));
}

TEST_CASE("more than host memory: what it does not hold is read from the SSD first, once while it holds it") {
  // Whole matrices of 3072 bytes: SSD 5 us and 500 MB/s, link 3 us and 400 MB/s. One expert, three steps.
  SmallRun run = whole_of(two_matrices(Decoder::cpu, 1, 1));
  MemoryProfile& host = run.scenario.device.memory;
  const double ssd = 5e-6 + 3072 / 5e8, link = 3e-6 + 3072 / 4e8;
  const double execute =
      TimingModel(run.scenario.device).expert(run.scenario.model, run.scenario.model.moe(), 1).value();
  const double from_ssd = ssd + std::max(ssd, link) + link + execute, from_host = 2 * link + execute;
  CHECK(layer_seconds(run)[0] == Approx(from_host).epsilon(1e-12));
  host.total.value = host.system_reserve.value + Bytes(2 * 3072 - 1);
  const RunResult r = run.run();
  CHECK(r.memory.experts_on_ssd);
  CHECK(r.memory.host_experts == Bytes(0));
  CHECK(r.metrics.bytes[static_cast<std::size_t>(Tier::ssd)] == 3 * 2 * 3072);
  CHECK(r.metrics.bytes[static_cast<std::size_t>(Tier::host)] == 3 * 2 * 3072);
  for (const double seconds : layer_seconds(run)) CHECK(seconds == Approx(from_ssd).epsilon(1e-12));
  // Planes are smaller: their host memory holds what it could not hold whole.
  SmallRun planes = two_matrices(Decoder::gpu, 1, 1);
  planes.scenario.device.memory.total.value = host.total.value;
  CHECK_FALSE(planes.run().memory.experts_on_ssd);
  planes.scenario.device.memory.total.value = host.system_reserve.value + Bytes(3 * 1536 - 1);
  CHECK(planes.run().memory.experts_on_ssd);
  // Room for both experts of a layer that uses one: the first step reads it.
  run.scenario.model.layers[0].feed_forward.experts = 2;
  run.trace = steady_trace(run.scenario.model, {0, 3});
  give_room(run, 0);
  host.total.value = host.system_reserve.value + Bytes(2 * 3072 + 1);
  CHECK(run.run().memory.experts_on_ssd);
  const std::vector<double> seconds = layer_seconds(run);
  CHECK(seconds[0] == Approx(from_ssd).epsilon(1e-12));
  for (const std::size_t step : {1, 2}) CHECK(seconds[step] == Approx(from_host).epsilon(1e-12));
}

TEST_CASE("more than host memory: the CPU computes what has been read") {
  SmallRun run = whole_of(two_matrices(Decoder::cpu, 1, 1));
  run.scenario.systems.front().execution.name = "cpu-only";
  const double in_memory = layer_seconds(run)[0];
  run.scenario.device.memory.total.value = run.scenario.device.memory.system_reserve.value;
  // Activations travel while the SSD is read; the CPU waits for the later of the two.
  const double sent = 2e-6 + 2 * 32 / 3e8, ssd = 2 * (5e-6 + 3072 / 5e8);
  for (const double seconds : layer_seconds(run))
    CHECK(seconds == Approx(in_memory - sent + std::max(sent, ssd)).epsilon(1e-9));
}

TEST_CASE("more than host memory: an SSD that takes no time is host memory") {
  int on_ssd = 0, in_order = 0;
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(300u); ++seed) {
    SmallRun run = seed % 2 == 0 ? random_planes_run(seed) : random_discrete_run(seed);
    INFO("seed " << seed << ", cache " << run.system().cache.name);
    // A fetch that has begun to be read is not given up for one that is demanded.
    run.scenario.systems.front().prefetch = {"none", {}};
    run.scenario.device.cpu.dispatch.value = Seconds(0);
    RunOptions options;
    options.free_resources = {"io"};
    const RunResult there = run_system(run.scenario, run.system(), run.trace, options);
    Random random(seed);
    crowd_host(run, random);
    // Planes all come from there: what is ready at the same moment goes over the link in another order else.
    if (run.system().compressed)
      run.scenario.device.memory.total.value = run.scenario.device.memory.system_reserve.value;
    const RunResult read = run_system(run.scenario, run.system(), run.trace, options);
    on_ssd += read.memory.experts_on_ssd ? 1 : 0;
    CHECK(read.metrics.hits == there.metrics.hits);
    // Shards that are ready at the same moment may be decoded and joined in another order.
    CHECK(read.metrics.wall_s == Approx(there.metrics.wall_s).epsilon(1e-3));
    in_order += read.metrics.wall_s == Approx(there.metrics.wall_s).epsilon(1e-9) ? 1 : 0;
    CHECK(read.metrics.bytes[static_cast<std::size_t>(Tier::host)] ==
          Approx(there.metrics.bytes[static_cast<std::size_t>(Tier::host)]).epsilon(1e-12));
  }
  CHECK(in_order >= moelab::test::random_runs(295));
  CHECK(on_ssd > moelab::test::random_runs(200));
}

TEST_CASE("planes over a link: GPUs that share a model share the threads that decode for them") {
  SmallRun run = two_matrices(Decoder::cpu, 2, 1);
  const TimingModel timing(run.scenario.device);
  const Architecture half = tensor_parallel_part(run.scenario.model, 2);
  const ExpertCosts alone = expert_costs(run.scenario.model, timing, run.system());
  const ExpertCosts of_two = expert_costs(half, timing, run.system(), 2);
  CHECK(of_two.timing.decompress_s == Approx(alone.timing.decompress_s).epsilon(1e-12));
  CHECK(of_two.sm_bytes == alone.sm_bytes / 2);
  CHECK(of_two.stored == alone.stored / 2);
  run.scenario.systems.front().decoder = Decoder::gpu;
  CHECK(expert_costs(half, timing, run.system(), 2).timing.recover_s <
        expert_costs(run.scenario.model, timing, run.system()).timing.recover_s);
}

TEST_CASE("planes over a link: what cannot be is refused by its reason") {
  const auto refusal = [](const SmallRun& run) -> std::string {
    try {
      check_scenario(run.scenario, run.trace);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  const SmallRun good = two_matrices(Decoder::cpu, 2, 2);
  CHECK(refusal(good) == "");
  SmallRun run = good;
  run.scenario.systems.front().execution.name = "cpu-only";
  CHECK_THAT(refusal(run), Catch::Contains("lets the CPU compute experts") && Catch::Contains("gpu-only"));
  run = good;
  run.scenario.systems.front().worker_reads = true;
  CHECK_THAT(refusal(run), Catch::Contains("exponent_reads: io-thread"));
}

}  // namespace moelab::linked_planes_test

// Validation as a whole on a tiny model: both runs do the same work, whatever the times are.
#include "hw/validate/validation.hpp"
#include "hw/validate/validation_cpu.hpp"
#include "models/json.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>

#include "hw/store/chunk_store_report.hpp"
#include "hw/validate/validation_cpu.hpp"
#include "hw/validate/validation_profile.hpp"
#include "hw/validate/validation_report.hpp"
#include "tests/hw/validation_runs.hpp"
#include "tests/random_runs.hpp"

namespace moelab::validation_test {

using namespace moelab::test;
using Catch::Matchers::Contains;

namespace {

std::string message_of(const std::function<void()>& what) {
  try {
    what();
  } catch (const InputError& error) {
    std::string all;
    for (const Problem& problem : error.problems()) all += to_string(problem) + "\n";
    return all;
  }
  return "";
}

std::string refusal(const Scenario& scenario, ValidationOptions options = small_options("nowhere")) {
  return message_of([&] { validate(scenario, options); });
}

void check_points(const Scenario& scenario, const ValidationOptions& options, const Validation& found) {
  REQUIRE(found.points.size() ==
          3 * options.threads.size() * options.codecs.size() * scenario.systems.size());
  for (const ValidationPoint& point : found.points) {
    INFO(point.codec << " " << point.system << " " << point.difference);
    CHECK(point.same_work());
    CHECK(point.named_bytes == point.read_bytes);
    // By the mean ratio, and chunks rounded up to whole bytes.
    CHECK(point.simulated_bytes == Approx(static_cast<double>(point.read_bytes)).epsilon(0.1));
    // Passes: the prompt's and one a token after the first.
    CHECK(point.measured_layers.size() == options.repeats * 2 * scenario.workload.output_tokens);
    CHECK(point.predicted_layers.size() == point.measured_layers.size());
    CHECK(point.measured_tpot.size() == options.repeats);
  }
  for (const ErrorSummary& error : {found.layer_error(), found.tpot_error()}) {
    CHECK((error.count > 0 || found.too_noisy() == found.points.size()));
    CHECK((std::isfinite(error.median) && std::isfinite(error.p90) && std::isfinite(error.bias)));
  }
  CHECK(found.groups().size() == 3 * options.threads.size() * options.codecs.size());
  CHECK(found.same_work());
}

}  // namespace

TEST_CASE("validation: hardware does what the simulator says, read by read, paced and from the disk") {
  const test::ScratchFolder folder;
  const Scenario scenario = small_scenario();
  for (const bool paced : {true, false}) {
    ValidationOptions options = small_options(folder / "stores");
    if (!paced) options.pace.reset();
    if (kFewerRuns && !paced) {
      options.codecs = {"fixed3"};
      options.repeats = 1;
    }
    const Validation found = validate(scenario, options);
    check_points(scenario, options, found);
    CHECK(found.disk.empty() == paced);
    CHECK_THAT(found.warnings.front(), Contains("not of this machine"));

    const auto json = nlohmann::json::parse(validation_json(found));
    CHECK(json["points"].size() == found.points.size());
    CHECK(json["same_work"] == true);
    const std::string table = validation_table(found);
    CHECK_THAT(table, Contains("by operation") && Contains("WARNING"));
    const std::string last = table.substr(table.rfind('\n', table.size() - 2) + 1);
    CHECK_THAT(last, (Contains("layer makespan off by") || Contains("too noisy to say")) &&
                         Contains("hits and bytes equal"));
  }
}

namespace {

/// The tiny model on a GPU that the CPU plays; without systems that compress.
Scenario linked_scenario() {
  Scenario s = small_scenario();
  s.workload.output_tokens = 12;
  s.device.gpu.emplace();
  s.device.gpu->stand_in = true;
  GpuMemory& own = s.device.gpu->own.emplace();
  own.total.value = Bytes(1e9);
  own.link.to_device.value = own.link.to_host.value = Curve::affine(2e-6, 5e9);
  SystemConfig system = plain_system("smoe");
  system.routing = {"smoe", {{"alpha", 0.6}}};
  system.cache.name = "score-average";
  system.execution.name = "cpu-assisted";
  SystemConfig cpu_only = plain_system("cpu-only"), gpu_only = plain_system("gpu-only");
  cpu_only.cache.name = gpu_only.cache.name = "lru";
  cpu_only.execution.name = "cpu-only";
  SystemConfig held = plain_system("held"), popular = plain_system("popular");
  held.cache.name = "fixed-layers";
  popular.cache.name = "fixed-popular";
  popular.execution.name = "fiddler";
  s.systems = {system, cpu_only, gpu_only, held, popular};
  return s;
}

}  // namespace

TEST_CASE("validation: on a GPU that the CPU plays both runs load, leave and substitute the same experts",
          "[long]") {
  const test::ScratchFolder folder;
  Scenario scenario = linked_scenario();
  ValidationOptions options = small_options(folder / "stores");
  if (kFewerRuns) options.repeats = 1;
  for (const bool cpu_now : {false, true}) {
    options.cpu_now = cpu_now;
    if (kFewerRuns && cpu_now) scenario.systems.resize(1);  // before each timed run the CPU is timed
    const Validation found = validate(scenario, options);
    REQUIRE(found.discrete);
    REQUIRE(found.points.size() == 3 * scenario.systems.size());  // neither codecs nor threads
    CHECK(found.same_work());
    std::uint64_t loaded = 0, on_cpu = 0;
    for (const ValidationPoint& point : found.points) {
      INFO(point.system << " " << point.difference);
      CHECK(point.same_work());
      CHECK(point.simulated_bytes == static_cast<double>(point.read_bytes));
      CHECK(point.measured_tpot.size() == options.repeats);
      if (point.system == "cpu-only") CHECK((point.loaded == 0 && point.read_bytes == 0));
      if (point.system == "gpu-only") CHECK(point.on_cpu == 0);
      loaded += point.loaded;
      on_cpu += point.on_cpu;
    }
    if (scenario.systems.size() > 1) CHECK((loaded > 0 && on_cpu > 0));
    CHECK(found.cpu_ratios.contains("copy") == cpu_now);
    CHECK_FALSE(found.cpu_ratios.contains("recover"));
    CHECK_THAT(validation_table(found), Contains("substituted") && Contains("host memory"));
    CHECK(nlohmann::json::parse(validation_json(found))["points"][0].contains("on_cpu"));
  }
  options.gpu = true;
  CHECK_THAT(refusal(scenario, options), Contains("gpu.stand_in"));
  Scenario compressed = scenario;
  compressed.systems.push_back(small_scenario().systems[0]);
  CHECK_THAT(refusal(compressed), Contains("weights: whole"));
}

TEST_CASE("validation: without dense parts, checks and repeats less is run") {
  const test::ScratchFolder folder;
  const Scenario scenario = small_scenario();
  ValidationOptions options = small_options(folder / "stores");
  options.dense = options.verify = false;
  options.repeats = 1;
  options.threads = {1};
  options.codecs = {"fixed3"};
  const Validation found = validate(scenario, options);
  check_points(scenario, options, found);
  for (const auto& [key, times] : found.operations())
    if (std::get<OpKind>(key) == OpKind::dense)
      for (const double seconds : times.predicted)
        CHECK(seconds == Approx(scenario.device.cpu.dispatch.value.value()));
}

TEST_CASE("validation: the CPU is timed before each timed run, what is not simulated aside", "[long]") {
  const test::ScratchFolder folder;
  const Scenario scenario = small_scenario();
  ValidationOptions options = small_options(folder / "stores");
  options.cpu_now = true;
  options.dense = false;
  options.repeats = 2;
  options.threads = {1};
  const Validation found = validate(scenario, options);
  check_points(scenario, options, found);
  const std::size_t runs = 2 * options.repeats * scenario.systems.size() * (found.points.size() / 6);
  std::size_t all = 0;
  for (const char* what : {"decompress fixed3", "decompress lz4hc", "recover", "experts"}) {
    REQUIRE(found.cpu_ratios.contains(what));
    for (const double ratio : found.cpu_ratios.at(what)) CHECK(ratio > 0);
    all += found.cpu_ratios.at(what).size();
  }
  CHECK(all == 3 * runs);  // of decompression one codec each
  CHECK(found.cpu_ratios.size() == 4);
  CHECK(found.hand_over_ratios.size() == runs);
  for (const double ratio : found.hand_over_ratios) CHECK(ratio > 0);
  CHECK_THAT(validation_table(found), Contains("hand-over (in no prediction)"));
  CHECK(nlohmann::json::parse(validation_json(found))["hand_over_ratios"].size() == runs);
}

TEST_CASE("validation: a CPU that is slower by some factor takes that much longer for everything of a kind") {
  DeviceProfile d = cpu_profile();
  d.codecs["curve"].decompress = Sourced<Curve>{Curve({{1e3, 1e-6}, {1e6, 9e-5}}), ""};
  d.cpu.experts.push_back({64, 48, 3, {Curve({{1, 3e-6}}), ""}});
  const ExpertShape shape{32, 48, 3};
  const DeviceProfile now = scaled_cpu(d, "curve", shape, {1.5, 2, 0.5, 4});
  for (const double bytes : {1e3, 5e4, 3e6}) {
    CHECK(now.codecs.at("curve").decompress_seconds(Bytes(bytes)).value() ==
          Approx(1.5 * d.codecs.at("curve").decompress_seconds(Bytes(bytes)).value()));
    CHECK(now.cpu.recover->value(bytes) == Approx(2 * d.cpu.recover->value(bytes)));
  }
  const DeviceProfile other = scaled_cpu(d, "fixed3", shape, {1.5, 2, 0.5, 4});
  CHECK(other.codecs.at("fixed3").decompress_seconds(Bytes(1e6)).value() ==
        Approx(1.5 * d.codecs.at("fixed3").decompress_seconds(Bytes(1e6)).value()));
  CHECK(now.codecs.at("fixed3") == d.codecs.at("fixed3"));
  CHECK(now.cpu.experts[0].seconds.value(3) == Approx(0.5 * d.cpu.experts[0].seconds.value(3)));
  CHECK(now.cpu.experts[1] == d.cpu.experts[1]);  // of another shape
  CHECK(d.cpu.bandwidth->value / now.cpu.bandwidth->value == Approx(4));
  CHECK(d.cpu.peak->value / now.cpu.peak->value == Approx(4));
  CHECK(now.ssd == d.ssd);
  CHECK(now.cpu.dispatch == d.cpu.dispatch);  // as the profile says
  d.gpu.emplace();
  d.gpu->stand_in = true;
  d.gpu->own.emplace().link.to_device.value = Curve::affine(1e-6, 1e9);
  d.gpu->own->link.to_host.value = Curve::affine(2e-6, 1e9);
  CpuRatios copies;
  copies.copies = 3;
  const LinkProfile link = scaled_cpu(d, "", shape, copies).gpu->own->link;
  CHECK(link.to_device.value(1e6) == Approx(3 * 1001e-6));
  CHECK(link.to_host.value(1e6) == Approx(3 * 1002e-6));
}

TEST_CASE("validation: what cannot be compared is refused before anything is packed") {
  const Scenario good = small_scenario();
  Scenario s = good;
  s.systems[1].page_cache = true;
  CHECK_THAT(refusal(s), Contains("'lru'") && Contains("page_cache: false"));
  s = good;
  s.systems[0].prefetch.name = "layer-window";
  CHECK_THAT(refusal(s), Contains("prefetches"));
  s = good;
  s.model.stored = StoredWeights::uniform("q8_0", 8.5 / 8);
  CHECK_THAT(refusal(s), Contains("q8_0") && Contains("weights: bf16"));
  s = good;
  s.systems[1].shards = 4;
  CHECK_THAT(refusal(s), Contains("3 and 4 shards"));
  s = good;
  s.device.codecs.erase("lz4hc");
  CHECK_THAT(refusal(s), Contains("lz4hc"));
  ValidationOptions options = small_options("nowhere");
  options.threads = {1, 3};
  CHECK_THAT(refusal(good, options), Contains("--threads 3") && Contains("2 cores"));
  options = small_options("nowhere");
  options.budgets = {Bytes(1e3)};
  CHECK_THAT(refusal(good, options), Contains("too small"));
  options.budgets = {Bytes(5e8), Bytes(5e8)};
  CHECK_THAT(refusal(good, options), Contains("given twice"));
  s = good;
  s.device.cpu.experts.clear();
  options = small_options("nowhere");
  options.dense = false;
  CHECK_THAT(refusal(s, options), Contains("cpu.experts"));
  CHECK_FALSE(std::filesystem::exists("nowhere"));
}

TEST_CASE("validation: a budget of more memory than there is is refused") {
  const test::ScratchFolder folder;
  Scenario s = small_scenario();
  s.device.memory.total.value = Bytes(1e15);
  ValidationOptions options = small_options(folder / "stores");
  options.budgets = {Bytes(1e14)};
  CHECK_THAT(refusal(s, options), Contains("--budgets") && Contains("of memory"));
  CHECK_FALSE(std::filesystem::exists(folder / "stores"));  // before anything is packed
}

TEST_CASE("validation: a profile's GPU is left aside if its CPU is described") {
  std::vector<std::string> notes;
  DeviceProfile d = cpu_profile();
  CHECK(cpu_side(d, notes) == d);
  d.gpu = {{FlopsPerSecond(1e10), ""}, {0.5, ""}, {Seconds(2e-6), ""}};
  CHECK_FALSE(cpu_side(d, notes).gpu);
  CHECK(notes.size() == 1);
  d.cpu.recover.reset();
  CHECK_THAT(message_of([&] { cpu_side(d, notes); }), Contains("cpu.recover"));
}

TEST_CASE("validation: codecs go by the profile's name for the same level") {
  DeviceProfile d = cpu_profile();
  CHECK(codec_in_profile(d, "lz4hc") == "lz4hc");
  CHECK(codec_in_profile(d, "lz4hc-9") == "lz4hc");
  d.codecs["lz4hc-12"] = d.codecs["lz4hc"];
  CHECK(codec_in_profile(d, "lz4hc-12") == "lz4hc-12");
  CHECK_THAT(message_of([&] { codec_in_profile(d, "zstd"); }), Contains("no speed of codec 'zstd'"));
}

TEST_CASE("validation: the store is packed once, and not believed when it is another") {
  const test::ScratchFolder folder;
  const Architecture model = small_scenario().model;
  const PackOptions how{"fixed3", 3, 1, {}};
  std::filesystem::path data;
  {
    ValidationStore store(model, 1, folder / "stores", how);
    CHECK_FALSE(store.was_there());
    CHECK(store.ratio() ==
          Approx(report_on(store.chunks()).size.plane_ratio()));  // counted by another program
    data = store.chunks().data_path();
  }
  CHECK(ValidationStore(model, 1, folder / "stores", how).was_there());
  CHECK_FALSE(ValidationStore(model, 2, folder / "stores", how).was_there());  // other weights, another store

  const std::string bytes = test::read_bytes(data);
  std::string flipped = bytes;
  flipped[5] ^= 1;
  test::write_bytes(data, flipped);
  CHECK_THAT(message_of([&] { ValidationStore(model, 1, folder / "stores", how); }), Contains("chunks.data"));
  test::write_bytes(data, bytes.substr(0, bytes.size() / 2));
  CHECK_THAT(message_of([&] { ValidationStore(model, 1, folder / "stores", how); }), Contains("chunks.data"));

  // Another model's store under our store's name.
  std::filesystem::remove_all(data.parent_path());
  Architecture other = model;
  other.name = "other-model";
  ValidationStore made(other, 1, folder / "others", how);
  std::filesystem::rename(made.chunks().data_path().parent_path(), data.parent_path());
  CHECK_THAT(message_of([&] { ValidationStore(model, 1, folder / "stores", how); }),
             Contains("is a store of other-model") && Contains("remove it"));
}

TEST_CASE("validation: a flipped bit that the store's opening misses ends the run that compares checksums") {
  const test::ScratchFolder folder;
  const Scenario scenario = small_scenario();
  ValidationOptions options = small_options(folder / "stores");
  options.threads = {1};
  options.repeats = 1;
  if (kFewerRuns) options.codecs = {"fixed3"};
  validate(scenario, options);
  for (const auto& entry : std::filesystem::directory_iterator(folder / "stores")) {
    const auto data = entry.path() / kStoreDataName;
    if (!std::filesystem::exists(data)) continue;
    std::string bytes = test::read_bytes(data);
    // The SM-chunk of the last tensor, which is in no sample: its first byte follows the last E-chunk.
    const ChunkStoreReader store(entry.path());
    bytes[store.sign_mantissa_chunk(place_of(store.weights(), store.weights().tensors() - 1)).offset] ^= 1;
    test::write_bytes(data, bytes);
  }
  CHECK_THAT(refusal(scenario, options), Contains("checksum"));
}

TEST_CASE("validation: the paced profile is the pace's equation") {
  const test::ScratchFolder folder;
  ValidationStore store(small_scenario().model, 1, folder / "stores", {"fixed3", 3, 1, {}});
  ValidationStorage storage(store, Pace{BytesPerSecond(250e6), Seconds(30e-6)});
  SsdProfile device = cpu_profile().ssd;
  device.slowdown_while_decompressing.value = 3;
  const SsdProfile ssd = storage.profile(device, 3);
  for (const double bytes : {0.0, 1.0, 4096.0, 1e6, 3e8})
    CHECK(ssd.read.value(bytes) == Approx(30e-6 + bytes / 250e6));
  CHECK(ssd.slowdown_while_decompressing.value == 1);
  CHECK(ssd.readers.value == std::vector<double>{1, 1, 1});
}

TEST_CASE(
    "validation: what reads cost the CPU is timed before each timed run on the disk, else it is nothing") {
  const test::ScratchFolder folder;
  Scenario scenario = small_scenario();
  scenario.device.cpu.sharing = {{1, 1}, ""};
  ValidationOptions options = small_options(folder / "stores");
  options.verify = false;
  options.repeats = 2;
  options.threads = {1};
  options.codecs = {"fixed3"};
  // Paced and as calibrated, predictions rest on equations alone.
  const Validation without = validate(scenario, options);
  scenario.device.cpu.slowdown_while_reading = {100, ""};
  const Validation paced = validate(scenario, options);
  REQUIRE(paced.points.size() == without.points.size());
  for (std::size_t i = 0; i < paced.points.size(); ++i)
    CHECK(paced.points[i].predicted_tpot == without.points[i].predicted_tpot);
  CHECK(paced.reading_ratios.empty());
  options.cpu_now = true;
  options.pace.reset();
  const Validation disk = validate(scenario, options);
  const std::size_t runs = options.repeats * disk.points.size();
  constexpr std::size_t kRatiosOfRun = 2 * 3;  // of decompression and of an expert, a burst each
  CHECK(disk.reading_ratios.size() == kRatiosOfRun * runs);
  for (const double ratio : disk.reading_ratios) CHECK(ratio > 0);
  CHECK_THAT(validation_table(disk), Contains("beside reads, over alone"));
  CHECK(nlohmann::json::parse(validation_json(disk))["reading_ratios"].size() == kRatiosOfRun * runs);
  options.cpu_now = false;  // as calibrated
  CHECK(validate(scenario, options).reading_ratios.empty());
}

TEST_CASE("validation: runs that did not do the same are said to, in table and JSON") {
  ValidationPoint same;
  same.codec = "fixed3";
  same.system = "lru";
  same.predicted_layers = {1, 2};
  same.measured_layers = {1, 4};
  same.predicted_tpot = {3};
  same.measured_tpot = {4};
  same.predicted_hits[1] = same.measured_hits[1] = 7;
  same.named_bytes = same.read_bytes = 100;
  CHECK(same.same_work());
  Validation v;
  v.points = {same};
  CHECK(v.layer_error().median == 0.25);  // 0 and 1/2
  CHECK(v.tpot_error().bias == -0.25);
  CHECK_THAT(validation_table(v), Contains("hits and bytes equal"));

  const auto said = [&](auto change) {
    v.points = {same};
    change(v.points.front());
    CHECK_FALSE(v.same_work());
    CHECK(nlohmann::json::parse(validation_json(v))["same_work"] == false);
    const std::string table = validation_table(v);
    CHECK_THAT(table, Contains("NOT THE SAME WORK: fixed3") && Contains("NOT EQUAL"));
    return table;
  };
  CHECK_THAT(said([](ValidationPoint& p) { ++p.measured_hits[2]; }), Contains("other hits"));
  CHECK_THAT(said([](ValidationPoint& p) { p.read_bytes = 99; }), Contains("99 read"));
  CHECK_THAT(said([](ValidationPoint& p) { p.difference = "another graph"; }), Contains("another graph"));
}

}  // namespace moelab::validation_test

// Reading scenarios and systems: what is good loads, and what is wrong is said at once, with its place.
#include "sim/scenario.hpp"
#include "models/yaml_reader.hpp"

#include <catch2/catch.hpp>
#include <fstream>
#include <numeric>

#include "models/config_store.hpp"
#include "sim/run.hpp"
#include "tests/sim/scenario_files.hpp"
#include "tests/sim/small_systems.hpp"

namespace moelab::scenario_test {

using namespace moelab::test;

TEST_CASE("scenario: every embedded scenario and system loads") {
  REQUIRE(config_names("scenarios").size() >= 3);
  for (const std::string& name : config_names("scenarios")) {
    INFO(name);
    const Scenario s = load_scenario(name);
    CHECK(s.name == name);
    CHECK_FALSE(s.question.empty());
    CHECK_FALSE(s.systems.empty());
    // All rivals stand on one stated base, where systems are compared: one model is tiny, two scenarios are
    // held against hardware.
    const bool compares = name != "recorded-default" && !name.starts_with("validate-");
    CHECK(s.runtime.has_value() == compares);
    for (const SystemConfig& system : s.systems) {
      INFO(system.name);
      REQUIRE(system.runtime.has_value() == s.runtime.has_value());
      if (s.runtime) CHECK(system.runtime->name == s.runtime->name);
    }
  }
  REQUIRE(config_names("systems").size() >= 14);
  for (const std::string& name : config_names("systems")) {
    INFO(name);
    const ConfigText config = find_config("systems", name);
    Problems problems;
    const YamlDocument document = YamlDocument::from_text(config.name, config.text, problems);
    const SystemConfig system = read_system(document);
    CHECK_NOTHROW(problems.throw_if_any());
    CHECK(system.name == name);
    CHECK_FALSE(system.title.empty());
    CHECK_FALSE(system.source.empty());
  }
}

TEST_CASE("scenario: a scenario is read as written") {
  const Files files;
  CHECK(all_of(files.problems()) == "");
  const Scenario s = files.load();
  CHECK(s.name == "tiny-scenario");
  CHECK(s.model.name == "tiny");
  CHECK(s.model.moe().experts == 4);
  CHECK(s.device.name == "tiny-device");
  CHECK(s.budget == Bytes(300e3));
  CHECK(s.seed == 3);
  CHECK(s.workload.batch == 2);
  CHECK(s.workload.requests == 4);
  CHECK(s.workload.prompt_tokens == 3);
  CHECK(s.workload.output_tokens == 5);
  REQUIRE(s.systems.size() == 2);
  const SystemConfig& pooled = s.systems[0];
  CHECK(pooled.name == "pooled");
  CHECK(pooled.title == "pooled");
  CHECK(pooled.compressed);
  CHECK(pooled.codec == "lz");
  CHECK(pooled.shards == 2);
  CHECK(pooled.threads == 2);
  CHECK_FALSE(pooled.worker_reads);
  CHECK(pooled.page_cache);
  CHECK(pooled.schedule.name == "cache-affinity");
  CHECK(pooled.cache.name == "zipmoe");
  CHECK(pooled.pools == std::array<bool, kStates>{true, false, true, false, false});
  CHECK(pooled.planning.name == "fixed");
  CHECK(pooled.ratios == std::array<double, kStates>{0.5, 0, 0.5, 0, 0});
  const SystemConfig& whole = s.systems[1];
  CHECK_FALSE(whole.compressed);
  CHECK(whole.shards == 0);
  CHECK_FALSE(whole.page_cache);
  CHECK(whole.cache.name == "lru");
  CHECK(whole.kept_as == State::F);
  CHECK(whole.schedule.name == "fifo");
  CHECK(whole.prefetch.name == "none");
}

TEST_CASE("scenario: the buffer for fetches is given in experts or in layers of the model") {
  Files files;
  files.change("scenario.yaml", "cache: {policy: lru}",
               "prefetch: {policy: layer-window, depth: 1, buffer: 3}\n"
               "  - name: layers\n"
               "    weights: whole\n"
               "    page_cache: false\n"
               "    prefetch: {policy: layer-window, depth: 1, buffer_layers: 2}");
  files.change("pooled.yaml", "ratios: {F: 0.5, S: 0.5}", "ratios: {F: 0.5, S: 0.5}, reads: page-cache");
  const Scenario s = files.load();
  REQUIRE(s.systems.size() == 3);
  CHECK(s.systems[1].prefetch_buffer == 3);
  CHECK(s.systems[1].prefetch.parameters.at("depth") == 1);
  CHECK(s.systems[2].prefetch_buffer == 2 * 4);
  CHECK(s.systems[0].plan_for_page_cache);
}

TEST_CASE("scenario: a cache is a layer's or the model's, and plans have readings") {
  Files files;
  const Scenario plain = files.load();
  CHECK(plain.systems[1].cache_domain == CacheDomain::policy);
  CHECK_FALSE((plain.systems[0].plan_ranks_by_batch || plain.systems[0].plan_model_k));
  files.change("scenario.yaml", "cache: {policy: lru}", "cache: {policy: lru, domain: model}");
  files.change("pooled.yaml", "ratios: {F: 0.5, S: 0.5}", "ratios: {F: 0.5, S: 0.5}, ranks: batch, k: model");
  const Scenario s = files.load();
  CHECK(s.systems[1].cache_domain == CacheDomain::model);
  CHECK(s.systems[0].plan_ranks_by_batch);
  CHECK(s.systems[0].plan_model_k);
  CHECK(cache_spans_model("lru", CacheDomain::model));
  CHECK_FALSE(cache_spans_model("lru", CacheDomain::policy));
  CHECK(cache_spans_model("moe-infinity", CacheDomain::policy));
}

TEST_CASE("scenario: what is wrong is said with file and line") {
  struct Case {
    std::string file, was, becomes, message;
  };
  const Case bad = GENERATE(values<Case>({
      // Keys and values of the scenario itself.
      {"scenario.yaml", "budget: 300 kB\n", "", "missing key 'budget'"},
      {"scenario.yaml", "model: tiny.yaml\n", "", "missing key 'model'"},
      {"scenario.yaml", "name: tiny-scenario\n", "", "missing key 'name'"},
      {"scenario.yaml", "seed: 3", "sead: 3", "unknown key 'sead' (did you mean 'seed'?)"},
      {"scenario.yaml", "seed: 3", "seed: 3\nseed: 4", "seed"},
      {"scenario.yaml", "seed: 3", "seed: -1", "'-1' for seed"},
      {"scenario.yaml", "budget: 300 kB", "budget: 300", "'300' for budget"},
      {"scenario.yaml", "budget: 300 kB", "budget: 300 us", "'300 us' for budget"},
      {"scenario.yaml", "budget: 300 kB", "budget: 0 B", "'0 B' for budget"},
      {"scenario.yaml", "batch: 2", "batch: 0", "'0' for workload.batch"},
      {"scenario.yaml", "batch: 2", "batsh: 2", "unknown key 'batsh' in workload (did you mean 'batch'?)"},
      {"scenario.yaml", "output_tokens: 5", "output_tokens: 5\n  skew: -1", "'-1' for workload.skew"},
      {"scenario.yaml", "systems:\n  - pooled.yaml", "systems:\n  - pooled.yaml\n  - pooled.yaml",
       "system 'pooled' is listed twice"},
      {"scenario.yaml", "name: inline", "name: pooled", "system 'pooled' is listed twice"},
      // What it names.
      {"scenario.yaml", "model: tiny.yaml", "model: mixtral-8x7", "did you mean 'mixtral-8x7b'?"},
      {"scenario.yaml", "model: tiny.yaml", "model: none.yaml", "no model file 'none.yaml'"},
      {"scenario.yaml", "device: device.yaml", "device: jetson-agx-orin-16gb",
       "did you mean 'jetson-agx-orin-"},
      {"scenario.yaml", "- pooled.yaml", "- zipmo", "did you mean 'zipmoe'?"},
      {"scenario.yaml", "- pooled.yaml", "- none.yaml", "no system file 'none.yaml'"},
      // Systems.
      {"scenario.yaml", "cache: {policy: lru}", "cache: {policy: lrru}", "(did you mean 'lru'?)"},
      {"scenario.yaml", "cache: {policy: lru}", "cache: {policy: lru, keep_as: C}",
       "weights stored whole have no planes"},
      {"scenario.yaml", "cache: {policy: lru}", "cache: {policy: lru, keep_as: M}", "'M' for"},
      {"scenario.yaml", "cache: {policy: lru}", "cache: {policy: lru, domain: modl}",
       "did you mean 'model'?"},
      {"scenario.yaml", "cache: {policy: lru}", "cache: {policy: belady, domain: model}",
       "cache 'belady' leaves no choice: it has one domain a layer"},
      {"scenario.yaml", "cache: {policy: lru}", "cache: {policy: moe-infinity, domain: layer}",
       "cache 'moe-infinity' leaves no choice: it has one domain for the whole model"},
      {"pooled.yaml", "ratios: {F: 0.5, S: 0.5}", "ratios: {F: 0.5, S: 0.5}, ranks: batsh",
       "did you mean 'batch'?"},
      {"pooled.yaml", "ratios: {F: 0.5, S: 0.5}", "ratios: {F: 0.5, S: 0.5}, k: modle",
       "'modle' for planning.k"},
      {"scenario.yaml", "cache: {policy: lru}", "cache: {policy: moe-infinity, epsilon: 2}", "'2' for"},
      {"scenario.yaml", "cache: {policy: lru}", "cache: {policy: lru, size: 2}", "unknown key 'size'"},
      {"scenario.yaml", "cache: {policy: lru}", "prefetch: {policy: layer-window}", "missing key 'buffer'"},
      {"scenario.yaml", "cache: {policy: lru}", "prefetch: {policy: layer-window, depth: -1, buffer: 2}",
       "'-1' for"},
      {"scenario.yaml", "page_cache: false", "page_cache: no idea", "page_cache"},
      {"scenario.yaml", "page_cache: false", "page_cache: false\n    threads: 4", "unknown key 'threads'"},
      {"scenario.yaml", "page_cache: false", "page_cache: false\n    host_overhead: {per_layer: 1 ms}",
       "missing key 'source' in systems.1.host_overhead"},
      {"pooled.yaml", "codec: lz", "codec: lz5", "uses codec 'lz5', which device 'tiny-device' has no speed"},
      {"pooled.yaml", "codec: lz\n", "", "missing key 'codec'"},
      {"pooled.yaml", "threads: 2", "threads: 5",
       "wants 5 decompression threads, but device 'tiny-device' has 4 cores"},
      {"pooled.yaml", "shards: 2", "shards: 0", "'0' for shards"},
      {"pooled.yaml", "pools: [F, S]", "pools: [F, S, M]", "'M' is no pool; expected F, C, S or E"},
      {"pooled.yaml", "planning: {policy: fixed, ratios: {F: 0.5, S: 0.5}}\n", "",
       "a cache with pools needs 'planning' to size them"},
      {"pooled.yaml", "ratios: {F: 0.5, S: 0.5}", "ratios: {F: 0.5, S: 0.4}",
       "the shares add up to 0.900000; expected 1"},
      {"pooled.yaml", "ratios: {F: 0.5, S: 0.5}", "ratios: {F: 0.5, E: 0.5}",
       "a share for pool E, which cache.pools does not list"},
      {"pooled.yaml", "policy: cache-affinity", "policy: cache-afinity", "did you mean 'cache-affinity'?"},
      {"pooled.yaml", "weights: compressed", "weights: zipped", "'zipped' for weights"},
      {"device.yaml", "lz: {ratio: {value: 0.5, source: test}, decompress: {value: 400 MB/s, source: test}}",
       "{}", "uses codec 'lz', which device 'tiny-device' has no speed"},
      // The files it names are read as strictly.
      {"tiny.yaml", "hidden: 32", "hiden: 32", "missing key 'hidden'"},
      {"tiny.yaml", "vocab: 100", "vocab: 100\nbytes_per_weight: 0.5", "compresses BF16 weights"},
      {"device.yaml", "launch: {value: 2 us, source: test}", "launch: {value: 2 us, source: tst}",
       "'tst' is not among the profile's sources"},
  }));
  Files files;
  int line = files.change(bad.file, bad.was, bad.becomes);
  INFO(bad.becomes);
  const std::vector<Problem> problems = files.problems();
  INFO(all_of(problems));
  // Missing keys are at their map, duplicates at the second place, systems' problems with the device at the
  // system in the scenario.
  std::string file = bad.file;
  const bool at_map =
      bad.message.starts_with("missing key") || bad.message.find("needs '") != std::string::npos;
  const bool at_second = bad.message.find("twice") != std::string::npos || bad.becomes == "seed: 3\nseed: 4";
  if (bad.message.find("'tiny-device'") != std::string::npos || bad.message.starts_with("compresses")) {
    file = "scenario.yaml";
    line = 12;
  }
  CHECK(says(problems, file, at_map || at_second || bad.becomes.find('\n') != std::string::npos ? 0 : line,
             bad.message));
  for (const Problem& p : problems)
    if (says({p}, "", 0, bad.message)) CHECK(p.line > 0);
  // One mistake is one problem, but for keys that are missing under one name and unknown under another.
  if (bad.message.starts_with("missing key 'hidden'"))
    CHECK(problems.size() == 2);
  else
    CHECK(problems.size() == 1);
}

TEST_CASE("scenario: everything wrong is said at once") {
  Files files;
  const int budget = files.change("scenario.yaml", "budget: 300 kB", "budget: 300");
  const int batch = files.change("scenario.yaml", "batch: 2", "batch: none");
  const int lru = files.change("scenario.yaml", "policy: lru", "policy: lrru");
  const int threads = files.change("pooled.yaml", "threads: 2", "threads: 9");
  const int hidden = files.change("tiny.yaml", "hidden: 32", "hidden: -32");
  const std::vector<Problem> problems = files.problems();
  INFO(all_of(problems));
  CHECK(problems.size() == 5);
  CHECK(says(problems, "scenario.yaml", budget, "budget"));
  CHECK(says(problems, "scenario.yaml", batch, "batch"));
  CHECK(says(problems, "scenario.yaml", lru, "lrru"));
  CHECK(says(problems, "tiny.yaml", hidden, "hidden"));
  // The system fits its file, but not the device: said where it is listed, whatever else is wrong.
  CHECK(threads == 5);
  CHECK(says(problems, "scenario.yaml", 12, "wants 9 decompression threads"));
}

TEST_CASE("scenario: a model may be a GGUF file, in the formats that it holds") {
  const std::string file = std::string(MOELAB_SOURCE_DIR) + "/tests/models/tiny-qwen3moe.gguf";
  const Scenario s =
      load_scenario("smoe-deepseek-3080ti", {{"model", file}, {"budget", "1 GB"}}, {"llama-cpp"});
  CHECK(s.model.name == "tiny-qwen3moe");
  CHECK(total_bytes(s.model).value() ==
        Approx(6316672));  // of the file's tensors (tests/models/tiny_gguf.py)
  CHECK(scenario_of_document("again", s.document).model == s.model);
  try {
    load_scenario("smoe-deepseek-3080ti", {{"model", "no-such.gguf"}}, {"llama-cpp"});
    FAIL("no error");
  } catch (const InputError& error) {
    CHECK(std::string(error.what()).find("does not exist") != std::string::npos);
  }
}

TEST_CASE("scenario: no systems") {
  Files files;
  std::string text = kScenario.substr(0, kScenario.find("systems:"));
  files.write("scenario.yaml", text + "systems: []\n");
  CHECK(says(files.problems(), "scenario.yaml", 11, "no system is listed"));
  CHECK(files.problems().size() == 1);
  files.write("scenario.yaml", text);
  CHECK(says(files.problems(), "scenario.yaml", 0, "missing key 'systems'"));
  CHECK(files.problems().size() == 1);
}

TEST_CASE("scenario: more systems than can be are refused before any is looked for") {
  std::string many = "zipmoe";
  for (int i = 0; i < 1000; ++i) many += ",1";
  try {
    load_scenario("zipmoe-orin", {{"systems", "[" + many + "]"}});
    FAIL("is accepted");
  } catch (const InputError& e) {
    CHECK(e.problems().size() == 1);
    CHECK_THAT(e.what(), Catch::Contains("lists 1001 systems; at most 1000 can be"));
  }
}

TEST_CASE("scenario: of systems that are asked for, others keep nothing from being read") {
  Files files;
  files.write("pooled.yaml", kSystem + "no_such_key: 1\n");
  const std::string path = files.path("scenario.yaml");
  CHECK_THROWS_WITH(load_scenario(path), Catch::Contains("no_such_key"));
  const Scenario s = load_scenario(path, {}, {"inline"});
  REQUIRE(s.systems.size() == 1);
  CHECK(s.systems[0].name == "inline");
  CHECK(s.left_out == std::vector<std::string>{"pooled"});
  CHECK_NOTHROW(check_listed(s, {"inline", "pooled"}, "--system"));
  CHECK_THROWS_WITH(check_listed(s, {"poled"}, "--system"), Catch::Contains("did you mean 'pooled'"));
  CHECK_THROWS_WITH(load_scenario(path, {}, {"pooled"}), Catch::Contains("no_such_key"));
  // What is wrong elsewhere is said all the same, and an override of another system's parameter still reaches
  // it.
  CHECK_THROWS_WITH(load_scenario(path, {{"budgte", "1 GB"}}, {"inline"}),
                    Catch::Contains("budgte") && !Catch::Contains("no_such_key"));
  files.write("pooled.yaml", kSystem);
  CHECK_NOTHROW(load_scenario(path, {{"overrides.system.threads", "1"}}, {"inline"}));
}

TEST_CASE("scenario: a scenario that does not exist is named with the closest one") {
  CHECK_THROWS_WITH(load_scenario("zipmoe-orinn"), Catch::Contains("did you mean 'zipmoe-orin'?"));
  CHECK_THROWS_AS(load_scenario("nowhere/none.yaml"), InputError);
}

TEST_CASE("scenario: the page cache is not used unless a system says so") {
  Files files;
  files.write("plain.yaml", "name: plain\nweights: whole\n");
  CHECK_FALSE(files.load({{"systems", "[plain.yaml]"}}).systems[0].page_cache);
}

TEST_CASE("scenario: a trace must exist and fit the model") {
  Files files;
  const auto with_trace = [&](const std::string& file) {
    std::string text = kScenario;
    const std::string was = "  requests: 4\n  prompt_tokens: 3\n  output_tokens: 5\n";
    text.replace(text.find(was), was.size(), "  trace: " + file + "\n");
    files.write("scenario.yaml", text);
    return files.problems();
  };
  CHECK(says(with_trace("none.safetensors"), "none.safetensors", 0, ""));
  // A name too long for any file system is a missing file like others.
  CHECK(with_trace(std::string(5000, 'x')).size() == 1);

  Random random(1);
  const auto write = [&](const std::string& name, const ModelShape& shape) {
    const Architecture model = small_model(shape);
    write_routing_trace(random_trace(random, model, {{3, 4}, {2, 2}}), files.path(name));
  };
  write("good.safetensors", {.moe_layers = 2, .experts = 4, .top_k = 2});
  CHECK(all_of(with_trace("good.safetensors")) == "");
  // A relative path starts at the scenario's folder.
  CHECK(files.load().workload.trace_file == files.path("good.safetensors"));
  CHECK(scenario_trace(files.load()).requests().size() == 2);

  write("other.safetensors", {.moe_layers = 3, .experts = 5, .top_k = 1});
  const auto other = with_trace("other.safetensors");
  CHECK(other.size() == 3);
  CHECK(says(other, "other.safetensors", 0, "3 MoE layers, model 'tiny' has 2"));
  CHECK(says(other, "other.safetensors", 0, "5 experts a layer, model 'tiny' has 4"));
  CHECK(says(other, "other.safetensors", 0, "1 experts a token (k), model 'tiny' has 2"));

  write("encoder.safetensors", {.moe_layers = 1, .experts = 4, .top_k = 2, .encoder_layers = 1});
  CHECK(says(with_trace("encoder.safetensors"), "encoder.safetensors", 0, "model 'tiny' has no encoder"));
}

TEST_CASE("scenario: what only a look at the whole shows is said for every system, before anything runs") {
  Files files;
  // What does not fit is a result, that of each system.
  CHECK(files.problems({{"budget", "60 kB"}}).empty());
  const Scenario small = files.load({{"budget", "60 kB"}});
  for (const SystemConfig& system : small.systems)
    CHECK_THROWS_WITH(check_fits(run_system(small, system, scenario_trace(small))),
                      Catch::Contains("too small for system '" + system.name + "'"));
  // More than there is: the same for all systems, said once.
  const auto large = files.problems({{"budget", "5 MB"}});
  CHECK(large.size() == 1);
  CHECK(says(large, "", 0, "is more than device 'tiny-device' has to give"));
  // Prompts alone can be served: planning statistics come from a history of its own length.
  CHECK(files.problems({{"workload.output_tokens", "1"}}).empty());
  // A parameter that is in range and still no count.
  const auto half = files.problems({{"systems.1.prefetch", "{policy: layer-window, depth: 1.5, buffer: 2}"}});
  CHECK(half.size() == 1);
  CHECK(says(half, "", 0, "parameter 'depth' is 1.500000, expected a whole number"));
}

TEST_CASE("scenario: a generated trace has the workload's shape and the scenario's seed") {
  Files files;
  const Scenario s = files.load();
  const RoutingTrace trace = scenario_trace(s);
  CHECK(trace.requests().size() == 4);
  CHECK(trace.layers() == 2);
  CHECK(trace.experts() == 4);
  CHECK(trace.top_k() == 2);
  CHECK(trace.synthetic());
  for (const TraceRequest& q : trace.requests()) {
    CHECK(q.decode_begin - q.begin == 3);
    CHECK(q.end - q.decode_begin == 4);  // the first of five tokens comes with the prompt
  }
  const auto ids = [](const RoutingTrace& t) {
    std::vector<std::uint16_t> all;
    for (std::uint64_t row = 0; row < t.tokens(); ++row)
      for (const std::uint16_t e : t.experts_of(row, 0)) all.push_back(e);
    return all;
  };
  CHECK(ids(scenario_trace(s)) == ids(trace));
  CHECK(ids(scenario_trace(files.load({{"seed", "4"}}))) != ids(trace));
}

TEST_CASE("scenario: a workload may be drawn from a law, at the model's sizes") {
  Files files;
  const auto with = [&](const std::string& law) {
    std::string text = kScenario;
    const std::string was = "  output_tokens: 5\n";
    text.replace(text.find(was), was.size(), was + law);
    files.write("scenario.yaml", text);
    return files.problems();
  };
  CHECK(all_of(with("  law: debian-moe-8x32\n")) == "");
  const Scenario s = files.load();
  const RoutingTrace trace = scenario_trace(s);
  CHECK(trace.requests().size() == 4);
  CHECK(trace.layers() == 2);
  CHECK(trace.experts() == 4);
  CHECK(trace.top_k() == 2);
  CHECK(trace.synthetic());
  CHECK(trace.model() == s.model.name);
  CHECK(trace.provenance().find("resized from 8 layers of 32 experts") != std::string::npos);
  for (const TraceRequest& q : trace.requests()) {
    CHECK(q.decode_begin - q.begin == 3);
    CHECK(q.end - q.decode_begin == 4);
  }
  // The profile counts other requests: 64 of 1 prompt token and 63 decoded ones, k experts a layer each.
  const std::vector<double> profile = expert_profile(s, trace);
  REQUIRE(profile.size() == 8);
  CHECK(std::accumulate(profile.begin(), profile.begin() + 4, 0.0) == 64 * 64 * 2);

  CHECK(says(with("  law: debian-moe\n"), "scenario.yaml", 0, "debian-moe-8x32"));
  CHECK(says(with("  law: debian-moe-8x32\n  reuse: 0.3\n"), "scenario.yaml", 0,
             "'reuse' is the law's to say"));
  files.write("broken.yaml", "format: moelab-routing-law\nversion: 7\n");
  CHECK(!with("  law: broken.yaml\n").empty());
}

TEST_CASE("scenario: who decodes planes needs a speed for their codec") {
  Files files;
  CHECK(all_of(files.problems()) == "");
  files.change("pooled.yaml", "codec: lz\n", "codec: lz\ndecoder: fpga\n");
  CHECK(files.problems().size() == 1);
  CHECK(says(files.problems(), "pooled.yaml", 0, "'fpga' for decoder is not a known name (known: cpu, gpu)"));
  files.change("pooled.yaml", "decoder: fpga\n", "decoder: gpu\n");
  CHECK(says(files.problems(), "scenario.yaml", 0,
             "decodes in a GPU's own memory; device 'tiny-device' has none"));
  files.change("device.yaml", "  bandwidth: {value: 1 GB/s, source: test}\n", "");
  files.change("device.yaml", "launch: {value: 2 us, source: test}\n",
               "launch: {value: 2 us, source: test}\n"
               "  memory: {value: 2 MB, source: test}\n"
               "  reserve: {value: 0 B, source: test}\n"
               "  bandwidth: {value: 10 GB/s, source: test}\n"
               "  link:\n"
               "    to_device: {latency: 9 us, rate: 1 GB/s, source: test}\n"
               "    to_host: {latency: 9 us, rate: 1 GB/s, source: test}\n");
  CHECK(says(files.problems(), "scenario.yaml", 0, "has no speed for on its GPU (gpu.codecs)"));
  const std::string link = "to_host: {latency: 9 us, rate: 1 GB/s, source: test}\n";
  const auto give_codec = [&](const std::string& name, const std::string& ratio) {
    files.change("device.yaml", link,
                 link + "  codecs:\n    " + name + ":\n      ratio: {value: " + ratio +
                     ", source: test}\n      rate: {value: 20 GB/s, source: test}\n");
  };
  give_codec("lz4", "0.7");
  CHECK(says(files.problems(), "scenario.yaml", 0, "did you mean 'lz4'"));
  files.change("device.yaml", "    lz4:\n      ratio: {value: 0.7", "    lz:\n      ratio: {value: 0.5");
  CHECK(says(files.problems(), "scenario.yaml", 0, "codes more than exponents"));
  files.change("device.yaml", "ratio: {value: 0.5, source: test}\n      rate",
               "ratio: {value: 0.7, source: test}\n      rate");
  CHECK(all_of(files.problems()) == "");
  CHECK(files.load().systems.front().decoder == Decoder::gpu);
  files.change("pooled.yaml", "decoder: gpu\n", "");
  CHECK(all_of(files.problems()) == "");
  CHECK(files.load().systems.front().decoder == Decoder::cpu);
}

}  // namespace moelab::scenario_test

// Records of runs: that differences are seen, and that bytes are those of the chunks that reads name.
#include "hw/validate/run_record.hpp"

#include <catch2/catch.hpp>

#include "tests/hw/hardware_runs.hpp"

namespace moelab::run_record_test {

using namespace moelab::test;
using Catch::Matchers::Contains;

namespace {

/// A finished graph of a layer: reads of one expert's chunks, on the fast engine.
struct Layer {
  LabelledGraph graph;
  explicit Layer(std::uint32_t moe_layer, std::vector<OpLabel> labels) {
    graph.layer = moe_layer;
    for (const OpLabel& label : labels) {
      graph.graph.add(graph.graph.lane(0), 0.25);
      graph.labels.push_back(label);
    }
    const auto engine = engine::make_fast_engine();
    engine->add_resource("resource", 1);
    const auto play = [](engine::Engine& e, engine::Graph& g) -> engine::Process {
      e.submit(g, engine::kDemand);
      co_await e.finished(g);
    };
    engine::Process process = play(*engine, graph.graph);
    engine->spawn(process);
    engine->run();
  }
};

RunRecord record_of(std::uint32_t moe_layer, const std::vector<OpLabel>& labels, std::uint64_t pass = 3) {
  RunRecord record;
  const Layer layer(moe_layer, labels);
  record.finished(layer.graph, pass, 7);
  return record;
}

OpLabel read(OpKind kind, std::uint32_t expert, std::uint16_t tensor, std::uint16_t chunk) {
  return {kind, Tier::ssd, tensor, chunk, expert, 0};
}

}  // namespace

TEST_CASE("run record: times are the graph's, one operation after the other") {
  const RunRecord record = record_of(1, {read(OpKind::read_sm, 0, 0, 0), read(OpKind::read_e, 0, 0, 0)});
  REQUIRE(record.graphs().size() == 1);
  const RecordedGraph& graph = record.graphs().front();
  CHECK((graph.pass == 3 && graph.layer == 7 && graph.moe_layer == 1 && graph.has_experts()));
  CHECK(graph.seconds == 0.5);
  CHECK(graph.operations[1].seconds == 0.25);
}

TEST_CASE("run record: whatever is not the same is said") {
  const std::vector<OpLabel> labels = {read(OpKind::read_sm, 0, 0, 0), read(OpKind::read_e, 0, 0, 1)};
  const RunRecord record = record_of(1, labels);
  CHECK_FALSE(first_difference(record, record_of(1, labels)));
  std::vector<OpLabel> other = labels;
  other[1].expert = 2;
  CHECK_THAT(first_difference(record, record_of(1, other)).value(), Contains("read_e of expert 2"));
  other = labels;
  other[0].tier = Tier::page_cache;
  CHECK(first_difference(record, record_of(1, other)));
  other.pop_back();
  CHECK_THAT(first_difference(record, record_of(1, other)).value(), Contains("2 operations"));
  CHECK_THAT(first_difference(record, record_of(1, labels, 4)).value(), Contains("pass 4"));
  CHECK(first_difference(record, record_of(0, labels)));
  CHECK_THAT(first_difference(record, RunRecord()).value(),
             Contains("1 graphs") && Contains("0 on hardware"));
}

TEST_CASE("run record: other answers, and another use of the KV cache, are said") {
  RunRecord a, b;
  for (RunRecord* const record : {&a, &b}) record->answered({.request = 3});
  a.answered({.request = 4});
  CHECK_THAT(first_difference(a, b).value(), Contains("answered"));
  b.answered({.request = 4});
  CHECK_FALSE(first_difference(a, b));
  b.answered({.request = 4});  // a second time
  CHECK(first_difference(a, b));

  const ServingCounts same{.steps = 7, .rows = 9, .recomputed = 1, .swapped_out = 2, .dropped = 1};
  CHECK_FALSE(first_difference(same, same));
  const auto said = [&](auto change) {
    ServingCounts other = same;
    change(other);
    return first_difference(same, other).value();
  };
  CHECK_THAT(said([](ServingCounts& c) { c.steps = 8; }), Contains("7 steps") && Contains("8 on hardware"));
  CHECK_THAT(said([](ServingCounts& c) { c.rows = 8; }), Contains("9 rows in"));
  CHECK_THAT(said([](ServingCounts& c) { c.recomputed = 0; }), Contains("computed again"));
  CHECK_THAT(said([](ServingCounts& c) { c.swapped_out = 0; }), Contains("2 requests swapped out"));
  CHECK_THAT(said([](ServingCounts& c) { c.dropped = 0; }), Contains("1 requests dropped"));
  CHECK_THAT(said([](ServingCounts& c) { c.most_blocks = 5; }), Contains("5 on hardware"));
}

TEST_CASE("run record: named bytes are those that the store's chunks have") {
  const Architecture model = small_model({.moe_layers = 2, .experts = 3});
  const RunStore files(model, "lz4hc", 2);
  const ChunkStoreReader store(files.path);
  const auto elements = static_cast<std::uint64_t>(expert_tensor_weights(model, model.moe()));
  CHECK(bytes_named(record_of(1, {read(OpKind::read_sm, 2, 1, 0)}), store) == elements);  // a byte an element
  CHECK(bytes_named(record_of(1, {read(OpKind::read_tensor, 2, 1, 0)}), store) == 2 * elements);
  const auto chunk = store.exponent_chunk({1, 2, 1}, 1).record.stored_bytes;
  CHECK(bytes_named(record_of(1, {read(OpKind::read_e, 2, 1, 1), read(OpKind::decompress, 2, 1, 1)}),
                    store) == chunk);
}

}  // namespace moelab::run_record_test

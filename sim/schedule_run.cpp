#include "sim/schedule_run.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>

#include "models/json.hpp"
#include "models/units.hpp"

namespace moelab {
namespace {

constexpr std::int64_t kLargest = 100'000;

engine::Process run_once(engine::Engine& engine, LabelledGraph& g) {
  engine.submit(g.graph, engine::kDemand);
  co_await engine.finished(g.graph);
}

double seconds(const YamlMap& map, std::string_view key) {
  return map.number(key, {0, 1e9});
}

char symbol(OpKind kind) {
  switch (kind) {
    case OpKind::read_e:
      return 'e';
    case OpKind::decompress:
      return 'd';
    case OpKind::recover:
      return 'r';
    case OpKind::execute:
      return 'x';
    default:
      return 's';
  }
}

}  // namespace

LayerInstance read_layer_instance(const YamlDocument& document) {
  static const std::vector<std::string> kNames(kStateNames.begin(), kStateNames.end());
  const YamlMap root = document.root();
  LayerInstance in;
  in.threads = static_cast<std::uint32_t>(root.integer("threads", 1, 4096));
  in.shards = static_cast<std::uint32_t>(root.integer("shards", 0, 4096));
  in.sm_read_s = seconds(root, "sm_read_s");
  in.e_read_s = seconds(root, "e_read_s");
  in.decompress_s = seconds(root, "decompress_s");
  in.recover_s = seconds(root, "recover_s");
  std::int64_t operations = 0;
  for (const YamlNode& item : root.list("experts")) {
    const YamlMap map = item.map("an expert");
    LayerExpert e;
    e.id = static_cast<std::uint32_t>(map.integer("id", 0, 0x7fffffff));
    e.tensors = static_cast<std::uint32_t>(map.integer("tensors", 1, 64));
    e.state = static_cast<State>(map.choice("state", kNames));
    e.execute_s = seconds(map, "execute_s");
    map.done();
    if (in.shards == 0 && e.state != State::F && e.state != State::M)
      map.fail("state", "with shards 0 (tensors stored whole) an expert is in state F or M");
    operations += std::int64_t{e.tensors} * (2 + 2 * std::int64_t{in.shards});
    in.experts.push_back(e);
  }
  if (operations > kLargest)
    root.fail("experts", "the instance has more than " + std::to_string(kLargest) + " operations");
  root.done();
  return in;
}

ScheduleRun run_schedule(const LayerInstance& instance, std::string_view policy) {
  const std::unique_ptr<engine::Engine> engine = engine::make_fast_engine();
  ServerResources r{};
  r.io = engine->add_resource("io", 1);
  r.decompress = engine->add_resource("decompress", instance.threads);
  r.recover = engine->add_resource("recover", 1);
  r.experts = engine->add_resource("expert_compute", 1);
  LayerOrder order;
  make_schedule_policy(policy)->order(instance, order);

  // No tier: an instance's times are what they are, whatever reads beside.
  const std::vector<ExpertReads> reads(instance.experts.size(),
                                       {instance.sm_read_s, instance.e_read_s, 0, Tier::none, Tier::none});
  const std::vector<std::uint32_t> tokens(instance.experts.size(), 1);
  LabelledGraph g;
  LayerGraphBuilder(r, false, 0).build(instance, order, reads, tokens, g);
  engine::Process process = run_once(*engine, g);
  engine->spawn(process);
  engine->run();

  ScheduleRun run{std::string(policy), g.graph.finished_at(), layer_lower_bound(instance), {}};
  for (engine::OpIndex op = 0; op < g.graph.size(); ++op)
    run.operations.push_back(
        {g.labels[op], engine->resource_name(g.graph.resource(op)), g.graph.start(op), g.graph.end(op)});
  std::stable_sort(run.operations.begin(), run.operations.end(),
                   [](const ScheduledOp& a, const ScheduledOp& b) { return a.start_s < b.start_s; });
  return run;
}

std::string schedule_json(const ScheduleRun& run) {
  nlohmann::ordered_json j;
  j["policy"] = run.policy;
  j["makespan_s"] = run.makespan_s;
  j["lower_bound_s"] = run.bound.value();
  j["bounds_s"] = {{"io", run.bound.io_s},
                   {"decompress", run.bound.decompress_s},
                   {"execute", run.bound.execute_s},
                   {"longest_task", run.bound.longest_s}};
  j["operations"] = nlohmann::ordered_json::array();
  for (const ScheduledOp& op : run.operations)
    j["operations"].push_back({{"kind", to_string(op.label.kind)},
                               {"expert", op.label.expert},
                               {"tensor", op.label.tensor},
                               {"chunk", op.label.chunk},
                               {"resource", op.resource},
                               {"start_s", op.start_s},
                               {"end_s", op.end_s}});
  return j.dump(2) + "\n";
}

std::string schedule_text(const LayerInstance& instance, const ScheduleRun& run, int width) {
  const auto ms = [](double s) { return to_string(Seconds(s)); };
  std::string out = run.policy + ": makespan " + ms(run.makespan_s) + ", lower bound " +
                    ms(run.bound.value()) + " (I/O " + ms(run.bound.io_s) + ", decompression " +
                    ms(run.bound.decompress_s) + ", execution " + ms(run.bound.execute_s) +
                    ", longest task " + ms(run.bound.longest_s) + ")\n\n";
  // One row a slot; decompression threads are told apart by who is free.
  std::map<std::string, std::vector<std::pair<double, std::string>>> rows;
  const double scale = run.makespan_s > 0 ? width / run.makespan_s : 0;
  for (const ScheduledOp& op : run.operations) {
    auto& slots = rows[op.resource];
    auto slot =
        std::find_if(slots.begin(), slots.end(), [&](const auto& s) { return s.first <= op.start_s; });
    if (slot == slots.end())
      slot = slots.insert(slots.end(), {0, std::string(static_cast<std::size_t>(width), '.')});
    slot->first = op.end_s;
    const auto from = static_cast<std::size_t>(op.start_s * scale);
    const auto to = std::max(from + 1, static_cast<std::size_t>(op.end_s * scale));
    for (std::size_t c = from; c < std::min(to, slot->second.size()); ++c)
      slot->second[c] = c == from ? static_cast<char>('0' + op.label.expert % 10) : symbol(op.label.kind);
  }
  for (const char* name : {"io", "decompress", "recover", "expert_compute"})
    for (const auto& [free, row] : rows[name]) {
      std::array<char, 24> label{};
      std::snprintf(label.data(), label.size(), "%-15s|", name);
      out += label.data() + row + "|\n";
    }
  out += "(" + std::to_string(instance.experts.size()) +
         " experts; a digit starts an operation of expert id mod 10; s SM-chunk or tensor read, e E-chunk "
         "read, d decompression, r recovery, x execution)\n";
  return out;
}

}  // namespace moelab

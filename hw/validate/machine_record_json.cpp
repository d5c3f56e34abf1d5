// A machine's record as JSON.
#include "hw/validate/machine_record.hpp"
#include "models/json.hpp"

namespace moelab {
namespace {

using Json = nlohmann::ordered_json;

void add_text(Json& to, const char* key, const std::string& text) {
  if (!text.empty()) to[key] = text;
}

Json record_json(const RecordMachine& m) {
  Json json = Json::object();
  add_text(json, "processor", m.processor);
  json["cores"] = m.cores;
  if (m.memory) json["memory_bytes"] = m.memory->value();
  add_text(json, "kernel", m.kernel);
  add_text(json, "governor", m.governor);
  add_text(json, "filesystem", m.filesystem);
  add_text(json, "gpu", m.gpu);
  add_text(json, "driver", m.driver);
  return json;
}

Json record_json(const RecordWork& w) {
  Json budgets = Json::array();
  for (const Bytes budget : w.budgets) budgets.push_back(budget.value());
  Json json = {{"scenario", w.scenario},
               {"model",
                {{"name", w.model.name},
                 {"moe_layers", w.model.layers},
                 {"experts", w.model.experts},
                 {"top_k", w.model.top_k},
                 {"hidden", w.model.hidden},
                 {"width", w.model.width},
                 {"matrices", w.model.matrices}}},
               {"systems", w.systems},
               {"budgets_bytes", budgets},
               {"requests", w.requests},
               {"batch", w.batch}};
  if (w.prompt_tokens > 0) json["prompt_tokens"] = w.prompt_tokens;
  if (w.output_tokens > 0) json["output_tokens"] = w.output_tokens;
  json["storage"] = to_string(w.storage);
  if (w.pace)
    json["pace"] = {{"rate_bytes_per_s", w.pace->rate.value()}, {"latency_s", w.pace->latency.value()}};
  json["repeats"] = w.repeats;
  json["probed"] = w.probed;
  json["own_profile"] = w.own_profile;
  add_text(json, "profile_date", w.profile_date);
  return json;
}

Json record_json(const RecordLoad& load) {
  Json json = {{"before", load.before}};
  if (load.others_mean) json["others_mean_cores"] = *load.others_mean;
  if (load.others_most) json["others_most_cores"] = *load.others_most;
  json["speed_change"] = load.speed_change;
  return json;
}

Json record_json(const ErrorSummary& e) {
  return {{"count", e.count}, {"median", e.median}, {"p90", e.p90}, {"bias", e.bias}};
}

Json record_json(const RecordGroup& g) {
  Json json = Json::object();
  add_text(json, "codec", g.codec);
  if (g.threads > 0) json["threads"] = g.threads;
  json["points"] = g.points;
  json["too_noisy_points"] = g.too_noisy;
  if (g.layers) json["layer_error"] = record_json(*g.layers);
  if (g.tpot) json["tpot_error"] = record_json(*g.tpot);
  json["ordering"] = {
      {"pairs", g.ordering.pairs}, {"clear", g.ordering.clear}, {"agreeing", g.ordering.agreeing}};
  Json operations = Json::array();
  for (const RecordOperation& operation : g.operations)
    operations.push_back({{"kind", to_string(operation.kind)}, {"error", record_json(operation.error)}});
  json["operations"] = operations;
  return json;
}

}  // namespace

std::string machine_record_json(const MachineRecord& record) {
  Json groups = Json::array();
  for (const RecordGroup& group : record.groups) groups.push_back(record_json(group));
  const Json all = {{"format", kRecordFormat},
                    {"format_version", kRecordVersion},
                    {"date", record.date},
                    {"machine", record_json(record.machine)},
                    {"program",
                     {{"moelab", record.program.moelab},
                      {"compiler", record.program.compiler},
                      {"libraries", record.program.libraries}}},
                    {"work", record_json(record.work)},
                    {"load", record_json(record.load)},
                    {"groups", groups},
                    {"same_work", record.same_work}};
  return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace moelab

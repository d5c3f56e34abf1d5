#include "sim/scenario/speculation_config.hpp"

#include <cstdlib>
#include <vector>

#include "models/stored_weights.hpp"
#include "models/yaml_reader.hpp"
#include "policies/batching/batching.hpp"
#include "sim/scenario.hpp"

namespace moelab {
namespace {

constexpr std::int64_t kMostDrafts = 64;
/// By which the vocabularies of a draft model and its target may differ, most of it padding (llama.cpp:
/// SPEC_VOCAB_MAX_SIZE_DIFFERENCE).
constexpr int kVocabularyPadding = 128;

/// Why `draft` cannot draft for `target`; "" where it can.
std::string unfit_draft(const Architecture& draft, const Architecture& target) {
  if (draft.is_moe())
    return "model '" + draft.name +
           "' has experts, of which each drafted token would choose and load its own; expected a dense "
           "model, "
           "all of whose weights are in GPU memory";
  if (draft.has_encoder() || target.has_encoder())
    return "model '" + (draft.has_encoder() ? draft.name : target.name) +
           "' has an encoder: a draft model reads the tokens that its target reads, and no other model's "
           "encoded prompt. Expected 'draft: ngram' or a head";
  if (std::abs(draft.vocab - target.vocab) > kVocabularyPadding)
    return "model '" + draft.name + "' has a vocabulary of " + std::to_string(draft.vocab) +
           " tokens and model '" + target.name + "' one of " + std::to_string(target.vocab) +
           ": what one drafts the other cannot verify. Expected a model of the same family";
  return "";
}

void read_draft_model(const YamlMap& map, const Architecture& target,
                      const std::optional<Architecture>& draft, SpeculationConfig& s) {
  if (!draft) {  // a problem, reported already
    (void)map.has("weights");
    return;
  }
  s.model = *draft;
  s.model->stored = read_stored(map, "weights", *draft);
  if (const std::string why = unfit_draft(*draft, target); !why.empty()) map.fail("model", why);
}

void read_head(const YamlMap& draft, SpeculationConfig& s) {
  if (draft.has("bytes")) s.head = draft.quantity<Bytes>("bytes", above(Bytes(0)));
  if (draft.has("time")) s.time = draft.quantity<Seconds>("time", at_least(Seconds(0)));
  if (!draft.has("bytes") && !draft.has("time"))
    draft.fail("model",
               "says nothing of what drafts; expected 'draft: ngram', or a map with 'model' (a dense model's "
               "name), 'bytes' (what a head reads for a token) or 'time' (what a drafted token takes)");
  s.source = draft.text("source");
}

}  // namespace

SpeculationConfig read_speculation(const YamlMap& section, const Architecture& target,
                                   const std::optional<Architecture>& draft) {
  SpeculationConfig s;
  s.tokens = static_cast<std::uint32_t>(section.integer("tokens", 0, kMostDrafts));
  s.acceptance = section.number("acceptance", {0, 1});
  if (section.has("draft") && section.node("draft").is_map()) {
    const YamlMap map = section.map("draft");
    map.has("model") ? read_draft_model(map, target, draft, s) : read_head(map, s);
    map.done();
  } else {
    static const std::vector<std::string> kWithoutMap = {"ngram"};
    section.choice("draft", kWithoutMap, 0);
  }
  section.done();
  return s;
}

bool has_draft_model(const YamlMap& section) {
  return section.has("draft") && section.node("draft").is_map() && section.map("draft").has("model");
}

std::string cannot_speculate(const SystemConfig& system, const Scenario& s) {
  if (!s.speculation.any() || !system.batching) return "";
  const std::string who = "system '" + system.name + "' ";
  const BatchingConfig& batching = *system.batching;
  if (const BatchingPolicyEntry* policy = find_batching_policy(batching.policy.name);
      policy != nullptr && !policy->speculates)
    return who + "forms steps by '" + batching.policy.name +
           "', whose decode shares run one token: nothing would verify what is drafted. Expected a policy "
           "that "
           "speculates (static, continuous, vllm-v1), or 'speculation.tokens: 0'";
  return "";
}

std::string draft_title(const SpeculationConfig& s) {
  if (s.model) return "draft model " + title_with_weights(*s.model);
  if (s.time) return "a head that takes " + to_string(*s.time) + " a token";
  if (s.head > Bytes(0)) return "a head of " + to_string(s.head);
  return "n-gram look-up";
}

Bytes draft_bytes(const SpeculationConfig& s) {
  if (!s.any()) return Bytes(0);
  return s.model ? non_expert_bytes(*s.model) : s.head;
}

Bytes kv_bytes_per_token(const Scenario& s) {
  const Bytes target = kv_bytes_per_token(s.model);
  return s.speculation.any() && s.speculation.model ? target + kv_bytes_per_token(*s.speculation.model)
                                                    : target;
}

Bytes state_bytes_per_request(const Scenario& s) {
  const Bytes target = state_bytes_per_request(s.model);
  if (!s.speculation.any()) return target;
  const Bytes draft = s.speculation.model ? state_bytes_per_request(*s.speculation.model) : Bytes(0);
  return decode_rows(s.speculation) * (target + draft);
}

}  // namespace moelab

#include "sim/sweep/policy_comparison.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>

#include "models/json.hpp"
#include "models/nothing_fits.hpp"
#include "sim/run.hpp"
#include "sim/scenario.hpp"
#include "sim/scenario/policy_choice.hpp"
#include "sim/scenario/scenario_document.hpp"
#include "sim/scenario_trace.hpp"
#include "sim/sweep/compared_family.hpp"
#include "sim/sweep/compared_policies.hpp"
#include "sim/sweep/compared_routing.hpp"
#include "sim/sweep/point_workers.hpp"
#include "sim/sweep/refused_run.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {
namespace {

using Json = nlohmann::ordered_json;

/// The scenario with the system that is to be compared as its only one.
Scenario compared_scenario(const CompareSettings& asked) {
  std::vector<std::string> only;
  if (!asked.system.empty()) only.push_back(asked.system);
  Scenario s = asked.text ? scenario_of_document(asked.scenario, *asked.text, asked.settings, only)
                          : load_scenario(asked.scenario, asked.settings, only);
  check_listed(s, only, "--system");
  const ComparedFamily& family = compared_family(asked.family);
  if (s.cluster && !family.of_clusters)
    throw InputError(s.name, "is served by a cluster; expected a scenario on one machine, or --placement");
  const SystemConfig system = s.systems.front();
  const std::string why_not = family.why_not(system);
  if (!why_not.empty()) throw InputError("system " + system.name, why_not);
  s.systems.resize(1, system);
  return s;
}

/// A run: all by its place.
struct CompareAsk {
  std::size_t block = 0, policy = 0, seed = 0;
};

/// Of the experts used while decoding, how many were found and how.
struct FoundExperts {
  std::uint64_t used = 0;
  double hit_share = 0, parts_share = 0;
};

FoundExperts found_by(const Scenario& s, const RunResult& result) {
  FoundExperts found;
  if (s.cluster) {
    double local = 0, remote = 0;
    for (const ServerResult& server : result.cluster.servers) {
      local += server.local_activations;
      remote += server.remote_activations;
    }
    found.used = static_cast<std::uint64_t>(local + remote);
    if (found.used > 0) found.hit_share = local / (local + remote);
    return found;
  }
  const auto& by_state = result.metrics.decode_hits;
  found.used = std::accumulate(by_state.begin(), by_state.end(), std::uint64_t{0});
  if (found.used == 0) return found;
  const std::uint64_t hits = by_state[index(s.systems.front().kept_as)];
  const auto share = [&](std::uint64_t part) {
    return static_cast<double>(part) / static_cast<double>(found.used);
  };
  found.hit_share = share(hits);
  found.parts_share = share(found.used - by_state[index(State::M)] - hits);
  return found;
}

/// What a run of the document's system came to, between processes; of one that could not be made, why.
std::string pack_compared(const std::string& name, const std::string& document, const Settings& changes) {
  try {
    const Scenario s = scenario_of_document(name, document, changes);
    const RoutingTrace trace = scenario_trace(s);
    const std::optional<RankInclusion> statistics = check_scenario(s, trace);
    RunOptions options;
    if (statistics) options.statistics = &*statistics;
    const RunResult result = run_system(s, s.systems.front(), trace, options);
    check_fits(result);
    const std::optional<double> tpot_s = judged_latency(result, JudgedBy::tpot);
    const std::optional<double> end_to_end_s = judged_latency(result, JudgedBy::end_to_end);
    if (!end_to_end_s) throw InputError(s.name, "no request is answered: there is no latency to compare");
    const FoundExperts found = found_by(s, result);
    const RequestCounts requests = request_counts(result.cluster);
    return Json{{"tpot_s", tpot_s ? Json(*tpot_s) : Json()},
                {"end_to_end_s", *end_to_end_s},
                {"used", found.used},
                {"hits", found.hit_share},
                {"parts", found.parts_share},
                {"requests", {requests.asked, requests.failed, requests.delayed}}}
        .dump();
  } catch (const InputError& error) {
    return refused_run(error);
  }
}

class Comparer {
 public:
  explicit Comparer(const CompareSettings& settings)
      : settings_(settings),
        family_(compared_family(settings.family)),
        scenario_(compared_scenario(settings)),
        own_(family_.own(system())),
        policies_(policies_to_run(family_, settings.policies, own_)),
        routings_(compared_routings(scenario_, settings)),
        budgets_(settings.budgets) {
    if (settings.seeds > std::numeric_limits<std::int64_t>::max() - scenario_.seed)
      throw InputError("--seeds " + std::to_string(settings.seeds),
                       "from seed " + std::to_string(scenario_.seed) + " on there are not so many");
    if (budgets_.empty()) budgets_.emplace_back();
  }

  PolicyComparison compare(const std::function<void(std::size_t, std::size_t)>& progress) {
    PolicyComparison result = frame();
    std::vector<CompareAsk> asks;
    for (std::size_t b = 0; b < result.blocks.size(); ++b)
      for (std::size_t p = 0; p < policies_.size(); ++p)
        for (std::size_t s = 0; s < settings_.seeds; ++s) asks.push_back({b, p, s});
    std::vector<ChildOutcome> outcomes(asks.size());
    ForkedWorkers workers(settings_.jobs, {});
    for (std::size_t next = 0, done = 0; done < asks.size();) {
      for (; next < asks.size() && workers.room() > 0; ++next)
        workers.start_work(next, [&, ask = asks[next]] { return one(ask); });
      for (auto& [number, outcome] : workers.wait(1)) {
        ++done;
        outcomes[number] = std::move(outcome.child);
        if (progress) progress(done, asks.size());
      }
    }
    // In the order asked for: what is said does not depend on which ended first.
    std::vector<Json> samples;
    for (const ChildOutcome& outcome : outcomes) samples.push_back(sample_of(outcome));
    result.by = judged_by(scenario_, std::none_of(samples.begin(), samples.end(), [](const Json& sample) {
                            return !sample.contains("refused") && sample["tpot_s"].is_null();
                          }));
    for (std::size_t i = 0; i < asks.size(); ++i) enter(asks[i], samples[i], result);
    set_unfit_apart(result);
    for (ComparedBlock& block : result.blocks) rank(block);
    return result;
  }

 private:
  const SystemConfig& system() const { return scenario_.systems.front(); }

  PolicyComparison frame() const {
    PolicyComparison result;
    result.scenario = scenario_.name;
    result.system = system().name;
    result.model = scenario_.model.title;
    result.device = scenario_.cluster ? scenario_.cluster->profile.title : scenario_.device.title;
    result.family = family_.name;
    result.own_policy = own_.name;
    result.first_seed = scenario_.seed;
    result.seeds = settings_.seeds;
    for (const ComparedRouting& routing : routings_) {
      const std::string setting = settings_.settings_digests ? setting_of(routing) : "";
      for (const std::string& text : budgets_) {
        ComparedBlock block;
        block.setting = setting;
        block.trace = routing.trace;
        block.law = routing.law;
        const Bytes bytes = text.empty() ? scenario_.budget : parsed_budget(text);
        block.budget = text.empty() ? to_string(bytes) : text;
        block.bytes = bytes.value();
        block.policies = policies_;
        for (ComparedPolicy& row : block.policies) row.by_seed.resize(settings_.seeds);
        result.blocks.push_back(block);
      }
    }
    return result;
  }
  std::string setting_of(const ComparedRouting& routing) const {
    const Scenario s = scenario_of_document(scenario_.name, routing.document);
    const SystemConfig& only = s.systems.front();
    const std::vector<DataFile> data = data_files(s);
    Json document = Json::parse(document_without_policy(family_, only, scenario_document(s, only)));
    // The names of policies of other families say what runs only together with where their code is from.
    for (const std::string& origin : policy_origins_of(only, family_.name))
      document["digests_of_policies"].push_back(digest_of_origin(origin));
    return document_digest(document.dump(), data);
  }
  static Bytes parsed_budget(const std::string& text) {
    Bytes bytes;
    std::string expected;
    if (!parse(text, bytes, expected)) throw InputError("--budget " + text, "expected " + expected);
    return bytes;
  }

  std::string one(const CompareAsk& ask) const {
    Settings changes = {{"seed", std::to_string(scenario_.seed + ask.seed)}};
    const std::string& budget = budgets_[ask.block % budgets_.size()];
    if (!budget.empty()) changes.emplace_back("budget", budget);
    const ComparedPolicy& policy = policies_[ask.policy];
    const std::string document = document_with_policy(
        family_, system(), routings_[ask.block / budgets_.size()].document, policy.policy, policy.parameters);
    return pack_compared(scenario_.name, document, changes);
  }

  /// pack_compared() of a run.
  Json sample_of(const ChildOutcome& outcome) const {
    if (outcome.kind != ChildOutcome::Kind::done)
      throw InputError(settings_.scenario, "a run cannot be made: " + outcome.text);
    return Json::parse(outcome.text);
  }

  void enter(const CompareAsk& ask, const Json& sample, PolicyComparison& result) const {
    ComparedBlock& block = result.blocks[ask.block];
    ComparedPolicy& row = block.policies[ask.policy];
    if (!sample.contains("refused")) {
      row.by_seed[ask.seed] = {sample[std::string(judged_words(result.by).key)], sample["hits"],
                               sample["parts"]};
      block.has_hits |= sample["used"] > 0;
      const Json& requests = sample["requests"];
      row.requests.add({requests[0], requests[1], requests[2]});
      return;
    }
    row.refused = sample["refused"].get<std::string>() + way_out(sample["refused"].get<std::string>());
    row.lacks_memory = sample["lacks_memory"];
    if (!row.lacks_memory && !settings_.policies.empty() &&
        ask.policy < settings_.policies.size())  // named, no added bound
      throw InputError(option() + " " + row.name, "cannot be run by system '" + result.system + "' at " +
                                                      block.budget + ": " + row.refused);
  }

  /// What a system lacks that prefetches nothing of its own, for policies that have to have it.
  std::string way_out(const std::string& refused) const {
    if (family_.name != "prefetch" || !refused.starts_with("missing key 'buffer'")) return "";
    return "; expected a system with it, or --system " + system().name +
           " --set overrides.system.prefetch=\"{policy: hybrimoe, buffer: 4}\"";
  }

  std::string option() const { return "--" + settings_.family; }

  /// Takes away the blocks in which there is too little memory for every rival. Throws where that is all.
  static void set_unfit_apart(PolicyComparison& result) {
    const auto is_unfit = [](const ComparedBlock& block) {
      const auto rivals = [](const ComparedPolicy& p) { return !p.no_rival; };
      const auto fits = [](const ComparedPolicy& p) { return !p.no_rival && !p.lacks_memory; };
      return std::any_of(block.policies.begin(), block.policies.end(), rivals) &&
             std::none_of(block.policies.begin(), block.policies.end(), fits);
    };
    std::copy_if(result.blocks.begin(), result.blocks.end(), std::back_inserter(result.unfit), is_unfit);
    std::erase_if(result.blocks, is_unfit);
    if (result.blocks.empty()) throw NothingFits(result.scenario, result.unfit.back().why_unfit());
  }

  /// Throws for a block in which there is nothing to rank.
  [[noreturn]] void fail_without_rivals(const ComparedBlock& block) const {
    for (const ComparedPolicy& policy : block.policies)
      if (!policy.refused.empty() && !policy.no_rival)
        throw InputError(option(), "none can be run at " + block.budget + "; why not '" + policy.name +
                                       "': " + policy.refused);
    throw InputError(option(), "expected a policy besides " + std::string(family_.bound) +
                                   ", which knows the future and is the bound");
  }

  /// Policies with which more requests fail than with another have no rank: their latencies are of the
  /// others.
  static void set_failing_apart(ComparedBlock& block) {
    const ComparedPolicy* least = nullptr;
    for (const ComparedPolicy& policy : block.policies)
      if (policy.refused.empty() && !policy.no_rival &&
          (least == nullptr || policy.requests.failed < least->requests.failed))
        least = &policy;
    if (least == nullptr) return;
    const std::uint64_t fewest = least->requests.failed;
    const std::string name = least->name;
    for (ComparedPolicy& policy : block.policies)
      if (policy.refused.empty() && !policy.no_rival && policy.requests.failed > fewest)
        policy.unranked = std::to_string(policy.requests.failed) + " of " +
                          std::to_string(policy.requests.asked) + " requests fail with it, " +
                          std::to_string(fewest) + " with " + name;
  }

  void rank(ComparedBlock& block) const {
    set_failing_apart(block);
    const auto rivals = [](const ComparedPolicy& p) { return p.counts() && !p.no_rival; };
    const auto part = std::stable_partition(block.policies.begin(), block.policies.end(), rivals);
    std::stable_partition(part, block.policies.end(), [](const auto& p) { return p.counts(); });
    if (part == block.policies.begin()) fail_without_rivals(block);
    std::vector<std::vector<double>> times;
    for (auto row = block.policies.begin(); row != part; ++row) {
      times.emplace_back();
      for (const PolicySample& sample : row->by_seed) times.back().push_back(sample.seconds);
    }
    const std::vector<PairedRank> ranks = rank_paired(times);
    for (std::size_t i = 0; i < ranks.size(); ++i) block.policies[i].rank = ranks[i];
    std::sort(block.policies.begin(), part,
              [](const auto& a, const auto& b) { return a.rank.place < b.rank.place; });
  }

  const CompareSettings& settings_;
  const ComparedFamily& family_;
  Scenario scenario_;
  PolicyChoice own_;
  std::vector<ComparedPolicy> policies_;  // without what running them adds
  std::vector<ComparedRouting> routings_;
  std::vector<std::string> budgets_;  // "": the scenario's
};

}  // namespace

double ComparedPolicy::mean_of(double PolicySample::*figure) const {
  std::vector<double> values;
  for (const PolicySample& sample : by_seed) values.push_back(sample.*figure);
  return mean(values);
}

const ComparedPolicy* ComparedBlock::bound() const {
  for (const ComparedPolicy& policy : policies)
    if (policy.is_reference && policy.refused.empty()) return &policy;
  return nullptr;
}

const std::string& ComparedBlock::why_unfit() const {
  return std::find_if(policies.begin(), policies.end(),
                      [](const ComparedPolicy& p) { return p.lacks_memory; })
      ->refused;
}

PolicyComparison compare_policies(const CompareSettings& settings,
                                  const std::function<void(std::size_t, std::size_t)>& progress) {
  return Comparer(settings).compare(progress);
}

}  // namespace moelab

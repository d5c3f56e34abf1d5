#include "sim/scenario/request_mix.hpp"

#include <algorithm>
#include <cmath>

#include "models/yaml_reader.hpp"
#include "sim/scenario/workload_config.hpp"
#include "traces/portable_math.hpp"

namespace moelab {
namespace {

constexpr std::size_t kMostClasses = 1000;  // far more than a workload is described by
static_assert(kMostClasses < kNoClass);
constexpr double kShareRounding = 1e-6;  // shares of few digits add up to 1 but for this

std::uint32_t read_tokens(const YamlMap& map, std::string_view key, std::int64_t fallback) {
  return static_cast<std::uint32_t>(map.integer(key, 1, kMostCounted, fallback));
}

/// `[100, 900]`
TokenLaw read_token_range(const YamlMap& section, std::string_view key) {
  TokenLaw law;
  const std::vector<YamlNode> ends = section.list(key);
  if (ends.size() != 2) {
    section.fail(key, "'" + std::string(key) + "' has " + std::to_string(ends.size()) +
                          " values; expected a number of tokens, the least and the most ([100, 900]), or "
                          "{distribution: lognormal, ...}");
    return law;
  }
  law.least = static_cast<std::uint32_t>(ends[0].integer(key, 1, kMostCounted));
  law.most = static_cast<std::uint32_t>(ends[1].integer(key, 1, kMostCounted));
  return law;
}

const std::vector<std::string> kDistributions = {"uniform", "lognormal"};

/// `{distribution: lognormal, median: 500, sigma: 1}`
TokenLaw read_distribution(const YamlMap& map) {
  TokenLaw law;
  law.kind = static_cast<TokenLaw::Kind>(map.choice("distribution", kDistributions));
  if (law.kind == TokenLaw::Kind::uniform) {
    law.least = static_cast<std::uint32_t>(map.integer("least", 1, kMostCounted));
    law.most = static_cast<std::uint32_t>(map.integer("most", 1, kMostCounted));
    map.done();
    return law;
  }
  law.least = read_tokens(map, "least", 1);
  law.most = read_tokens(map, "most", kMostCounted);
  law.sigma = map.number("sigma", {0, 10});
  if (map.has("mean") && map.has("median")) {
    map.fail("mean", "'mean' and 'median' say the same of a lognormal distribution; expected one of them");
  } else if (map.has("mean")) {
    law.median = map.number("mean", {1, double(kMostCounted)}) * portable_exp(-law.sigma * law.sigma / 2);
  } else {
    law.median = map.number("median", {1, double(kMostCounted)});
  }
  map.done();
  return law;
}

TokenLaw read_token_law(const YamlMap& section, std::string_view key) {
  TokenLaw law;
  if (section.has(key) && section.node(key).is_list())
    law = read_token_range(section, key);
  else if (section.has(key) && section.node(key).is_map())
    law = read_distribution(section.map(key));
  else
    law.least = law.most = static_cast<std::uint32_t>(section.integer(key, 1, kMostCounted));
  if (law.least > law.most)
    section.fail(key, "the least number of tokens, " + std::to_string(law.least) + ", is above the most, " +
                          std::to_string(law.most));
  return law;
}

/// The pairs of lengths of a log's requests.
void read_lengths_of(const YamlMap& section, const std::string& base, Problems& problems, RequestClass& of) {
  for (const std::string_view key : {"prompt_tokens", "output_tokens"})
    if (section.has(key))
      section.fail(key, "'" + std::string(key) +
                            "' is said by 'lengths_of': both lengths of a request are "
                            "drawn together from the log");
  of.lengths_file = named_file(section.text("lengths_of"), base);
  if (of.lengths_file.empty()) return;  // reported already
  try {
    of.lengths = read_request_log(of.lengths_file);
  } catch (const InputError& error) {
    for (const Problem& problem : error.problems()) problems.add(problem);
  }
}

/// `conversations: {turns: [1, 8], think_time: 20 s}`
void read_conversations(const YamlMap& section, RequestClass& of) {
  const std::optional<YamlMap> map = section.optional_map("conversations");
  if (!map) return;
  Conversations& all = of.conversations.emplace();
  all.turns = read_token_law(*map, "turns");
  all.think_s = map->quantity<Seconds>("think_time", {Seconds(0), Seconds(1e6)}, Seconds(0)).value();
  const std::vector<std::string> distributions = {"fixed", "exponential"};
  all.exponential = map->choice("distribution", distributions, 0) == 1;
  if (map->has("most")) all.most = static_cast<std::uint32_t>(map->integer("most", 2, kMostCounted));
  map->done();
}

void read_lengths_of_class(const YamlMap& section, const std::string& base, Problems& problems,
                           RequestClass& of) {
  of.shared_prefix = static_cast<std::uint32_t>(section.integer("shared_prefix", 0, kMostCounted, 0));
  read_conversations(section, of);
  if (section.has("lengths_of")) return read_lengths_of(section, base, problems, of);
  of.prompt = read_token_law(section, "prompt_tokens");
  of.output = read_token_law(section, "output_tokens");
}

RequestClass read_class(const YamlMap& map, const std::string& base, Problems& problems) {
  RequestClass of;
  of.name = map.text("name");
  if (map.has("name") && of.name.find_first_of(" \t\n,<") != std::string::npos)
    map.fail("name",
             "a class's name stands in service levels (chat ttft p95 < 1 s): expected one word "
             "without ',' and '<'");
  of.share = map.number("share", {0, 1, true});
  of.priority = static_cast<std::int32_t>(map.integer("priority", -kMostPriority, kMostPriority, 0));
  read_lengths_of_class(map, base, problems, of);
  map.done();
  return of;
}

void check_shares(const YamlMap& section, const std::vector<RequestClass>& classes) {
  double sum = 0;
  for (const RequestClass& one : classes) sum += one.share;
  if (std::abs(sum - 1) <= kShareRounding) return;
  std::string shares;
  for (const RequestClass& one : classes) shares += (shares.empty() ? "" : " + ") + shortest_text(one.share);
  section.fail("classes",
               "the classes' shares add up to " + shortest_text(sum) + " (" + shares + "); expected 1");
}

std::vector<RequestClass> read_classes(const YamlMap& section, const std::string& base, Problems& problems) {
  for (const std::string_view key :
       {"prompt_tokens", "output_tokens", "lengths_of", "shared_prefix", "conversations"})
    if (section.has(key))
      section.fail(key, "'" + std::string(key) +
                            "' is each class's to say; expected it in the entries of "
                            "'classes'");
  std::vector<RequestClass> classes;
  const std::size_t before = problems.all().size();
  for (const YamlNode& item : section.list("classes")) {
    classes.push_back(read_class(item.map("a class"), base, problems));
    const auto same = [&](const RequestClass& other) { return other.name == classes.back().name; };
    if (!classes.back().name.empty() && std::count_if(classes.begin(), classes.end(), same) > 1)
      item.fail("class '" + classes.back().name + "' is listed twice; results are told apart by name");
  }
  if (problems.all().size() > before) return classes;
  if (classes.size() > kMostClasses)
    section.fail("classes", std::to_string(classes.size()) + " classes are listed; expected at most " +
                                std::to_string(kMostClasses));
  else if (classes.empty())
    section.fail("classes", "no class is listed; expected at least one: {name: chat, share: 1, ...}");
  else
    check_shares(section, classes);
  return classes;
}

}  // namespace

bool draws_lengths(const YamlMap& section) {
  const auto is_drawn = [&](std::string_view key) {
    return section.has(key) && (section.node(key).is_list() || section.node(key).is_map());
  };
  return section.has("classes") || section.has("lengths_of") || section.has("shared_prefix") ||
         section.has("conversations") || is_drawn("prompt_tokens") || is_drawn("output_tokens");
}

std::vector<RequestClass> read_request_mix(const YamlMap& section, const std::string& base,
                                           Problems& problems) {
  if (section.has("classes")) return read_classes(section, base, problems);
  std::vector<RequestClass> one(1);
  read_lengths_of_class(section, base, problems, one.front());
  return one;
}

}  // namespace moelab

#include "sim/scenario/workload_config.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "models/config_store.hpp"
#include "models/physical_bounds.hpp"
#include "models/yaml_reader.hpp"
#include "traces/generator.hpp"

namespace moelab {
namespace {

constexpr std::array<std::string_view, 4> kParameters = {"skew", "reuse", "drift", "gate_decay"};

void read_law(const YamlMap& section, const std::string& base, Problems& problems, WorkloadConfig& w) {
  for (const std::string_view key : kParameters)
    if (section.has(key)) section.fail(key, "'" + std::string(key) + "' is the law's to say");
  const std::string name = section.text("law");
  if (name.empty() || name == "own") return;  // reported already; the model's own, as without 'law'
  try {
    w.law_file = find_config("laws", name, base).name;
    w.law = load_routing_law(name, base);
    w.has_law = true;
  } catch (const InputError& error) {
    for (const Problem& problem : error.problems())
      if (problem.file.empty())
        section.fail("law", problem.what);
      else
        problems.add(problem);
  }
}

const std::vector<std::string> kProcesses = {"poisson", "gamma", "fixed"};

/// `arrivals_per_s: {from: 1, to: 20}`
ArrivalsConfig::Ramp read_ramp(const YamlMap& map) {
  ArrivalsConfig::Ramp ramp;
  ramp.from = map.number("from", {1e-9, 1e9});
  ramp.to = map.number("to", {1e-9, 1e9});
  if (map.has("over")) ramp.over_s = map.quantity<Seconds>("over", {Seconds(1e-9), Seconds(1e9)}).value();
  map.done();
  return ramp;
}

/// `closed_loop: {users: 16, think_time: 5 s}`
void read_closed_loop(const YamlMap& section, WorkloadConfig& w) {
  const std::optional<YamlMap> map = section.optional_map("closed_loop");
  if (!map) return;
  for (const std::string_view key : {"arrivals_per_s", "arrivals"})
    if (section.has(key))
      section.fail(key, "'" + std::string(key) +
                            "' is there beside 'closed_loop': its users send a request "
                            "when the one before is answered, at the rate that comes of it");
  ClosedLoop& loop = w.closed_loop.emplace();
  loop.users = static_cast<std::uint32_t>(map->integer("users", 1, kMostCounted));
  loop.think_s = map->quantity<Seconds>("think_time", {Seconds(0), Seconds(1e6)}, Seconds(0)).value();
  const std::vector<std::string> distributions = {"fixed", "exponential"};
  loop.exponential = map->choice("distribution", distributions, 0) == 1;
  map->done();
}

/// `60 s`, or `100` requests.
LeftOutEnds::Part read_part(const YamlMap& section, std::string_view key) {
  LeftOutEnds::Part part;
  const YamlNode node = section.node(key);
  const std::string text = node.is_scalar() && !node.is_null() ? node.text(key) : "";
  if (!text.empty() && text.find_first_not_of("0123456789") == std::string::npos) {
    part.requests = static_cast<std::uint64_t>(section.integer(key, 0, kMostCounted));
    return part;
  }
  Seconds time;
  std::string expected;
  if (parse(text, time, expected) && time >= Seconds(0) && time <= Seconds(1e9) &&
      beyond_physical(time).empty())
    part.seconds = time.value();
  else
    section.fail(key, "'" + std::string(key) + "' is " +
                          (text.empty() ? "none" : "'" + shown_word(text) + "'") +
                          "; expected a time such as 60 s, or a number of requests such as 100");
  return part;
}

/// `warm_up` and `cool_down`, of the workload's requests: their number is known, or 0.
void read_left_out(const YamlMap& section, std::uint64_t requests, WorkloadConfig& w) {
  if (section.has("warm_up")) w.left_out.warm_up = read_part(section, "warm_up");
  if (section.has("cool_down")) w.left_out.cool_down = read_part(section, "cool_down");
  const bool by_answers = w.closed_loop || has_conversations(w);
  if (by_answers && w.left_out.cool_down && w.left_out.cool_down->seconds > 0)
    section.fail(
        "cool_down",
        "of users who send when they are answered is not known before it is over when the last request "
        "comes; "
        "expected a number of requests, such as 100");
  std::uint64_t least = 0;
  for (const auto& part : {w.left_out.warm_up, w.left_out.cool_down}) least += part ? part->requests : 0;
  if (least > 0 && requests > 0 && least >= requests)
    section.fail(section.has("warm_up") ? "warm_up" : "cool_down",
                 "leaves nothing for statistics: " + std::to_string(least) + " of " +
                     std::to_string(requests) + " requests are left out");
}

/// `arrivals_per_s` and what the gaps are like.
void read_arrivals(const YamlMap& section, WorkloadConfig& w) {
  read_closed_loop(section, w);
  if (section.has("arrivals_per_s") && section.node("arrivals_per_s").is_map()) {
    w.arrivals.ramp = read_ramp(section.map("arrivals_per_s"));
    w.arrivals_per_s = (w.arrivals.ramp->from + w.arrivals.ramp->to) / 2;
  } else {
    w.arrivals_per_s = section.number("arrivals_per_s", {0, 1e9}, 0.0);
  }
  const std::optional<YamlMap> arrivals = section.optional_map("arrivals");
  if (!arrivals) return;
  using Process = ArrivalsConfig::Process;
  w.arrivals.process = static_cast<Process>(arrivals->choice("process", kProcesses));
  if (w.arrivals.process == Process::gamma)
    w.arrivals.burstiness = arrivals->number("burstiness", {1e-3, 1e6});
  else if (arrivals->has("burstiness"))
    arrivals->fail("burstiness", "'burstiness' is of 'process: gamma'");
  if (w.arrivals_per_s == 0 && !w.closed_loop)
    section.fail("arrivals",
                 "'arrivals' says what the gaps between requests are like that come at a rate; "
                 "expected 'arrivals_per_s' above 0 beside it");
  arrivals->done();
}

/// A log's own times, or how many times as fast, or at which rate.
void read_pace(const YamlMap& section, WorkloadConfig& w) {
  const bool speed = section.has("speed"), rate = section.has("rate");
  if (speed && rate) section.fail("rate", "'speed' is there already: a log is played by one of the two");
  w.pace_key = speed ? "speed" : rate ? "rate" : "";
  if (speed) stretch_log(w.log, 1 / section.number("speed", {1e-9, 1e9}));
  if (rate) {
    const double wanted = section.number("rate", {1e-9, 1e9}), own = rate_of_log(w.log);
    if (own > 0)
      stretch_log(w.log, own / wanted);
    else if (!w.log.empty())
      section.fail("rate", "the log's requests all come at the same moment, which no pace changes");
  }
  if (!w.log.empty() && !(w.log.back().arrival_s <= kLatestArrival))
    section.fail(speed ? "speed" : "rate", "the last request would come later than 1e12 s");
}

/// A log of requests, or as many as are wanted of one length.
void read_lengths(const YamlMap& section, const std::string& base, Problems& problems, WorkloadConfig& w) {
  if (!section.has("request_log")) {
    w.requests = static_cast<std::uint32_t>(section.integer("requests", 1, kMostCounted, w.batch));
    if (draws_lengths(section)) {
      w.mix = read_request_mix(section, base, problems);
    } else {
      w.prompt_tokens = static_cast<std::uint32_t>(section.integer("prompt_tokens", 1, kMostCounted));
      w.output_tokens = static_cast<std::uint32_t>(section.integer("output_tokens", 1, kMostCounted));
    }
    read_arrivals(section, w);
    if (w.closed_loop && has_conversations(w))
      section.fail(
          "closed_loop",
          "'closed_loop' is there beside 'conversations', which have think times of their own and begin "
          "by 'arrivals_per_s'; expected one of the two");
    for (const std::string_view key : {"speed", "rate"})
      if (section.has(key))
        section.fail(key, "'" + std::string(key) +
                              "' is of a 'request_log'; drawn requests come by "
                              "'arrivals_per_s'");
    return;
  }
  for (const std::string_view key : {"requests", "prompt_tokens", "output_tokens", "lengths_of", "classes",
                                     "shared_prefix", "conversations"})
    if (section.has(key))
      section.fail(key, "'" + std::string(key) +
                            "' is the request log's to say; --set in the whole section's place: "
                            "workload=\"{batch: 4, request_log: FILE}\"");
  for (const std::string_view key : {"arrivals_per_s", "arrivals", "closed_loop"})
    if (section.has(key))
      section.fail(key, "'" + std::string(key) +
                            "' is the request log's to say; 'speed: 2' plays it twice as "
                            "fast, 'rate: 4' at 4 requests a second");
  w.request_log = named_file(section.text("request_log"), base);
  if (w.request_log.empty()) return;  // reported already
  try {
    w.log = read_request_log(w.request_log);
    w.requests = static_cast<std::uint32_t>(w.log.size());
  } catch (const InputError& error) {
    for (const Problem& problem : error.problems()) problems.add(problem);
  }
  read_pace(section, w);
}

}  // namespace

WorkloadConfig::WorkloadConfig() = default;
WorkloadConfig::WorkloadConfig(const WorkloadConfig&) = default;
WorkloadConfig::WorkloadConfig(WorkloadConfig&&) noexcept = default;
WorkloadConfig& WorkloadConfig::operator=(const WorkloadConfig&) = default;
WorkloadConfig& WorkloadConfig::operator=(WorkloadConfig&&) noexcept = default;
WorkloadConfig::~WorkloadConfig() = default;

WorkloadConfig read_workload(const YamlMap& root, const std::string& base, Problems& problems) {
  WorkloadConfig w;
  const YamlMap section = root.map("workload");
  w.batch = static_cast<std::uint32_t>(section.integer("batch", 1, 4096, 1));
  w.prefilled = section.boolean("prefilled", false);
  if (section.has("trace")) {
    read_arrivals(section, w);
    w.trace_file = named_file(section.text("trace"), base);
    w.trace_requests = static_cast<std::uint32_t>(section.integer("requests", 0, kMostCounted, 0));
    read_left_out(section, w.trace_requests, w);
    for (const std::string_view key :
         {"prompt_tokens", "output_tokens", "lengths_of", "classes", "shared_prefix", "conversations"})
      if (section.has(key))
        section.fail(
            key, "the trace says how many tokens its requests have; leave '" + std::string(key) +
                     "' out (on the command line: --set workload=\"{batch: 1, trace: FILE}\", and "
                     "\"requests: 5\" in it for the trace's first five; fewer tokens: moelab trace slice)");
  } else {
    read_lengths(section, base, problems, w);
    read_left_out(section, w.requests, w);
    if (section.has("law")) {
      read_law(section, base, problems, w);
      section.done();
      return w;
    }
    for (const std::string_view key : kParameters) w.has_parameters |= section.has(key);
    const GeneratorParameters defaults;
    w.skew = section.number("skew", {0, 10}, defaults.skew);
    w.reuse = section.number("reuse", {0, 1}, defaults.reuse);
    w.drift = section.number("drift", {0, 1}, defaults.drift);
    w.gate_decay = section.number("gate_decay", {0, 10}, defaults.gate_decay);
  }
  section.done();
  return w;
}

std::vector<std::string> class_names(const WorkloadConfig& w) {
  std::vector<std::string> names;
  if (has_classes(w))
    for (const RequestClass& of : w.mix) names.push_back(of.name);
  return names;
}

bool has_conversations(const WorkloadConfig& w) {
  return std::ranges::any_of(w.mix, [](const RequestClass& of) { return of.conversations.has_value(); });
}

bool shares_prefixes(const WorkloadConfig& w) {
  const auto has_prefix = [](const RequestClass& of) { return of.shared_prefix > 0; };
  return has_conversations(w) || std::ranges::any_of(w.mix, has_prefix) || shares_tokens(w.log);
}

bool has_priorities(const WorkloadConfig& w) {
  const auto differs = [](const auto& all) {
    return std::ranges::any_of(all, [&](const auto& one) { return one.priority != all.front().priority; });
  };
  return differs(w.mix) || differs(w.log);
}

bool says_arrivals(const WorkloadConfig& w) {
  return w.arrivals_per_s > 0 || w.closed_loop || !w.log.empty() || has_conversations(w);
}

double rate_of_log(const std::vector<RequestRecord>& log) {
  if (log.size() < 2 || log.back().arrival_s <= log.front().arrival_s) return 0;
  const double rate = static_cast<double>(log.size() - 1) / (log.back().arrival_s - log.front().arrival_s);
  return std::isfinite(rate) ? rate : 0;  // of a span that is next to nothing
}

void stretch_log(std::vector<RequestRecord>& log, double times) {
  for (RequestRecord& request : log) request.arrival_s *= times;
}

std::string named_file(const std::string& name, const std::string& base) {
  std::error_code ignored;
  const std::filesystem::path path(name), there = std::filesystem::path(base) / path;
  if (name.empty() || !path.is_relative() || !std::filesystem::exists(there, ignored)) return name;
  return there.string();
}

}  // namespace moelab

#include "sim/sweep/point_exchange.hpp"

#include <algorithm>
#include <array>

#include "models/input_error.hpp"
#include "models/json.hpp"
#include "sim/version.hpp"

namespace moelab {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kJob = "the job";
constexpr const char* kOutcome = "a point's outcome";
constexpr const char* kResult = "a point's result";
constexpr std::array<const char*, 4> kStatusNames = {"done", "failed", "timeout", "memory"};  // by Kind
// What a worker may say. A result has some 200 kB, of a long run whose placement changes often some
// megabytes.
constexpr std::size_t kMostAnswerBytes = std::size_t{64} << 20;  // as in python/moelab/cluster.py
constexpr std::size_t kMostHostBytes = 255;  // of a name in the DNS (RFC 1035, section 2.3.4)

void check_version(const Json& job) {
  const std::string version = job.at("version").get<std::string>();
  if (version != program_version())
    throw InputError(kJob, "is of moelab " + version + ", this is moelab " + program_version() +
                               "; install the same version on every machine");
}

void check_member(const Json& result, const char* path, const Json& expected) {
  const Json::json_pointer place(path);
  const Json found = result.contains(place) ? result.at(place) : Json();
  const auto shown = [](const Json& json) {
    return shown_word(json.dump(-1, ' ', false, Json::error_handler_t::replace));
  };
  if (found != expected)
    throw InputError(kResult,
                     std::string(path + 1) + " is " + shown(found) + "; expected " + shown(expected));
}

/// Numbers of metrics, at any depth: JSON has none that are not finite.
void check_numbers(const std::string& name, const Json& value) {
  if (value.is_structured())
    for (const auto& [key, inner] : value.items()) check_numbers(name + "/" + key, inner);
  else if (!value.is_null() && !(value.is_number() && value.get<double>() >= 0))
    throw InputError(kResult, shown_word(name) + " is no number from 0 on");
  double before = 0;
  for (const char* percentile : {"p50", "p90", "p95", "p99"})
    if (const auto found = value.find(percentile); value.is_object() && found != value.end()) {
      const double next = found->is_number() ? found->get<double>() : before;
      if (next < before) throw InputError(kResult, shown_word(name) + " has percentiles that fall");
      before = next;
    }
}

/// Where the scenario leaves out a warm-up or a cool-down, its throughput is of the part that is measured.
bool is_of_a_part(const Json& result) {
  const Json& scenario = result.at("inputs").at("scenario");
  const bool may_be = scenario.contains("/workload/warm_up"_json_pointer) ||
                      scenario.contains("/workload/cool_down"_json_pointer);
  if (result.contains("measured") && !may_be)
    throw InputError(kResult, "measured is there, but the scenario leaves nothing out");
  return result.contains("measured");
}

void check_metrics(const Json& result) {
  const Json& metrics = result.at("metrics");
  check_numbers("metrics", metrics);
  constexpr double kRounding = 1e-9;  // of a quotient and a product, with room
  const double most = metrics.at("tokens").get<double>() * (1 + kRounding);
  const double least = metrics.at("tokens").get<double>() * (1 - kRounding);
  const double rate = metrics.at("throughput_tokens_per_s").get<double>();
  if (is_of_a_part(result)) {
    const Json& part = result.at("measured");
    if (!(rate * (part.at("end_s").get<double>() - part.at("begin_s").get<double>()) <= most))
      throw InputError(kResult, "metrics: tokens are fewer than the measured part's throughput times time");
    return;
  }
  const double made = rate * metrics.at("wall_s").get<double>();
  if (!(made >= least && made <= most))
    throw InputError(kResult, "metrics: tokens are not throughput times time");
}

/// Of a worker's word, before anything is made of it.
void check_extent(const char* what, const std::string& text) {
  if (text.size() > kMostAnswerBytes)
    throw InputError(what, "has " + std::to_string(text.size()) + " bytes; expected " +
                               std::to_string(kMostAnswerBytes) + " at most");
  check_json_depth(what, text);
}

}  // namespace

std::string pack_job(const RemoteJob& job) {
  Json data = Json::array();
  for (const DataFile& file : job.data) data.push_back({{"path", file.path}, {"digest", file.digest}});
  return Json{{"version", program_version()},
              {"scenario", Json::parse(job.job.document)},
              {"settings", job.job.settings},
              {"executor", job.job.executor},
              {"data", data},
              {"limits", {{"time_s", job.limits.wall_s}, {"memory_bytes", job.limits.memory_bytes}}}}
      .dump();
}

RemoteJob unpack_job(const std::string& text) {
  try {
    const Json j = Json::parse(text);
    check_version(j);
    RemoteJob job;
    job.job = {j.at("scenario").dump(), j.at("settings").get<Settings>(),
               j.at("executor").get<std::string>()};
    if (job.job.executor != "fast" && job.job.executor != "simgrid")
      throw InputError(kJob, "executor '" + job.job.executor + "'; expected fast or simgrid");
    for (const Json& file : j.at("data"))
      job.data.push_back({file.at("path").get<std::string>(), file.at("digest").get<std::string>()});
    job.limits.wall_s = j.at("limits").at("time_s").get<double>();
    job.limits.memory_bytes = j.at("limits").at("memory_bytes").get<std::uint64_t>();
    return job;
  } catch (const nlohmann::json::exception& error) {
    throw InputError(kJob, "expected {version, scenario, settings, executor, data, limits}: " +
                               std::string(said_by_library(error.what())));
  }
}

namespace {

/// What is wrong with a file that the job's scenario reads and whose digest here is this; nothing where it is
/// the job's.
void check_file(const DataFile& here, const RemoteJob& job, Problems& problems) {
  const auto there =
      std::find_if(job.data.begin(), job.data.end(), [&](const DataFile& f) { return f.path == here.path; });
  if (there == job.data.end())
    problems.add({here.path, 0, 0, "is read by the scenario, but the job does not say which file it is"});
  else if (there->digest != here.digest)
    problems.add({here.path, 0, 0,
                  "is another file here (digest " + here.digest + ") than where the sweep was started (" +
                      there->digest + "); expected the same on every machine"});
}

/// Before their code runs, which it does as the scenario is read.
void check_libraries(const RemoteJob& job, Problems& problems) {
  const Json document = Json::parse(job.job.document, nullptr, false);
  if (!document.is_object() || !document.contains("policy_libraries")) return;
  const Json& files = document["policy_libraries"];
  if (!files.is_array()) return;
  for (const Json& file : files)
    if (file.is_string()) check_file({file, digest_of_file(file)}, job, problems);
}

}  // namespace

void check_data(const RemoteJob& job) {
  Problems problems;
  check_libraries(job, problems);
  problems.throw_if_any();
  for (const DataFile& here : data_files(scenario_of_document("the point's scenario", job.job.document)))
    check_file(here, job, problems);
  problems.throw_if_any();
}

PointOutcome run_job(const RemoteJob& job) {
  return {ChildProcess([&job] { return run_point(job.job); }, job.limits).wait(), host_name()};
}

std::string pack_outcome(const PointOutcome& outcome) {
  const ChildOutcome& c = outcome.child;
  return Json{{"status", kStatusNames[static_cast<std::size_t>(c.kind)]},
              {"text", c.text},
              {"host", outcome.host},
              {"wall_s", c.wall_s},
              {"cpu_s", c.cpu_s},
              {"peak_bytes", c.peak_bytes}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

PointOutcome unpack_outcome(const std::string& text) {
  check_extent(kOutcome, text);
  try {
    const Json j = Json::parse(text);
    PointOutcome outcome;
    const std::string status = j.at("status").get<std::string>();
    const auto kind = std::find(kStatusNames.begin(), kStatusNames.end(), status);
    if (kind == kStatusNames.end()) throw InputError(kOutcome, "unknown status '" + status + "'");
    outcome.child.kind = static_cast<ChildOutcome::Kind>(kind - kStatusNames.begin());
    outcome.child.text = j.at("text").get<std::string>();
    if (outcome.child.kind != ChildOutcome::Kind::done) cut_text(outcome.child.text, kMostFailureBytes);
    outcome.host = j.at("host").get<std::string>();
    cut_text(outcome.host, kMostHostBytes);
    outcome.child.wall_s = j.at("wall_s").get<double>();
    outcome.child.cpu_s = j.at("cpu_s").get<double>();
    outcome.child.peak_bytes = j.at("peak_bytes").get<std::uint64_t>();
    if (!(outcome.child.wall_s >= 0 && outcome.child.cpu_s >= 0))
      throw InputError(kOutcome, "expected times from 0 on");
    return outcome;
  } catch (const nlohmann::json::exception& error) {
    throw InputError(kOutcome, "expected {status, text, host, wall_s, cpu_s, peak_bytes}: " +
                                   std::string(said_by_library(error.what())));
  }
}

void check_result(const RemoteJob& job, const std::string& text) {
  check_extent(kResult, text);
  const Json scenario = Json::parse(job.job.document);
  try {
    const Json result = Json::parse(text);
    check_member(result, "/scenario", scenario.at("name"));
    check_member(result, "/system", scenario.at("/systems/0/name"_json_pointer));
    check_member(result, "/executor", job.job.executor);
    check_member(result, "/seed", scenario.at("seed"));
    check_member(result, "/version", program_version());
    check_member(result, "/inputs/scenario", scenario);
    Json data = Json::array();
    for (const DataFile& file : job.data) data.push_back({{"file", file.path}, {"xxh3", file.digest}});
    check_member(result, "/inputs/data", data);
    check_metrics(result);
    if (result.dump(2) + "\n" != text) throw InputError(kResult, "is not written as moelab writes results");
  } catch (const nlohmann::json::exception& error) {
    throw InputError(kResult, std::string(said_by_library(error.what())));
  }
}

}  // namespace moelab

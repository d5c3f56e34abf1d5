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
constexpr std::array<const char*, 4> kStatusNames = {"done", "failed", "timeout", "memory"};  // by Kind

void check_version(const Json& job) {
  const std::string version = job.at("version").get<std::string>();
  if (version != program_version())
    throw InputError(kJob, "is of moelab " + version + ", this is moelab " + program_version() +
                               "; install the same version on every machine");
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

void check_data(const RemoteJob& job) {
  const Scenario scenario = scenario_of_document("the point's scenario", job.job.document);
  Problems problems;
  for (const DataFile& here : data_files(scenario)) {
    const auto there = std::find_if(job.data.begin(), job.data.end(),
                                    [&](const DataFile& f) { return f.path == here.path; });
    if (there == job.data.end())
      problems.add({here.path, 0, 0, "is read by the scenario, but the job does not say which file it is"});
    else if (there->digest != here.digest)
      problems.add({here.path, 0, 0,
                    "is another file here (digest " + here.digest + ") than where the sweep was started (" +
                        there->digest + "); expected the same on every machine"});
  }
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
  try {
    const Json j = Json::parse(text);
    PointOutcome outcome;
    const std::string status = j.at("status").get<std::string>();
    const auto kind = std::find(kStatusNames.begin(), kStatusNames.end(), status);
    if (kind == kStatusNames.end()) throw InputError(kOutcome, "unknown status '" + status + "'");
    outcome.child.kind = static_cast<ChildOutcome::Kind>(kind - kStatusNames.begin());
    outcome.child.text = j.at("text").get<std::string>();
    outcome.host = j.at("host").get<std::string>();
    outcome.child.wall_s = j.at("wall_s").get<double>();
    outcome.child.cpu_s = j.at("cpu_s").get<double>();
    outcome.child.peak_bytes = j.at("peak_bytes").get<std::uint64_t>();
    return outcome;
  } catch (const nlohmann::json::exception& error) {
    throw InputError(kOutcome, "expected {status, text, host, wall_s, cpu_s, peak_bytes}: " +
                                   std::string(said_by_library(error.what())));
  }
}

}  // namespace moelab

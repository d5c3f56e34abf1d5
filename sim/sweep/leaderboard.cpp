#include "sim/sweep/leaderboard.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>

#include "models/control_characters.hpp"
#include "models/input_error.hpp"
#include "models/json.hpp"
#include "models/text_file.hpp"
#include "sim/results/statistics.hpp"
#include "sim/scenario/policy_choice.hpp"
#include "sim/scenario/scenario_document.hpp"
#include "sim/version.hpp"
#include "traces/atomic_file.hpp"

namespace moelab {
namespace {

using Json = nlohmann::ordered_json;

/// As a line says where a policy's code is from.
std::string library_of(const ComparedPolicy& policy) {
  if (policy.library.empty()) return "moelab " + program_version();
  return (is_library_file(policy.library) ? "xxh3 " : "python ") + digest_of_origin(policy.library);
}

/// A text as the file may hold it, whatever a scenario calls its things: without control
/// characters, and neither empty nor long.
std::string plain(std::string text) {
  constexpr std::size_t kLongest = 1000;
  for (std::size_t i = 0; i < text.size(); ++i)
    for (std::size_t bytes = control_character_at(text, i); bytes > 0; --bytes) text[i + bytes - 1] = '?';
  cut_text(text, kLongest);
  return text.empty() ? "?" : text;
}

/// Holds the file itself locked while it lives. Who replaced it meanwhile held the lock of one that has no
/// name any more: then the new one is locked.
class LockedFile {
 public:
  explicit LockedFile(const std::string& file) : file_(file) {
    do {
      close();
      descriptor_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
      if (descriptor_ < 0) fail("cannot be written");
      int status = 0;
      do status = ::flock(descriptor_, LOCK_EX);
      while (status != 0 && errno == EINTR);
      if (status != 0) fail("cannot be locked");
    } while (!is_under_its_name());
  }
  ~LockedFile() { close(); }
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;

 private:
  bool is_under_its_name() const {
    struct stat held {
    }, named{};
    return ::fstat(descriptor_, &held) == 0 && ::stat(file_.c_str(), &named) == 0 &&
           held.st_dev == named.st_dev && held.st_ino == named.st_ino;
  }
  void close() {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = -1;
  }
  [[noreturn]] void fail(const std::string& what) {
    const std::string reason = std::strerror(errno);
    close();
    throw InputError(file_, what + ": " + reason);
  }

  std::string file_;
  int descriptor_ = -1;
};

LeaderboardLine line_of(const PolicyComparison& c, const ComparedBlock& block, const ComparedPolicy& policy) {
  LeaderboardLine line = {.setting = block.setting,
                          .family = c.family,
                          .scenario = c.scenario,
                          .system = c.system,
                          .model = c.model,
                          .device = c.device,
                          .trace = block.trace,
                          .law = block.law,
                          .budget_bytes = block.bytes,
                          .first_seed = c.first_seed,
                          .seeds = c.seeds,
                          .policy = policy.policy,
                          .parameters = policy.all_parameters,
                          .library = library_of(policy),
                          .bound = policy.no_rival,
                          .by = c.by};
  for (const PolicySample& sample : policy.by_seed) line.by_seed_s.push_back(sample.seconds);
  const Interval time = interval95(line.by_seed_s);
  line.mean_s = time.mean;
  line.half_width_s = time.half_width;
  if (block.has_hits) line.hit_share = policy.mean_of(&PolicySample::hit_share);
  const ComparedPolicy* const bound = block.bound();
  if (bound == nullptr) return line;
  line.regret_s = line.mean_s - bound->mean_of(&PolicySample::seconds);
  if (block.has_hits) line.regret_hit_share = bound->mean_of(&PolicySample::hit_share) - *line.hit_share;
  return line;
}

}  // namespace

std::vector<LeaderboardLine> leaderboard_lines(const PolicyComparison& comparison, const std::string& date) {
  std::vector<LeaderboardLine> lines;
  for (const ComparedBlock& block : comparison.blocks)
    for (const ComparedPolicy& policy : block.policies) {
      if (!policy.refused.empty() || policy.requests.failed > 0) continue;
      lines.push_back(line_of(comparison, block, policy));
      lines.back().moelab = program_version();
      lines.back().date = date;
    }
  return lines;
}

LeaderboardTimeKeys leaderboard_time_keys(JudgedBy by) {
  if (by == JudgedBy::tpot) return {"tpot_by_seed_s", "tpot_s", "tpot_half_width_s"};
  return {"end_to_end_by_seed_s", "end_to_end_s", "end_to_end_half_width_s"};
}

std::string leaderboard_text(const LeaderboardLine& line) {
  Json json = {{"setting", line.setting},          {"family", line.family},
               {"scenario", plain(line.scenario)}, {"system", plain(line.system)},
               {"model", plain(line.model)},       {"device", plain(line.device)}};
  if (!line.trace.empty()) json["trace"] = plain(line.trace);
  if (!line.law.empty()) json["law"] = plain(line.law);
  json["budget_bytes"] = line.budget_bytes;
  json["first_seed"] = line.first_seed;
  json["seeds"] = line.seeds;
  json["policy"] = line.policy;
  json["parameters"] = Json::object();
  for (const auto& [name, value] : line.parameters) json["parameters"][name] = value;
  json["library"] = line.library;
  json["bound"] = line.bound;
  const LeaderboardTimeKeys keys = leaderboard_time_keys(line.by);
  json[keys.by_seed] = line.by_seed_s;
  json[keys.mean] = line.mean_s;
  json[keys.half_width] = line.half_width_s;
  if (line.hit_share) json["hit_share"] = *line.hit_share;
  if (line.regret_s) json["regret_s"] = *line.regret_s;
  if (line.regret_hit_share) json["regret_hit_share"] = *line.regret_hit_share;
  json["moelab"] = line.moelab;
  json["date"] = line.date;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

void append_to_leaderboard(const std::string& file, const std::vector<LeaderboardLine>& lines) {
  const LockedFile locked(file);
  std::string text = read_text_file(file);
  if (!text.empty() && text.back() != '\n') text += '\n';  // an editor left the last line open
  for (const LeaderboardLine& line : lines) text += leaderboard_text(line);
  if (text.size() > largest_text_file)
    throw InputError(file, "would be larger than a leaderboard may be, " +
                               std::to_string(largest_text_file >> 20) + " MiB; expected another file");
  AtomicFile whole(file);
  whole.write(std::as_bytes(std::span(text)));
  whole.commit();
}

}  // namespace moelab

#include "sim/explain/result_comparison.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "models/json.hpp"
#include "sim/results/cause_words.hpp"

namespace moelab {
namespace {

using Json = nlohmann::ordered_json;

std::string joined(const std::string& path, const std::string& key) {
  return path.empty() ? key : path + "." + key;
}

void add_differences(const std::string& path, const Json& a, const Json& b, std::vector<KeyDifference>& out);

/// Elements by number, as `--set` names them.
void add_list_differences(const std::string& path, const Json& a, const Json& b,
                          std::vector<KeyDifference>& out) {
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const std::string at = joined(path, std::to_string(i));
    if (i >= b.size())
      out.push_back({at, a[i].dump(), ""});
    else if (i >= a.size())
      out.push_back({at, "", b[i].dump()});
    else
      add_differences(at, a[i], b[i], out);
  }
}

void add_differences(const std::string& path, const Json& a, const Json& b, std::vector<KeyDifference>& out) {
  if (a == b) return;
  if (a.is_array() && b.is_array()) return add_list_differences(path, a, b, out);
  if (!a.is_object() || !b.is_object()) {
    out.push_back({path, a.dump(), b.dump()});
    return;
  }
  for (const auto& [key, value] : a.items())
    if (const auto other = b.find(key); other == b.end())
      out.push_back({joined(path, key), value.dump(), ""});
    else
      add_differences(joined(path, key), value, *other, out);
  for (const auto& [key, value] : b.items())
    if (!a.contains(key)) out.push_back({joined(path, key), "", value.dump()});
}

}  // namespace

std::vector<KeyDifference> document_differences(const std::string& a, const std::string& b) {
  std::vector<KeyDifference> differences;
  add_differences("", Json::parse(a), Json::parse(b), differences);
  const std::string listed = "systems.0", named = "system";
  for (KeyDifference& d : differences)
    if (d.path.starts_with(listed)) d.path.replace(0, listed.size(), named);
  return differences;
}

std::vector<std::pair<std::string, double>> seconds_a_token(const ResultFile& r) {
  const auto tokens = static_cast<double>(r.tokens);
  std::vector<std::pair<std::string, double>> causes;
  for (const auto& [cause, seconds] : r.latency_s) causes.emplace_back(cause, seconds / tokens);
  if (!causes.empty()) return causes;
  for (std::size_t c = 0; c < kCauses; ++c)
    if (r.stall_s[c] > 0) causes.emplace_back(kCauseNames[c], r.stall_s[c] / tokens);
  if (r.on_cluster) return causes;
  // Rounding of sums is no idleness.
  constexpr double kRounding = 1e-9;
  const double served = std::accumulate(r.stall_s.begin(), r.stall_s.end(), 0.0);
  if (const double idle = r.wall_s - served; idle > kRounding * r.wall_s)
    causes.emplace_back(kWaitingCause, idle / tokens);
  return causes;
}

Comparison compare(const ResultFile& a, const ResultFile& b) {
  Comparison c;
  c.keys = document_differences(a.document, b.document);
  for (const DataFile& file : b.data)
    if (std::none_of(a.data.begin(), a.data.end(),
                     [&](const DataFile& other) { return other.digest == file.digest; }))
      c.data.push_back(file.path);
  for (const auto& [cause, seconds] : seconds_a_token(a)) {
    c.causes.push_back({cause, seconds, 0});
    c.a_s += seconds;
  }
  for (const auto& [name, seconds] : seconds_a_token(b)) {
    const auto same = [&cause = name](const CauseDifference& d) { return d.cause == cause; };
    auto found = std::find_if(c.causes.begin(), c.causes.end(), same);
    if (found == c.causes.end()) found = c.causes.insert(c.causes.end(), {name, 0, 0});
    found->b_s = seconds;
    c.b_s += seconds;
  }
  std::stable_sort(c.causes.begin(), c.causes.end(), [](const CauseDifference& x, const CauseDifference& y) {
    return std::abs(x.a_s - x.b_s) > std::abs(y.a_s - y.b_s);
  });
  return c;
}

}  // namespace moelab

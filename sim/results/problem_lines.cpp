#include "sim/results/problem_lines.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string_view>
#include <utility>

namespace moelab {
namespace {

/// The name between the quotes behind "system ": where it begins, and its length; npos, where there is none.
std::pair<std::size_t, std::size_t> system_in(const std::string& what) {
  constexpr std::string_view kBefore = "system '";
  const std::size_t found = what.find(kBefore);
  if (found == std::string::npos) return {found, 0};
  const std::size_t begin = found + kBefore.size();
  return {begin, std::min(what.find('\'', begin), what.size()) - begin};
}

/// Which one of several a problem is of: the system that it names, else its file.
std::string subject_of(const Problem& problem) {
  const auto [begin, length] = system_in(problem.what);
  if (begin != std::string::npos) return problem.what.substr(begin, length);
  const std::string file = problem.file.substr(0, problem.file.find(" ("));  // "a.yaml (with budget=1)"
  return file.substr(file.rfind('/') + 1);
}

std::string with_line(const std::string& subject, const Problem& problem) {
  return subject + (problem.line > 0 ? ":" + std::to_string(problem.line) : "");
}

/// What it says of any.
std::string said_by(const Problem& problem) {
  const auto [begin, length] = system_in(problem.what);
  return begin == std::string::npos ? problem.what : std::string(problem.what).erase(begin, length);
}

}  // namespace

std::vector<std::string> problem_lines(const std::vector<Problem>& problems) {
  struct Line {
    const Problem* first;
    std::set<std::string> subjects;
    std::string others;
  };
  std::vector<Line> lines;
  std::map<std::string, std::size_t> known;
  for (const Problem& problem : problems) {
    const std::string subject = subject_of(problem);
    const auto [found, is_new] = known.emplace(said_by(problem), lines.size());
    // The same of the same file twice is said twice: it stands in two places.
    if (is_new || subject.empty() || lines[found->second].subjects.contains(subject)) {
      lines.push_back({&problem, {subject}, ""});
      continue;
    }
    Line& line = lines[found->second];
    line.subjects.insert(subject);
    line.others += (line.others.empty() ? "" : ", ") + with_line(subject, problem);
  }
  std::vector<std::string> texts;
  for (const Line& line : lines)
    texts.push_back(to_string(*line.first) +
                    (line.others.empty() ? "" : " (the same of " + line.others + ")"));
  return texts;
}

}  // namespace moelab

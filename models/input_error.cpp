#include "models/input_error.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <tuple>
#include <utility>

namespace moelab {
namespace {

constexpr std::size_t longest_list_shown = 16;

std::string join(const std::vector<Problem>& problems) {
  std::string text;
  for (const Problem& problem : problems) {
    if (!text.empty()) text += '\n';
    text += to_string(problem);
  }
  return text;
}

/// Optimal string alignment: insertions, deletions and substitutions of one character and swaps of two
/// neighbours cost one each, and no part is edited twice.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before, last(b.size() + 1), row(b.size() + 1);  // of i - 2, i - 1, i letters of a
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1), last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::string to_string(const Problem& problem) {
  std::string place = problem.file;
  for (const int number : {problem.line, problem.line > 0 ? problem.column : 0}) {
    if (number <= 0) break;
    if (!place.empty()) place += ':';
    place += std::to_string(number);
  }
  return place.empty() ? problem.what : place + ": " + problem.what;
}

InputError::InputError(std::vector<Problem> problems)
    : std::runtime_error(join(problems)), problems_(std::move(problems)) {}

InputError::InputError(std::string file, std::string what)
    : InputError(std::vector<Problem>{{std::move(file), 0, 0, std::move(what)}}) {}

void Problems::add(Problem problem) {
  if (problems_.size() < kMost)
    problems_.push_back(std::move(problem));
  else
    ++more_;
}

void Problems::forget_after(std::size_t count) {
  if (count < problems_.size())
    problems_.erase(problems_.begin() + static_cast<std::ptrdiff_t>(count), problems_.end());
}

void Problems::throw_if_any() const {
  if (problems_.empty()) return;
  std::vector<Problem> sorted = problems_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Problem& a, const Problem& b) {
    return std::tie(a.file, a.line, a.column) < std::tie(b.file, b.line, b.column);
  });
  const auto same = [](const Problem& a, const Problem& b) {
    return std::tie(a.file, a.line, a.column, a.what) == std::tie(b.file, b.line, b.column, b.what);
  };
  sorted.erase(std::unique(sorted.begin(), sorted.end(), same), sorted.end());
  if (more_ > 0) sorted.push_back({"", 0, 0, "and " + std::to_string(more_) + " problems more"});
  throw InputError(std::move(sorted));
}

void cut_text(std::string& text, std::size_t most_bytes) {
  if (text.size() <= most_bytes) return;
  // Not in the middle of a character: the continuation bytes of UTF-8 are 10xxxxxx.
  while (most_bytes > 0 && (static_cast<unsigned char>(text[most_bytes]) & 0xc0u) == 0x80u) --most_bytes;
  text.resize(most_bytes);
}

std::string shown_word(std::string_view word) {
  std::string text(word.substr(0, 60));
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e) c = '?';
  return text;
}

std::string printable(std::string_view text, std::size_t limit) {
  std::string shown(text.substr(0, limit));
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text.size() > limit ? shown + "..." : shown;
}

std::string_view said_by_library(std::string_view what) {
  const std::size_t end = what.starts_with('[') ? what.find("] ") : what.npos;
  return end == what.npos ? what : what.substr(end + 2);
}

namespace {

/// The letters and digits of a name, in lower case.
std::string bare(std::string_view name) {
  std::string letters;
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)))
      letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return letters;
}

/// Whether a name has the letters and digits of another within it, in their order.
bool has_in_order(std::string_view name, std::string_view wanted) {
  const std::string letters = bare(name), of_wanted = bare(wanted);
  std::size_t found = 0;
  for (const char c : letters)
    if (found < of_wanted.size() && of_wanted[found] == c) ++found;
  return found == of_wanted.size();
}

}  // namespace

std::string closest_name(std::string_view name, std::span<const std::string> known) {
  const std::string* closest = nullptr;
  std::size_t smallest = 0;
  for (const std::string& candidate : known) {
    const std::size_t shorter = std::min(name.size(), candidate.size());
    const std::size_t longer = std::max(name.size(), candidate.size());
    // The distance is at least the difference of the lengths: a huge name costs nothing.
    if (3 * (longer - shorter) > longer) continue;
    const std::size_t distance = edit_distance(name, candidate);
    if (3 * distance > longer || (closest != nullptr && distance > smallest)) continue;
    if (closest != nullptr && distance == smallest &&
        (has_in_order(*closest, name) || !has_in_order(candidate, name)))
      continue;
    closest = &candidate;
    smallest = distance;
  }
  return closest != nullptr ? *closest : std::string();
}

namespace {

/// The shortest known name that the letters of `name` are a part of ("q4_k_m" of "gguf-q4_k_m"), or "".
std::string name_around(std::string_view name, std::span<const std::string> known) {
  constexpr std::size_t kFewest = 3, kMost = 64;  // letters that say anything, and that any name has
  if (name.size() > kMost) return {};
  const std::string letters = bare(name);
  if (letters.size() < kFewest) return {};
  std::string shortest;
  for (const std::string& candidate : known)
    if (bare(candidate).find(letters) != std::string::npos &&
        (shortest.empty() || candidate.size() < shortest.size()))
      shortest = candidate;
  return shortest;
}

}  // namespace

std::string suggestion(std::string_view name, std::span<const std::string> known) {
  std::string closest = closest_name(name, known);
  if (closest.empty()) closest = name_around(name, known);
  if (!closest.empty()) return " (did you mean '" + closest + "'?)";
  if (known.empty() || known.size() > longest_list_shown) return {};
  std::string text = " (known: ";
  for (std::size_t i = 0; i < known.size(); ++i) text += (i > 0 ? ", " : "") + known[i];
  return text + ")";
}

}  // namespace moelab

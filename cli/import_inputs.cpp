#include "cli/import_inputs.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "models/input_error.hpp"
#include "models/name_pattern.hpp"
#include "traces/trace_edit.hpp"

namespace moelab::cli {
namespace {

constexpr std::size_t kMostFiles = 10'000;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// '*' any text, '?' any byte; brackets are themselves.
NamePattern pattern_of(const std::string& text) {
  std::string wildcard;
  for (const char c : text) wildcard += c == '[' ? std::string("[[]") : std::string(1, c);
  return NamePattern::wildcard(wildcard);
}

/// The number that begins at `at`, without leading zeros; moves behind it.
std::string_view number_at(std::string_view text, std::size_t& at) {
  const std::size_t begin = at;
  while (at < text.size() && is_digit(text[at])) ++at;
  std::string_view number = text.substr(begin, at - begin);
  while (number.size() > 1 && number.front() == '0') number.remove_prefix(1);
  return number;
}

bool comes_before(std::string_view a, std::string_view b) {
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (is_digit(a[i]) && is_digit(b[j])) {
      const std::string_view x = number_at(a, i), y = number_at(b, j);
      if (x.size() != y.size()) return x.size() < y.size();
      if (x != y) return x < y;
    } else {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i;
      ++j;
    }
  }
  if ((i < a.size()) != (j < b.size())) return j < b.size();
  return a < b;  // 07 and 7
}

/// Files of imports under way, which go when it ends.
class Parts {
 public:
  explicit Parts(std::filesystem::path out) : out_(std::move(out)) {}
  ~Parts() {
    std::error_code ignored;
    for (const std::filesystem::path& part : made_) std::filesystem::remove(part, ignored);
  }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;
  std::filesystem::path next() {
    made_.push_back(out_.string() + ".part-" + std::to_string(made_.size()));
    return made_.back();
  }

 private:
  std::filesystem::path out_;
  std::vector<std::filesystem::path> made_;
};

}  // namespace

std::vector<std::string> input_files(const std::string& pattern) {
  std::error_code error;
  if (pattern.find_first_of("*?") == std::string::npos || std::filesystem::exists(pattern, error))
    return {pattern};
  const std::filesystem::path path(pattern);
  const std::filesystem::path folder =
      path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  if (!std::filesystem::is_directory(folder, error))
    throw InputError(pattern, "matches no file: there is no folder " + folder.string() +
                                  "; '*' and '?' may stand in the last part of a name");
  const NamePattern wanted = pattern_of(path.filename().string());
  std::vector<std::string> names, others;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_regular_file(error)) continue;
    (wanted.fits(name) ? names : others).push_back(name);
  }
  if (names.empty())
    throw InputError(
        pattern, "matches none of the " + std::to_string(others.size()) + " files in " + folder.string() +
                     (others.empty() ? "" : ", such as " + *std::min_element(others.begin(), others.end())));
  if (names.size() > kMostFiles)
    throw InputError(pattern, "matches " + std::to_string(names.size()) + " files; at most " +
                                  std::to_string(kMostFiles) +
                                  " at once (moelab trace merge puts traces together)");
  std::sort(names.begin(), names.end(), comes_before);
  for (std::string& name : names)
    if (path.has_parent_path()) name = (folder / name).string();
  return names;
}

ImportCounts import_files(
    const ImportOptions& options,
    const std::function<ImportCounts(const std::string& input, const ImportTarget&)>& import) {
  const std::vector<std::string> files = input_files(options.input);
  if (files.size() == 1) return import(files.front(), options.target);
  Parts parts(options.target.out);
  std::vector<RoutingTrace> traces;
  ImportCounts counts;
  for (const std::string& file : files) {
    ImportTarget target = options.target;
    target.out = parts.next();
    counts.prompt_tokens += import(file, target).prompt_tokens;
    traces.push_back(read_routing_trace(target.out.string()));
  }
  counts.tokens = write_merged(traces, files, options.target.model, options.target.out);
  return counts;
}

}  // namespace moelab::cli

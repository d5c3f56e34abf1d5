#include "traces/import/counts_import.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

#include "models/input_error.hpp"
#include "models/text_file.hpp"
#include "traces/import/csv_reader.hpp"
#include "traces/import/domain_names.hpp"
#include "traces/import/json_values.hpp"
#include "traces/import/token_assembler.hpp"

namespace moelab {
namespace {

constexpr std::uint64_t kMostCounts = std::uint64_t{1} << 30;  // 8 GiB
constexpr double kLargestWhole = 9007199254740992.0;           // 2^53
constexpr double kWholeWithin = 1e-6;  // of a share times its scale: decimals are not exact in binary

class CountsCsv {
 public:
  CountsCsv(const std::filesystem::path& input, const CountColumns& columns, const Progress& progress)
      : csv_(input, progress), columns_(columns), layer_(csv_.column(columns.layer)) {
    for (const std::string& name : columns.prompt) prompt_.push_back(csv_.column(name));
    for (const std::string& name : columns.experts) wide_.push_back(csv_.column(name));
    for (const auto& [name, value] : columns.where) where_.emplace_back(csv_.column(name), value);
    for (const auto& [name, value] : columns.except) except_.emplace_back(csv_.column(name), value);
    if (wide_.empty()) {
      expert_ = csv_.column(columns.expert);
      count_ = csv_.column(columns.count);
    }
    experts_ = columns.expert_count != 0 ? columns.expert_count : static_cast<std::uint32_t>(wide_.size());
    if (experts_ == 0 || (!wide_.empty() && wide_.size() != experts_))
      throw InputError("--experts",
                       "must say how many experts a layer has, as many as there are columns of them");
  }

  CountsTable run() {
    while (csv_.next()) {
      if (!wanted()) continue;
      read_row();
      last_line_ = csv_.line();
    }
    CountsTable result = table();
    if (!columns_.sparse && wide_.empty()) check_end();
    return result;
  }

 private:
  bool wanted() const {
    const auto matches = [&](const auto& pair) { return csv_.field(pair.first) == pair.second; };
    return std::all_of(where_.begin(), where_.end(), matches) &&
           std::none_of(except_.begin(), except_.end(), matches);
  }

  void read_row() {
    std::string prompt;
    for (std::size_t i = 0; i < prompt_.size(); ++i) {
      prompt += i > 0 ? "/" : "";
      prompt += csv_.field(prompt_[i]);
    }
    if (!prompts_.add(prompt)) csv_.fail(prompt_.front(), std::string(DomainNames::kTooMany));
    last_ = {prompts_.number_of(prompt), csv_.unsigned_at(layer_, "a layer's number, from 0")};
    Cells& cells = cells_[last_];
    if (cells.empty()) {
      if (cells_.size() * experts_ > kMostCounts) csv_.fail(layer_, "more counts than memory should hold");
      cells.resize(experts_);
    }
    if (wide_.empty()) {
      const std::uint64_t expert = csv_.unsigned_at(expert_, "an expert's number, from 0");
      if (expert >= experts_)
        csv_.fail(expert_, "expert " + std::to_string(expert) + " is out of range: there are " +
                               std::to_string(experts_) + " experts, from 0");
      set(cells[expert], count_);
    } else {
      for (std::size_t i = 0; i < wide_.size(); ++i) set(cells[i], wide_[i]);
    }
  }

  using Cells = std::vector<std::optional<std::uint64_t>>;

  static std::size_t listed(const Cells& cells) {
    return static_cast<std::size_t>(
        std::count_if(cells.begin(), cells.end(), [](const auto& cell) { return cell.has_value(); }));
  }
  static double sum(const Cells& cells) {
    double uses = 0;
    for (const auto& cell : cells) uses += static_cast<double>(cell.value_or(0));
    return uses;
  }

  /// A table that ends in the middle of its last layer.
  void check_end() const {
    const Cells& end = cells_.at(last_);
    if (listed(end) == experts_) return;
    bool all_listed = cells_.size() > 1, all_alike = true;
    std::size_t others = 0;  // layers of the same prompt
    std::optional<double> uses;
    for (const auto& [place, cells] : cells_) {
      if (place == last_) continue;
      all_listed = all_listed && listed(cells) == experts_;
      if (place.first != last_.first) continue;
      ++others;
      all_alike = all_alike && sum(cells) == uses.value_or(sum(cells));
      uses = sum(cells);
    }
    const bool comparable = others > 0 && all_alike;
    if (comparable && sum(end) >= *uses) return;
    const bool fewer = comparable && others > 1;
    if (!all_listed && !fewer) return;
    const std::string& prompt = prompts_.names()[last_.first];
    throw InputError(std::vector{Problem{
        csv_.name(), static_cast<int>(last_line_), 0,
        "the table ends with " + std::to_string(listed(end)) + " of " + std::to_string(experts_) +
            " experts of layer " + std::to_string(last_.second) +
            (prompt.empty() ? "" : " of prompt " + shown(prompt)) +
            (all_listed
                 ? "; every other layer lists all, so it seems cut"
                 : "; its uses are fewer than those of the prompt's other layers, which are all alike, so it "
                   "seems cut") +
            ". Copy it again, or say --sparse if the experts not listed were never used"}});
  }

  void set(std::optional<std::uint64_t>& cell, std::size_t column) {
    if (cell) csv_.fail(column, "a second count for the same prompt, layer and expert");
    const double value = csv_.number_at(column, "a count") * columns_.scale;
    const double whole = std::round(value);
    if (value < 0 || value > kLargestWhole) csv_.fail(column, "a count that is negative or above 2^53");
    if (std::abs(value - whole) > kWholeWithin * std::max(1.0, whole))
      csv_.fail(column, shown(csv_.field(column)) + " is not a whole count; shares need --scale");
    cell = static_cast<std::uint64_t>(whole);
  }

  CountsTable table() const {
    CountsTable result;
    result.experts = experts_;
    result.prompts = prompts_.names().size();
    if (result.prompts == 0) throw InputError(csv_.name(), "has no rows of counts");
    std::map<std::uint64_t, std::uint64_t> layers;
    for (const auto& [place, cells] : cells_) ++layers[place.second];
    for (const auto& [layer, prompts] : layers) {
      if (prompts != result.prompts)
        throw InputError(csv_.name(), "has layer " + std::to_string(layer) + " for " +
                                          std::to_string(prompts) + " of " + std::to_string(result.prompts) +
                                          " prompts; every prompt must have every layer");
      result.layer_numbers.push_back(layer);
    }
    result.layers = static_cast<std::uint32_t>(result.layer_numbers.size());
    for (const auto& [place, cells] : cells_) {  // by prompt, then layer
      for (const auto& cell : cells) result.counts.push_back(cell.value_or(0));
    }
    if (prompt_.empty()) return result;
    result.domains = prompts_.names();
    for (std::uint64_t i = 0; i < result.prompts; ++i)
      result.prompt_domains.push_back(static_cast<std::uint16_t>(i));
    return result;
  }

  CsvReader csv_;
  const CountColumns& columns_;
  std::size_t layer_, expert_ = 0, count_ = 0;
  std::vector<std::size_t> prompt_, wide_;
  std::vector<std::pair<std::size_t, std::string>> where_, except_;
  std::uint32_t experts_ = 0;
  DomainNames prompts_;
  std::map<std::pair<std::uint16_t, std::uint64_t>, Cells> cells_;  // by prompt and layer
  std::pair<std::uint16_t, std::uint64_t> last_;                    // of the row read last
  std::uint64_t last_line_ = 0;
};

std::vector<std::uint64_t> count_up(std::uint64_t count) {
  std::vector<std::uint64_t> numbers(count);
  for (std::uint64_t i = 0; i < count; ++i) numbers[i] = i;
  return numbers;
}

void check_numbers(const std::string& file, const std::vector<std::int64_t>& numbers) {
  const auto negative = std::find_if(numbers.begin(), numbers.end(), [](std::int64_t n) { return n < 0; });
  if (negative != numbers.end())
    throw InputError(file, "count " + std::to_string(negative - numbers.begin()) +
                               " is negative: " + std::to_string(*negative));
}

CountsTable from_array(NpyArray& array, std::vector<std::uint64_t> shape) {
  std::uint64_t size = 1;
  for (const std::uint64_t extent : shape) {
    if (extent == 0 || size > kMostCounts / extent)
      throw InputError(array.name(), "the counts have the shape " + array.shape_text() +
                                         ", which is empty or more than memory should hold");
    size *= extent;
  }
  CountsTable table;
  array.expect(size, "counts");
  table.prompts = shape[0];
  table.layers = static_cast<std::uint32_t>(shape[1]);
  table.experts = static_cast<std::uint32_t>(shape[2]);
  table.layer_numbers = count_up(table.layers);
  std::vector<std::int64_t> numbers(shape[1] * shape[2]);
  for (std::uint64_t prompt = 0; prompt < table.prompts; ++prompt) {
    array.read(numbers, "counts");
    check_numbers(array.name(), numbers);
    table.counts.insert(table.counts.end(), numbers.begin(), numbers.end());
  }
  array.expect_end();
  return table;
}

}  // namespace

CountsTable import_counts_csv(const std::filesystem::path& input, const CountColumns& columns,
                              const Progress& progress) {
  return CountsCsv(input, columns, progress).run();
}

CountsTable import_counts_raw(const std::filesystem::path& input, const RawCounts& how,
                              const Progress& progress) {
  if (how.layers == 0 || how.experts == 0)
    throw InputError("--layers and --experts", "must give the shape: raw numbers have none of their own");
  CsvReader csv(how.index);
  const std::size_t prompts = csv.column(how.prompts);
  const bool has_domain = !how.domain.empty();
  const std::size_t domain = has_domain ? csv.column(how.domain) : 0;
  DomainNames domains;
  std::vector<std::uint16_t> prompt_domains;
  std::uint64_t total = 0;
  while (csv.next()) {
    const std::uint64_t count = csv.unsigned_at(prompts, "a number of prompts");
    if (count > kMostCounts / (std::uint64_t{how.layers} * how.experts) - total)
      csv.fail(prompts, "more prompts than memory should hold");
    total += count;
    if (!has_domain) continue;
    if (!domains.add(csv.field(domain))) csv.fail(domain, std::string(DomainNames::kTooMany));
    prompt_domains.insert(prompt_domains.end(), count, domains.number_of(csv.field(domain)));
  }
  NpyArray array(InputStream(input, progress), how.type, {total, how.layers, how.experts});
  CountsTable table = from_array(array, array.shape());
  table.domains = domains.names();
  table.prompt_domains = std::move(prompt_domains);
  return table;
}

CountsTable import_counts_npy(const std::filesystem::path& input, const Progress& progress) {
  NpyArray array(InputStream(input, progress));
  std::vector<std::uint64_t> shape = array.shape();
  if (shape.size() == 2) shape.insert(shape.begin(), 1);
  if (shape.size() != 3)
    throw InputError(array.name(), "the counts have the shape " + array.shape_text() +
                                       "; expected [prompts, layers, experts] or [layers, experts]");
  return from_array(array, std::move(shape));
}

CountsTable counts_from_numbers(const std::string& file, const std::string& what,
                                const std::vector<std::int64_t>& numbers, std::vector<std::uint64_t> shape,
                                const std::vector<std::int64_t>& map) {
  if (shape.size() == 2) shape.insert(shape.begin(), 1);
  if (shape.size() != 3 || numbers.empty() || shape[1] > kNoExpert || shape[2] > kNoExpert)
    throw InputError(file,
                     shown(what) + " is not whole numbers [layers, experts] or [steps, layers, experts]");
  check_numbers(file, numbers);
  const std::uint64_t width = shape[1] * shape[2];
  if (!map.empty() && map.size() != width)
    throw InputError(file,
                     "the map of physical to logical experts does not have the shape of " + shown(what));
  std::int64_t highest = static_cast<std::int64_t>(shape[2]) - 1;
  if (!map.empty()) {
    highest = *std::max_element(map.begin(), map.end());
    if (*std::min_element(map.begin(), map.end()) < 0 || highest >= static_cast<std::int64_t>(shape[2]))
      throw InputError(file, "the map of physical to logical experts has a number out of range");
  }
  CountsTable table;
  table.layers = static_cast<std::uint32_t>(shape[1]);
  table.experts = static_cast<std::uint32_t>(highest + 1);
  table.layer_numbers = count_up(table.layers);
  for (std::uint64_t step = 0; step < shape[0]; ++step) {
    const auto begin = numbers.begin() + static_cast<std::ptrdiff_t>(step * width);
    if (std::all_of(begin, begin + static_cast<std::ptrdiff_t>(width), [](std::int64_t n) { return n == 0; }))
      continue;
    const std::size_t first = table.counts.size();
    table.counts.resize(first + std::size_t{table.layers} * table.experts);
    for (std::uint64_t i = 0; i < width; ++i) {
      const auto expert = map.empty() ? i % shape[2] : static_cast<std::uint64_t>(map[i]);
      std::uint64_t& count = table.counts[first + i / shape[2] * table.experts + expert];
      const auto more = static_cast<std::uint64_t>(begin[static_cast<std::ptrdiff_t>(i)]);
      if (more > std::numeric_limits<std::uint64_t>::max() - count)
        throw InputError(file, "counts add up to more than 2^64");
      count += more;
    }
    ++table.prompts;
  }
  if (table.prompts == 0) throw InputError(file, shown(what) + " counts nothing: all its numbers are 0");
  return table;
}

CountsTable import_counts_json(const std::filesystem::path& input) {
  const std::string text = read_text_file(input);
  const auto wanted = [](std::string_view path) {
    return path == "logical_count" || path == "physical_count" || path == "physical_to_logical_map";
  };
  const JsonValues values = read_json_values(text, wanted, input.string(), 0);
  const auto logical = values.find("logical_count"), physical = values.find("physical_count"),
             map = values.find("physical_to_logical_map");
  const auto found = logical != values.end() ? logical : physical;
  if (found == values.end())
    throw InputError(input.string(), "has neither 'logical_count' nor 'physical_count'");
  const bool mapped = found == physical && found != logical;
  if (mapped && map == values.end())
    throw InputError(input.string(), "has 'physical_count' without 'physical_to_logical_map'");
  if (mapped && map->second.size() == 0)
    throw InputError(input.string(), "has a 'physical_to_logical_map' without numbers");
  if (!found->second.whole || (mapped && !map->second.whole))
    throw InputError(input.string(), "has counts or a map that are not whole numbers");
  return counts_from_numbers(input.string(), found->first, found->second.integers, found->second.shape,
                             mapped ? map->second.integers : std::vector<std::int64_t>());
}

}  // namespace moelab

#include "experiments/serving/published_points.hpp"

#include <array>
#include <cmath>
#include <set>
#include <sstream>
#include <string_view>

#include "models/input_error.hpp"
#include "traces/import/csv_reader.hpp"

namespace moelab::published {
namespace {

constexpr double kMostTokens = 1e9;  // of all requests of a run

class PointReader {
 public:
  explicit PointReader(CsvReader& csv) : csv_(csv) {}

  ServingPoint read() const {
    ServingPoint p;
    p.id = text("id");
    p.source = text("source");
    p.date = text("date");
    p.runtime = text("runtime");
    p.version = text("version");
    p.model = text("model");
    p.weights = text("weights");
    p.gpu = text("gpu");
    p.gpus = static_cast<int>(count("gpus", 1, 1024).value_or(1));
    p.tensor_parallel = static_cast<int>(count("tensor_parallel", 1, 1024).value_or(1));
    p.data_parallel = static_cast<int>(count("data_parallel", 1, 1024).value_or(1));
    p.expert_parallel = count("expert_parallel", 0, 1).value_or(0) == 1;
    p.options = options();
    p.users = count("users", 1, 1'000'000);
    p.rate = number("rate");
    const auto requests = count("requests", 1, 1'000'000);
    if (!requests) csv_.fail(csv_.column("requests"), "expected a number of requests");
    p.requests = *requests;
    read_lengths(p);
    p.measured = figures();
    const std::string grade = text("grade");
    if (!grade.empty() && grade != "A" && grade != "B" && grade != "C")
      csv_.fail(csv_.column("grade"), "expected A, B or C");
    p.grade = grade.empty() ? 'C' : grade.front();
    p.notes = text("notes");
    return p;
  }

 private:
  std::string text(const char* name) const { return std::string(csv_.field(csv_.column(name))); }

  std::optional<std::uint64_t> count(const char* name, std::uint64_t least, std::uint64_t most) const {
    const std::size_t at = csv_.column(name);
    if (csv_.field(at).empty()) return {};
    const std::uint64_t n = csv_.unsigned_at(at, "a whole number");
    if (n < least || n > most)
      csv_.fail(at, "expected a number from " + std::to_string(least) + " to " + std::to_string(most));
    return n;
  }

  /// Above 0.
  std::optional<double> number(const std::string& name) const {
    const std::size_t at = csv_.column(name);
    if (csv_.field(at).empty()) return {};
    const double n = csv_.number_at(at, "a number");
    if (!(n >= 1e-9 && n <= 1e12)) csv_.fail(at, "expected more than nothing");
    return n;
  }

  std::map<std::string, std::string> options() const {
    std::map<std::string, std::string> all;
    std::istringstream words(text("options"));
    for (std::string word; words >> word;) {
      const std::size_t equals = word.find('=');
      if (equals == std::string::npos || equals == 0)
        csv_.fail(csv_.column("options"), "expected KEY=VALUE, not " + shown(word));
      all[word.substr(0, equals)] = word.substr(equals + 1);
    }
    return all;
  }

  /// "1024" or "1-1024".
  LengthRange range(const char* name) const {
    const std::size_t at = csv_.column(name);
    const std::string all = text(name);
    const std::size_t dash = all.find('-');
    const auto least = parse_number(all.substr(0, dash));
    const auto most = dash == std::string::npos ? least : parse_number(all.substr(dash + 1));
    if (!least || !most || !(1 <= *least && *least <= *most && *most <= kMostTokens))
      csv_.fail(at, "expected tokens, such as 1024 or 1-1024");
    return {*least, *most};
  }

  void read_lengths(ServingPoint& p) const {
    static constexpr std::array<std::string_view, 3> kShapes{"fixed", "uniform", "sharegpt"};
    const std::string shape = text("lengths");
    std::size_t found = 0;
    while (found < kShapes.size() && kShapes[found] != shape) ++found;
    if (found == kShapes.size())
      csv_.fail(csv_.column("lengths"), "expected fixed, uniform or sharegpt, not " + shown(shape));
    p.shape = static_cast<ServingPoint::Shape>(found);
    p.prompt_tokens_all = number("prompt_tokens");
    p.output_tokens_all = number("output_tokens");
    if (p.shape == ServingPoint::Shape::sharegpt) {
      for (const char* name : {"prompt_tokens", "output_tokens"})
        if (!number(name))
          csv_.fail(csv_.column(name), "expected the tokens of all requests: lengths are sharegpt");
      return;
    }
    p.prompt = range("prompt");
    p.output = range("output");
  }

  LatencyFigures latency(const std::string& name) const {
    return {number(name + "_mean_ms"), number(name + "_median_ms"), number(name + "_p99_ms")};
  }
  ServingFigures figures() const {
    return {number("requests_per_s"), number("output_tokens_per_s"), latency("ttft"), latency("tpot"),
            latency("itl")};
  }

  CsvReader& csv_;
};

}  // namespace

std::vector<ServingPoint> read_serving_points(const std::string& path) {
  CsvReader csv(path);
  const PointReader reader(csv);
  std::vector<ServingPoint> points;
  std::set<std::string> ids;
  while (csv.next()) {
    points.push_back(reader.read());
    if (!ids.insert(points.back().id).second)
      csv.fail(csv.column("id"), "expected an id of its own: another row has it");
  }
  return points;
}

}  // namespace moelab::published

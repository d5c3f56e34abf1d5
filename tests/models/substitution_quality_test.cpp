#include "models/substitution_quality.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <system_error>

#include "models/config_store.hpp"

namespace moelab::substitution_quality_test {
namespace {

const std::vector<std::string> kModels{"deepseek-moe-16b", "xverse-moe-a4.2b", "qwen2-57b-a14b"};

double accuracy(const std::string& model, const std::string& dataset, double alpha) {
  const auto expected = accuracy_after_substitution(model, alpha);
  REQUIRE(expected.has_value());
  for (const DatasetAccuracy& one : expected->datasets)
    if (one.dataset == dataset) return one.expected;
  FAIL("no data set " << dataset);
  return 0;
}

}  // namespace

TEST_CASE("accuracy after substitution: cells of the paper's Table IV") {
  CHECK(accuracy("deepseek-moe-16b", "GaoKao", 0) == 27.2);
  CHECK(accuracy("deepseek-moe-16b", "gsm8k", 0.35) == Approx(50.2));
  CHECK(accuracy("xverse-moe-a4.2b", "race", 0.3) == Approx(81.9));
  CHECK(accuracy("qwen2-57b-a14b", "gsm8k", 0.25) == Approx(85.6));
  CHECK(accuracy("qwen2-57b-a14b", "triviaqa", 0.6) == Approx(67.9));
}

TEST_CASE("accuracy after substitution is linear between the columns") {
  // GaoKao of DeepSeek: 28.2 at 0.1, 29.5 at 0.15.
  CHECK(accuracy("deepseek-moe-16b", "GaoKao", 0.125) == Approx((28.2 + 29.5) / 2));
  CHECK(accuracy("deepseek-moe-16b", "GaoKao", 0.11) == Approx(28.2 + 0.2 * 1.3));
  for (const std::string& model : kModels) {
    const auto unchanged = accuracy_after_substitution(model, 0);
    REQUIRE(unchanged.has_value());
    for (const DatasetAccuracy& at_zero : unchanged->datasets) {
      CHECK(at_zero.expected == at_zero.unchanged);
      for (int i = 0; i < 600; ++i) {
        const double a = i / 1000.0, b = (i + 1) / 1000.0;
        // No jump: the steepest rise in the table is 2.4 points in 0.05.
        CHECK(std::abs(accuracy(model, at_zero.dataset, b) - accuracy(model, at_zero.dataset, a)) <
              2.4 / 50 + 1e-9);
      }
    }
  }
}

TEST_CASE("accuracy after substitution: other models and thresholds have none") {
  for (const std::string& model : kModels) {
    CHECK(accuracy_after_substitution(model, 0.6).has_value());
    for (const double alpha : {-0.01, 0.600001, 1.0, std::numeric_limits<double>::quiet_NaN()})
      CHECK_FALSE(accuracy_after_substitution(model, alpha).has_value());
  }
  CHECK_FALSE(accuracy_after_substitution("mixtral-8x7b", 0.1).has_value());
  CHECK_FALSE(accuracy_after_substitution("", 0.1).has_value());
  const std::vector<std::string> known = config_names("models");
  for (const std::string& model : kModels) CHECK(std::count(known.begin(), known.end(), model) == 1);
}

// "Only negligible accuracy variation when the substitution threshold is below 0.35, and even improves
// accuracy in some cases": a misread digit would show as a large difference. Negligible is taken as 2 points.
TEST_CASE("accuracy after substitution: the table says what the paper's text says") {
  int better = 0;
  for (const std::string& model : kModels)
    for (int column = 1; column <= 7; ++column) {
      const auto expected = accuracy_after_substitution(model, column * 0.05);
      REQUIRE(expected->datasets.size() == 5);
      CHECK(expected->source.find("Table IV") != std::string::npos);
      for (const DatasetAccuracy& one : expected->datasets) {
        CHECK(one.expected > one.unchanged - 2);
        if (one.expected > one.unchanged + 0.05) ++better;
      }
    }
  CHECK(better > 0);
}

// All cells against the text of the paper, where it lies beside the sources.
TEST_CASE("accuracy after substitution: every cell is the paper's") {
  const std::filesystem::path folder = std::filesystem::path(MOELAB_SOURCE_DIR) / "../shared/papers";
  std::filesystem::path paper;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none))
    if (entry.path().filename().string().starts_with("001_")) paper = entry.path();
  if (paper.empty()) {
    WARN("skipped: no shared papers");
    return;
  }
  const std::map<std::string, std::string> names{
      {"Deepseek", kModels[0]}, {"Xverse", kModels[1]}, {"Qwen", kModels[2]}};
  std::ifstream text(paper);
  std::string line, dataset;
  int cells = 0;
  while (std::getline(text, line)) {
    std::istringstream row(line);
    std::string first, model, cell;
    if (!std::getline(row, first, '\t') || !std::getline(row, model, '\t') || names.count(model) == 0)
      continue;
    if (!first.empty()) dataset = first;
    for (int column = 0; std::getline(row, cell, '\t'); ++column, ++cells)
      CHECK(accuracy(names.at(model), dataset, column * 0.6 / 12) == Approx(std::stod(cell)).margin(1e-9));
  }
  CHECK(cells == 3 * 5 * 13);
}

}  // namespace moelab::substitution_quality_test

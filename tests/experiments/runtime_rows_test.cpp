// The table of rows computed again under runtimes: its rows, its verdicts, and where its runtimes are from.
#include "experiments/claims/runtime_rows.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cctype>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "models/runtime.hpp"
#include "tests/traces/trace_files.hpp"

namespace moelab::runtime_rows_test {

using namespace moelab::claims;
namespace {

/// A file and those that it stands on.
std::vector<Runtime> chain_of(const std::string& name) {
  std::vector<Runtime> chain = {load_runtime(name)};
  while (!chain.back().based_on.empty()) chain.push_back(load_runtime(chain.back().based_on));
  return chain;
}

RuntimeFigure figure(const std::string& id, double paper, double stated) {
  return {id, "what", paper, 1, stated, 2};
}

/// One for each row of all papers.
std::vector<RuntimeFigure> one_each() {
  std::vector<RuntimeFigure> all;
  for (const RuntimeRow& row : runtime_rows()) all.push_back(figure(row.id, 1, 1));
  return all;
}

}  // namespace

TEST_CASE("runtime rows: those that the issue names, each in runtimes that there are") {
  std::vector<std::string> ids;
  for (const RuntimeRow& row : runtime_rows()) {
    ids.push_back(row.id);
    CHECK(!row.claim.empty());
    CHECK(!row.other_end.empty());
    REQUIRE(!row.runtimes.empty());
    for (const std::string& name : row.runtimes) CHECK(load_runtime(name).name == name);
  }
  CHECK(ids == std::vector<std::string>{"Z13", "Z14", "Z15", "Z16", "Z17", "Z18", "Z19", "F3", "F4", "F5",
                                        "F6", "F7", "F8", "P1", "P2"});
}

TEST_CASE("runtime rows: no runtime of a paper was fitted on what it predicts") {
  for (const RuntimeRow& row : runtime_rows())
    for (const std::string& name : row.runtimes) {
      INFO(row.id << " " << name);
      const std::vector<Runtime> chain = chain_of(name);
      CHECK(!chain.front().sources.empty());
      for (const auto& [key, source] : chain.front().sources) CHECK(source.kind != Source::Kind::fitted);
      // What they stand on was fitted to nothing but the collection, which has no figure of the papers, dense
      // models in llama.cpp and NCCL's own times, which are in none.
      for (const Runtime& runtime : chain)
        for (const auto& [key, source] : runtime.sources)
          CHECK((source.kind != Source::Kind::fitted || key == "world" || key == "dense_models" ||
                 key == "nccl"));
    }
}

TEST_CASE("runtime rows: the collection that runtimes are fitted to has no figure of the papers") {
  std::string all = test::read_bytes(MOELAB_SOURCE_DIR "/experiments/world/collected.csv");
  std::transform(all.begin(), all.end(), all.begin(), [](unsigned char c) { return std::tolower(c); });
  REQUIRE(all.find("llama.cpp") != std::string::npos);
  for (const char* paper : {"zipmoe", "fluxmoe", "prism", "smoe"})
    CHECK(all.find(paper) == std::string::npos);
}

TEST_CASE("runtime rows: verdicts are those of the figures, 15 % is the most") {
  for (const auto& [paper, stated, within] :
       {std::tuple(100.0, 114.9, true), std::tuple(100.0, 85.1, true), std::tuple(100.0, 115.1, false),
        std::tuple(-0.3, -0.26, true), std::tuple(-0.3, 0.3, false)}) {
    const RuntimeFigure f = figure("Z16", paper, stated);
    CHECK(comes_within(f) == within);
    CHECK((line_of(f).find("| yes |") != std::string::npos) == within);
  }
  CHECK(line_of({"Z16", "+C", 5.18, 7.88, 5.21, 6.44}) ==
        "| Z16 | +C | 5.18 | 7.88 | 5.21 | 1.01 | yes | 6.44 |");
  const std::vector<RuntimeFigure> figures = {figure("F6", 1, 1), figure("F6", 1, 2), figure("F7", 1, 2),
                                              figure("F8", 1, 1)};
  CHECK(within_text(figures, "F6", &RuntimeFigure::stated) == "1 of 2");
  CHECK(within_text(figures, "F6", &RuntimeFigure::today) == "all");
  CHECK(within_text(figures, "F7", &RuntimeFigure::stated) == "none");
  CHECK(within_text(figures, "F8", &RuntimeFigure::stated) == "all");
}

TEST_CASE("runtime rows: every row of a paper has figures, and no other has") {
  std::vector<RuntimeFigure> all = one_each();
  CHECK_NOTHROW(check(all, "ZFP"));
  CHECK_THROWS_AS(check({}, "F"), std::logic_error);
  CHECK_NOTHROW(check({}, ""));
  all.pop_back();
  CHECK_THROWS_AS(check(all, "ZFP"), std::logic_error);
  CHECK_NOTHROW(check(all, "ZF"));
  all.push_back(figure("Z1", 1, 1));
  CHECK_THROWS_AS(check(all, "ZF"), std::logic_error);
  all.back() = figure("P2", 1, 1);
  all.back().what = "a | b";
  CHECK_THROWS_AS(check(all, "ZFP"), std::logic_error);
}

}  // namespace moelab::runtime_rows_test

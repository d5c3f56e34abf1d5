// Charts of what should not be drawn: wild values, wild texts, too many points, figures that are wrong.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "cli/plot/point_thinning.hpp"
#include "cli/plot/svg_chart.hpp"
#include "cli/plot/svg_text.hpp"
#include "models/input_error.hpp"
#include "tests/cli/xml_document.hpp"
#include "tests/random_runs.hpp"
#include "tests/scratch_folder.hpp"
#include "traces/random.hpp"

namespace moelab::svg_robustness_test {

using namespace moelab::plot;
using moelab::test::Element;
using moelab::test::parse_xml;

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

Figure figure_of(std::vector<Series> series, Axis x = {}, Axis y = {}) {
  Panel panel{.x = std::move(x), .y = std::move(y), .series = std::move(series)};
  return {.title = "t", .panels = {std::move(panel)}};
}

}  // namespace

TEST_CASE("all texts are escaped, whatever bytes they hold") {
  Random random(5);
  const std::vector<std::string> nasty{
      "<", ">",  "&", "\"", "'", "]]>", "\x01", "\xff", "\xC3", "\xED\xA0\x80", "\xEF\xBF\xBF",
      "é", "中", "😀", "a",  " ", "\n"};
  const auto any = [&] {
    std::string text;
    for (std::uint64_t i = random.below(30); i > 0; --i) text += nasty[random.below(nasty.size())];
    return text;
  };
  for (int i = 0; i < moelab::test::random_runs(300); ++i) {
    Figure figure =
        figure_of({{.name = any(), .x = {0, 1}, .y = {1, 2}, .mark = Mark::dots, .notes = {any(), any()}}},
                  {.label = any(), .unit = any()}, {.label = any(), .unit = any()});
    figure.title = any();
    figure.caption = any();
    figure.panels[0].title = any();
    figure.panels[0].categories = {any(), any()};
    REQUIRE_NOTHROW(parse_xml(svg(figure)));
  }
  Figure figure = figure_of({});
  figure.title = "a<b & \"c\" > d";
  CHECK(parse_xml(svg(figure)).all("title").at(0)->text == figure.title);
  CHECK(escaped("\"x\"\t\x1f") == "&quot;x&quot; \uFFFD");
}

TEST_CASE("coordinates have two decimals at most") {
  CHECK(coordinate_text(12.5) == "12.5");
  CHECK(coordinate_text(-0.004) == "0");
  CHECK(coordinate_text(-0.07) == "-0.07");
  CHECK(coordinate_text(1.0 / 3) == "0.33");
  CHECK(coordinate_text(-1234.999) == "-1235");
  Random random(6);
  for (int i = 0; i < moelab::test::random_runs(10000); ++i) {
    const double value = (random.uniform() - 0.5) * std::pow(10, 8 * random.uniform());
    REQUIRE(std::abs(std::stod(coordinate_text(value)) - value) <= 0.005 + 1e-8);
  }
}

TEST_CASE("thinning keeps the extremes of each column of pixels") {
  Random random(7);
  for (const Mark mark : {Mark::line, Mark::step, Mark::dots, Mark::bars}) {
    std::vector<Spot> spots;
    for (std::size_t i = 0; i < 50000; ++i) {
      const double x = mark == Mark::dots ? 300 * random.uniform() : static_cast<double>(i) / 50000 * 300;
      const double y = i % 9973 == 17 ? not_a_number : 200 * random.uniform();
      spots.push_back(
          {.index = i, .x = x, .y = y, .low = y + 10 * random.uniform(), .high = y - 10 * random.uniform()});
    }
    const std::vector<Spot> fewer = thinned(spots, mark);
    CHECK(fewer.size() < (mark == Mark::dots ? 18000 : 3000));
    for (const auto member : {&Spot::y, &Spot::low, &Spot::high})
      for (int column = 0; column < 300; ++column) {
        const auto extremes = [&](const std::vector<Spot>& all) {
          std::pair<double, double> ends{infinity, -infinity};
          for (const Spot& spot : all)
            if (!spot.gap() && std::floor(spot.x) == column)
              ends = {std::min(ends.first, spot.*member), std::max(ends.second, spot.*member)};
          return ends;
        };
        if (extremes(fewer) != extremes(spots)) FAIL("column " << column);
      }
    for (std::size_t i = 1; i < fewer.size(); ++i) REQUIRE(fewer[i - 1].index < fewer[i].index);
    if (mark == Mark::line)
      CHECK(std::count_if(fewer.begin(), fewer.end(), [](auto& s) { return s.gap(); }) == 6);
  }
  CHECK(thinned(std::vector<Spot>(2000), Mark::line).size() == 2000);
}

TEST_CASE("whatever the values, a chart is well formed and stays on its page") {
  Random random(9);
  const std::vector<double> wild{
      0,       1,     -1,       0.5,      3,         1e300,        -1e300, 1e301,        1e-300, 5e-324,
      -1e-310, 1e308, -1.8e307, infinity, -infinity, not_a_number, 1e15,   1e15 + 0.125, 7e-5};
  const auto value = [&] {
    return random.below(3) == 0 ? random.uniform() : wild[random.below(wild.size())];
  };
  const auto values = [&](std::size_t count) {
    std::vector<double> all(count);
    for (double& one : all) one = value();
    return all;
  };
  for (int round = 0; round < moelab::test::random_runs(2000); ++round) {
    Panel panel;
    const bool bars = random.below(2) == 0;
    if (!bars && random.below(2) == 0) panel.x.scale = ScaleKind::log;
    if (random.below(2) == 0) panel.y.scale = ScaleKind::log;
    if (random.below(3) == 0) panel.x.range = AxisRange{0.25, 0.25 + random.uniform() + 1e-8};
    if (random.below(3) == 0) panel.y.range = AxisRange{1e-9, 1e12};
    panel.diagonal = panel.x.scale == panel.y.scale && random.below(2) == 0;
    for (std::uint64_t i = random.below(3); i > 0; --i) {
      const std::size_t count = random.below(6);
      Series series{.name = "s", .x = values(count), .y = values(count)};
      if (random.below(2) == 0) series.low = values(count), series.high = values(count);
      series.mark = static_cast<Mark>(random.below(4));
      if (!bars && series.mark == Mark::bars) series.mark = Mark::step;
      panel.series.push_back(std::move(series));
    }
    HeatMap map{.rows = 2, .columns = 3, .values = values(6), .colour = {.scale = panel.y.scale}};
    const std::string text = svg({.panels = {panel, {.heat_map = map}}});
    if (text.find("nan") != std::string::npos || text.find("inf") != std::string::npos) FAIL(text);
    const Element root = parse_xml(text);
    for (const char* tag : {"circle", "rect", "text"})
      for (const Element* element : root.all(tag))
        for (const auto& [name, written] : element->attributes)
          if (name == "x" || name == "y" || name == "cx" || name == "cy") {
            const double at = std::stod(written);
            if (at < -100 || at > root.number("width")) FAIL(tag << " at " << written);
          }
  }
}

TEST_CASE("figures that are not as described are the programmer's error") {
  const Figure good = figure_of({{.name = "s", .x = {1, 2}, .y = {1, 2}}});
  CHECK_NOTHROW(svg(good));
  const auto rejects = [&](auto change) {
    Figure bad = good;
    change(bad, bad.panels[0], bad.panels[0].series[0]);
    CHECK_THROWS_AS(svg(bad), std::invalid_argument);
  };
  rejects([](Figure&, Panel&, Series& s) { s.x.pop_back(); });
  rejects([](Figure&, Panel&, Series& s) { s.low = {1, 2}; });
  rejects([](Figure&, Panel&, Series& s) { s.low = s.high = {1}; });
  rejects([](Figure&, Panel&, Series& s) { s.notes = {"one"}; });
  rejects([](Figure&, Panel& p, Series&) { p.y.range = AxisRange{1, 1}; });
  rejects([](Figure&, Panel& p, Series&) { p.y.range = AxisRange{0, not_a_number}; });
  rejects([](Figure&, Panel& p, Series&) { p.y = Axis{.scale = ScaleKind::log, .range = AxisRange{0, 1}}; });
  rejects([](Figure&, Panel& p, Series&) { p.categories = {"a", "b"}; });  // x = 2 is no place
  rejects([](Figure&, Panel& p, Series& s) { s.mark = Mark::bars, p.x.scale = ScaleKind::log; });
  rejects([](Figure&, Panel& p, Series&) { p.diagonal = true, p.x.scale = ScaleKind::log; });
  rejects([](Figure&, Panel& p, Series&) { p.heat_map = HeatMap{.rows = 1, .columns = 1, .values = {1}}; });
  rejects([](Figure&, Panel& p, Series&) {
    p.series.clear(), p.heat_map = HeatMap{.rows = 1, .columns = 2, .values = {1}};
  });
  rejects([](Figure& f, Panel&, Series&) { f.panel_width = 10; });
  rejects([](Figure& f, Panel&, Series&) { f.panel_height = not_a_number; });
}

TEST_CASE("a chart is written whole or the error names the file") {
  const test::ScratchFolder folder;
  const Figure figure = figure_of({{.name = "s", .x = {1, 2}, .y = {1, 2}}});
  write_svg(figure, folder / "a.svg");
  std::ifstream file(folder / "a.svg", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  CHECK(text == svg(figure));
  CHECK_THROWS_AS(write_svg(figure, folder / "a.svg/b.svg"), InputError);  // a file where a folder is needed
}

}  // namespace moelab::svg_robustness_test

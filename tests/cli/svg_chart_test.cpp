// Charts, read back as XML: where the data stand, what is left out, what is escaped.
#include "cli/plot/svg_chart.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "cli/plot/point_thinning.hpp"
#include "cli/plot/svg_text.hpp"
#include "models/input_error.hpp"
#include "tests/cli/xml_document.hpp"
#include "traces/random.hpp"

using namespace moelab;
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

// Pixels = offset + slope * (value or its logarithm), from the first and the last named tick of an axis: the
// lines and texts of a group come in turns, a minor tick having none.
struct Line {
  double offset = 0;
  double slope = 0;
  double at(double value) const { return offset + slope * value; }
};

Line axis_line(const Element& root, const std::string& group, const std::string& coordinate, bool log) {
  const Element& axis = *root.all("g", group).at(0);
  std::vector<std::pair<double, double>> ticks;  // value, pixels
  for (std::size_t i = 1; i < axis.children.size(); ++i) {
    const Element& text = axis.children[i];
    if (text.tag != "text" || axis.children[i - 1].tag != "line" || text.attributes.count("transform"))
      continue;
    if (std::isdigit(static_cast<unsigned char>(text.text.back())) == 0) continue;
    const double value = std::stod(text.text);
    ticks.emplace_back(log ? std::log10(value) : value, axis.children[i - 1].number(coordinate + "1"));
  }
  REQUIRE(ticks.size() >= 3);
  const double slope =
      (ticks.back().second - ticks.front().second) / (ticks.back().first - ticks.front().first);
  return {ticks.front().second - slope * ticks.front().first, slope};
}

std::string joined(const Element& element) {
  std::string text = element.text;
  for (const auto& [name, value] : element.attributes) text += ' ' + value;
  for (const Element& child : element.children) text += ' ' + joined(child);
  return text;
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("the reader of these tests rejects what is not well formed") {
  for (const char* bad : {"<a>", "<a></b>", "<a b=\"1\" b=\"2\"/>", "<a>&</a>", "<a b=1/>", "<a b=\"<\"/>",
                          "<a>\x01</a>", "<a>\xff</a>", "<a/><b/>", "<a>\xC0\x80</a>", "<a>\xED\xA0\x80</a>"})
    CHECK_THROWS_AS(parse_xml(bad), std::runtime_error);
  CHECK(parse_xml("<a b=\"&lt;\">x<c/>y</a>").text == "xy");
}

TEST_CASE("dots stand where the axes say") {
  Random random(4);
  for (int round = 0; round < 100; ++round) {
    const bool log = round % 2 == 1;
    Series series{.name = "s", .mark = Mark::dots};
    for (int i = 0; i < 20; ++i) {
      series.x.push_back(1 + 900 * random.uniform());
      series.y.push_back(log ? std::pow(10, 6 * random.uniform() - 3) : random.uniform() - 0.3);
    }
    const Axis y{.scale = log ? ScaleKind::log : ScaleKind::linear};
    const Element root = parse_xml(svg(figure_of({series}, {}, y)));
    const Line across = axis_line(root, "x-axis", "x", false);
    const Line down = axis_line(root, "y-axis", "y", log);
    const auto dots = root.all("g", "series").at(0)->all("circle");
    REQUIRE(dots.size() == 20);
    for (std::size_t i = 0; i < 20; ++i) {
      REQUIRE(dots[i]->number("cx") == Approx(across.at(series.x[i])).margin(0.05));
      const double value = log ? std::log10(series.y[i]) : series.y[i];
      REQUIRE(dots[i]->number("cy") == Approx(down.at(value)).margin(0.05));
    }
  }
}

TEST_CASE("bars reach from 0 to their value, groups side by side within their place") {
  const Series a{.name = "a", .x = {0, 1}, .y = {2, -1}, .mark = Mark::bars};
  const Series b{.name = "b", .x = {0, 1}, .y = {3, 4}, .mark = Mark::bars};
  Figure figure = figure_of({a, b});
  figure.panels[0].categories = {"first", "second"};
  const Element root = parse_xml(svg(figure));
  const Line down = axis_line(root, "y-axis", "y", false);
  std::vector<double> lefts;
  std::vector<double> widths;
  for (const Element* group : root.all("g", "series"))
    for (const Element* bar : group->all("rect")) {
      const double value = std::vector<double>{2, -1, 3, 4}.at(lefts.size());
      CHECK(bar->number("y") == Approx(down.at(std::max(value, 0.0))).margin(0.05));
      CHECK(bar->number("height") == Approx(std::abs(down.slope * value)).margin(0.05));
      lefts.push_back(bar->number("x"));
      widths.push_back(bar->number("width"));
    }
  REQUIRE(lefts.size() == 4);
  CHECK(lefts[2] == Approx(lefts[0] + widths[0]).margin(0.02));  // b beside a
  CHECK(lefts[1] >= lefts[2] + widths[2]);                       // the second group behind the first
  const double middle = root.all("g", "x-axis").at(0)->children.at(1).number("x1");  // the first tick
  CHECK(lefts[2] == Approx(middle).margin(0.02));
  // Two categories of equal width, the group using 0.8 of it: 4 bars' width is 0.8 of the axis.
  const double axis = root.all("g", "x-axis").at(0)->children.at(0).number("x2");
  CHECK(4 * widths[0] == Approx(0.8 * axis).margin(0.1));
}

TEST_CASE("what is no number is a gap") {
  const Series line{
      .name = "s", .x = {0, 1, 2, 3, not_a_number, 5, 6, 7}, .y = {1, 2, not_a_number, 4, 5, infinity, 7, 8}};
  const std::string text = svg(figure_of({line}));
  const Element root = parse_xml(text);
  CHECK(text.find("nan") == std::string::npos);
  CHECK(text.find("inf") == std::string::npos);
  CHECK(root.all("path", "line").size() == 2);  // 0-1 and 6-7; 3 stands alone
  CHECK(root.all("g", "series").at(0)->all("circle").size() == 5);

  const Series dots{.name = "s", .x = {1, 2, 3}, .y = {1, 0, -1}, .mark = Mark::dots};
  const Element log = parse_xml(svg(figure_of({dots}, {}, {.scale = ScaleKind::log})));
  CHECK(log.all("g", "series").at(0)->all("circle").size() == 1);
}

TEST_CASE("figures, panels and series without data are drawn all the same") {
  CHECK(parse_xml(svg({})).tag == "svg");
  const Element root =
      parse_xml(svg(figure_of({{.name = "s"}, {.name = "t", .x = {1}, .y = {not_a_number}}})));
  CHECK(joined(root).find("no data") != std::string::npos);
  Figure map{.panels = {{.heat_map = HeatMap{}}}};
  CHECK(joined(parse_xml(svg(map))).find("no data") != std::string::npos);
}

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
  for (int i = 0; i < 300; ++i) {
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
  for (int i = 0; i < 10000; ++i) {
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

TEST_CASE("one legend serves all panels of the same series, else each has its own") {
  const Series a{.name = "alpha", .x = {0, 1}, .y = {0, 1}};
  const Series b{.name = "beta", .x = {0, 1}, .y = {1, 0}};
  const Panel both{.series = {a, b}};
  const Panel turned{.series = {b, a}};
  const Panel one{.series = {b}};
  const Element shared = parse_xml(svg({.panels = {both, turned, both}}));
  CHECK(shared.all("g", "legend").size() == 1);
  CHECK(shared.all("pattern").size() == 1);  // two names in all, of which the first has no hatching
  const Element root = parse_xml(svg({.panels = {both, one}}));
  CHECK(root.all("g", "legend").size() == 2);
  // beta looks the same in both panels: the second series' colour and dashes.
  const auto lines = root.all("path", "line");
  REQUIRE(lines.size() == 3);
  CHECK(lines[1]->attributes.at("stroke") == lines[2]->attributes.at("stroke"));
  CHECK(lines[0]->attributes.at("stroke") != lines[1]->attributes.at("stroke"));
  CHECK(lines[1]->attributes.at("stroke-dasharray") == lines[2]->attributes.at("stroke-dasharray"));
  CHECK(lines[0]->attributes.count("stroke-dasharray") == 0);
}

TEST_CASE("the names along an axis do not touch") {
  Random random(8);
  for (int i = 0; i < 300; ++i) {
    const double from = (random.uniform() - 0.5) * std::pow(10, 12 * random.uniform());
    const Series series{.name = "s", .x = {from, from * (1.000002 + random.uniform())}, .y = {0, 1}};
    Figure figure = figure_of({series});
    figure.panel_width = 200;
    const Element root = parse_xml(svg(figure));
    double end = -1e9;
    for (const Element* text : root.all("g", "x-axis").at(0)->all("text")) {
      const double half = text_width(text->text, text->number("font-size")) / 2;
      REQUIRE(text->number("x") - half > end);
      end = text->number("x") + half;
    }
  }
}

TEST_CASE("the diagonal runs where x equals y") {
  Figure figure = figure_of({{.name = "s", .x = {1, 9}, .y = {2, 30}, .mark = Mark::dots}});
  figure.panels[0].diagonal = true;
  const Element root = parse_xml(svg(figure));
  const Line across = axis_line(root, "x-axis", "x", false);
  const Line down = axis_line(root, "y-axis", "y", false);
  const Element& line = *root.all("line", "diagonal").at(0);
  for (const std::string end : {"1", "2"}) {
    const double x = (line.number("x" + end) - across.offset) / across.slope;
    const double y = (line.number("y" + end) - down.offset) / down.slope;
    CHECK(x == Approx(y).margin(0.01));
  }
}

TEST_CASE("a heat map's cells tile the plot, gaps apart") {
  HeatMap map{
      .rows = 3, .columns = 4, .values = {0, 1, 1, not_a_number, 2, 2, 2, 2, 3, 0, 3, 0}, .colour = {}};
  const Element root = parse_xml(svg({.panels = {{.heat_map = map}}}));
  double area = 0;
  std::size_t rectangles = 0;
  for (const Element* path : root.all("g", "heat").at(0)->all("path")) {
    std::string d = path->attributes.at("d");
    for (char& c : d)
      if (std::isalpha(static_cast<unsigned char>(c)) != 0) c = ' ';
    std::istringstream numbers(d);
    for (double left, top, right, bottom, again; numbers >> left >> top >> right >> bottom >> again;
         ++rectangles) {
      CHECK(again == left);
      area += (right - left) * (bottom - top);
    }
  }
  CHECK(rectangles == 1 + 1 + 1 + 4);  // runs of one colour: 0 | 1 1 | 2 2 2 2 | 3 | 0 | 3 | 0
  const double width = root.all("g", "x-axis").at(0)->children.at(0).number("x2");
  const double height = root.all("g", "y-axis").at(0)->children.at(0).number("y2");
  CHECK(area == Approx(width * height * 11 / 12).epsilon(1e-3));
  CHECK(root.all("g", "heat").at(0)->all("path").size() == 4);
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
  for (int round = 0; round < 2000; ++round) {
    Panel panel;
    const bool bars = random.below(2) == 0;
    if (!bars && random.below(2) == 0) panel.x.scale = ScaleKind::log;
    if (random.below(2) == 0) panel.y.scale = ScaleKind::log;
    if (random.below(3) == 0) panel.x.range = Range{0.25, 0.25 + random.uniform() + 1e-8};
    if (random.below(3) == 0) panel.y.range = Range{1e-9, 1e12};
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
  rejects([](Figure&, Panel& p, Series&) { p.y.range = Range{1, 1}; });
  rejects([](Figure&, Panel& p, Series&) { p.y.range = Range{0, not_a_number}; });
  rejects([](Figure&, Panel& p, Series&) { p.y = Axis{.scale = ScaleKind::log, .range = Range{0, 1}}; });
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

TEST_CASE("bands, whiskers and tooltips") {
  const Series line{
      .name = "l", .x = {0, 1, 2}, .y = {1, 2, 3}, .low = {0, not_a_number, 2}, .high = {2, 3, 4}};
  CHECK(parse_xml(svg(figure_of({line}))).all("path", "band").empty());  // no two neighbours have one
  Series whole = line;
  whole.low[1] = 1;
  const Element root = parse_xml(svg(figure_of({whole})));
  REQUIRE(root.all("path", "band").size() == 1);
  CHECK(count_of(root.all("path", "band")[0]->attributes.at("d"), "L") == 5);
  Series dots = whole;
  dots.mark = Mark::dots;
  dots.notes = {"p0", "p1", "p2"};
  const Element marks =
      parse_xml(svg(figure_of({dots}, {.label = "load", .unit = "B"}, {.label = "time", .unit = "s"})));
  CHECK(marks.all("path", "whisker").size() == 3);
  const auto circles = marks.all("g", "series").at(0)->all("circle");
  REQUIRE(circles.size() == 3);
  CHECK(circles[1]->children.at(0).text == "p1: l, load 1 B, time 2 s (1 to 3)");
}

TEST_CASE("a chart is written whole or the error names the file") {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "moelab_svg_chart_test";
  std::filesystem::create_directories(folder);
  const Figure figure = figure_of({{.name = "s", .x = {1, 2}, .y = {1, 2}}});
  write_svg(figure, folder / "a.svg");
  std::ifstream file(folder / "a.svg", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  CHECK(text == svg(figure));
  CHECK_THROWS_AS(write_svg(figure, folder / "missing" / "a.svg"), InputError);
  std::filesystem::remove_all(folder);
}

#include "cli/plot/svg_chart.hpp"

#include <algorithm>
#include <span>
#include <stdexcept>
#include <utility>

#include "cli/plot/chart_layout.hpp"
#include "cli/plot/chart_legend.hpp"
#include "cli/plot/chart_panel.hpp"
#include "cli/plot/chart_style.hpp"
#include "cli/plot/svg_text.hpp"
#include "traces/atomic_file.hpp"

namespace moelab::plot {
namespace {

constexpr double border = 14;  // white around everything
constexpr double gap = 14;     // between panels
constexpr double title_font = 16;
constexpr double panel_title_height = 20;

// A figure on its way to the file. All plots have the same size, so that they can be compared; only heat maps
// are narrower, by what their colour bars take.
class Page {
 public:
  explicit Page(const Figure& figure);
  std::string drawn();

 private:
  struct Row {
    double top = 8;  // height of title and legend
    double legend_height = 0;
    double height = 0;
  };

  void settle_plot_size();
  void settle_rows();
  void draw_cell(std::size_t index, double x, double y, const Row& row);

  const Figure& figure_;
  std::size_t columns_ = 1;
  std::vector<std::string> names_;
  bool shared_legend_ = true;
  std::vector<PanelLayout> layouts_{};
  std::vector<Size> plots_{};
  std::vector<Margins> margins_{};
  std::vector<XNames> x_names_{};
  std::vector<LegendEntry> legend_{};  // the shared one
  std::vector<Row> rows_{};
  double left_ = 0;  // margin of all
  double width_ = 0;
  Xml xml_{};
};

Page::Page(const Figure& figure) : figure_(figure), names_(series_names(figure)) {
  const std::size_t count = figure.panels.size();
  const std::size_t wanted = figure.columns > 0 ? figure.columns : count == 4 ? 2 : 3;
  columns_ = std::clamp<std::size_t>(wanted, 1, std::max<std::size_t>(count, 1));
  shared_legend_ = legend_is_shared(figure, names_);
  if (shared_legend_)
    for (const Panel& panel : figure.panels)
      if (!panel.series.empty()) legend_ = legend_entries(panel, names_);
  for (const Panel& panel : figure.panels) layouts_.push_back(lay_out(panel));
  const auto across = static_cast<double>(columns_);
  width_ = 2 * border + across * figure.panel_width + (across - 1) * gap;
  settle_plot_size();
  settle_rows();
}

void Page::settle_plot_size() {
  double right = 0;
  for (const PanelLayout& layout : layouts_) {
    margins_.push_back(side_margins(layout));
    left_ = std::max(left_, margins_.back().left);
    if (!layout.panel->heat_map) right = std::max(right, margins_.back().right);
  }
  double least_bottom = figure_.panel_height;
  for (std::size_t i = 0; i < layouts_.size(); ++i) {
    Margins& margins = margins_[i];
    margins.left = left_;
    if (!layouts_[i].panel->heat_map) margins.right = right;
    plots_.push_back({std::max(figure_.panel_width - left_ - margins.right, 60.0), 0});
    x_names_.push_back(x_names(layouts_[i], margins, plots_[i].width));
    margins.bottom = bottom_margin(layouts_[i], x_names_[i]);
    least_bottom = std::min(least_bottom, margins.bottom);
  }
  for (Size& plot : plots_) plot.height = figure_.panel_height - least_bottom;
}

void Page::settle_rows() {
  rows_.resize((layouts_.size() + columns_ - 1) / columns_);
  for (std::size_t i = 0; i < layouts_.size(); ++i) {
    Row& row = rows_[i / columns_];
    const Panel& panel = *layouts_[i].panel;
    if (!panel.title.empty()) row.top = panel_title_height;
    if (!shared_legend_)
      row.legend_height = std::max(row.legend_height, draw_legend(nullptr, legend_entries(panel, names_), 0,
                                                                  0, figure_.panel_width - left_));
    row.height = std::max(row.height, plots_[i].height + margins_[i].bottom);
  }
  for (Row& row : rows_) {
    row.top += row.legend_height;
    row.height += row.top;
  }
}

void Page::draw_cell(std::size_t index, double x, double y, const Row& row) {
  const Panel& panel = *layouts_[index].panel;
  const double width = figure_.panel_width - left_;
  xml_.open("g").set("class", "panel");
  xml_.set("transform", "translate(" + coordinate_text(x + left_) + ' ' + coordinate_text(y + row.top) + ')');
  if (!panel.title.empty()) xml_.leaf("title", panel.title);
  draw_panel(xml_, layouts_[index], x_names_[index], margins_[index], plots_[index],
             series_styles(panel, names_));
  if (!panel.title.empty())
    draw_shortened(xml_, 0, 13 - row.top, panel.title, width, {.font = label_font, .bold = true});
  if (!shared_legend_) draw_legend(&xml_, legend_entries(panel, names_), 0, -row.legend_height - 2, width);
  xml_.close();
}

std::string Page::drawn() {
  const double inner = width_ - 2 * border;
  // Bold letters are about a tenth wider than the others; those of other fonts, where the ones named below
  // are missing (DejaVu Sans), a sixth.
  const std::vector<std::string> title = wrapped(figure_.title, 1.3 * title_font, inner);
  const std::vector<std::string> caption = wrapped(figure_.caption, 1.17 * tick_font, inner);
  const double legend_height = draw_legend(nullptr, legend_, 0, 0, inner);
  double height = 2 * border + static_cast<double>(title.size()) * 21 + legend_height +
                  static_cast<double>(caption.size()) * 15 + (caption.empty() ? 0 : 6);
  for (const Row& row : rows_) height += row.height + (&row == &rows_.back() ? 0 : gap);

  xml_.open("svg").set("xmlns", "http://www.w3.org/2000/svg").set("version", "1.1").set("role", "img");
  xml_.set("width", width_).set("height", height);
  xml_.set("viewBox", "0 0 " + coordinate_text(width_) + ' ' + coordinate_text(height));
  xml_.set("font-family", "Helvetica, Arial, 'Liberation Sans', sans-serif");
  xml_.leaf("title", figure_.title.empty() ? "chart" : figure_.title);
  if (!figure_.caption.empty()) xml_.leaf("desc", figure_.caption);
  write_hatchings(xml_, names_.size());
  xml_.open("rect").set("width", width_).set("height", height).set("fill", "#ffffff").close();

  double y = border;
  for (const std::string& line : title) {
    draw_text(xml_, border, y + 14, line, {.font = title_font, .bold = true});
    y += 21;
  }
  y += draw_legend(&xml_, legend_, border, y, inner);
  for (std::size_t i = 0; i < layouts_.size(); ++i) {
    const std::size_t column = i % columns_;
    draw_cell(i, border + static_cast<double>(column) * (figure_.panel_width + gap), y, rows_[i / columns_]);
    if (column + 1 == columns_ || i + 1 == layouts_.size()) y += rows_[i / columns_].height + gap;
  }
  y = height - border - static_cast<double>(caption.size()) * 15;
  for (const std::string& line : caption) {
    draw_text(xml_, border, y + 12, line, {.colour = "#555555"});
    y += 15;
  }
  xml_.close();
  return xml_.take();
}

}  // namespace

std::string svg(const Figure& figure) {
  const auto sensible = [](double size, double least) { return size >= least && size <= 10000; };
  if (!sensible(figure.panel_width, 200) || !sensible(figure.panel_height, 150))
    throw std::invalid_argument("figure '" + figure.title +
                                "': panels are 200 to 10000 pixels wide and 150 to 10000 high");
  for (const Panel& panel : figure.panels) check_panel(panel);
  return Page(figure).drawn();
}

void write_svg(const Figure& figure, const std::filesystem::path& path) {
  const std::string text = svg(figure);
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

}  // namespace moelab::plot

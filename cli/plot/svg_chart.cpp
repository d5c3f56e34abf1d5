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

// A figure on its way to the file. All panels have plots of the same size, so that they can be compared.
class Page {
 public:
  explicit Page(const Figure& figure);
  std::string drawn();

 private:
  struct Row {
    double legend_height = 0;
    bool titled = false;
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
  std::vector<XNames> x_names_{};
  std::vector<LegendEntry> legend_{};  // the shared one
  std::vector<Row> rows_{};
  Margins margins_{};
  Size plot_{};
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
  for (const PanelLayout& layout : layouts_) {
    const Margins own = side_margins(layout);
    margins_.left = std::max(margins_.left, own.left);
    margins_.right = std::max(margins_.right, own.right);
  }
  plot_.width = std::max(figure_.panel_width - margins_.left - margins_.right, 60.0);
  for (const PanelLayout& layout : layouts_) {
    x_names_.push_back(x_names(layout, margins_, plot_.width));
    margins_.bottom = std::max(margins_.bottom, bottom_margin(layout, x_names_.back()));
  }
  plot_.height = std::max(figure_.panel_height - margins_.bottom, 60.0);
}

void Page::settle_rows() {
  rows_.resize((layouts_.size() + columns_ - 1) / columns_);
  for (std::size_t i = 0; i < layouts_.size(); ++i) {
    Row& row = rows_[i / columns_];
    const Panel& panel = *layouts_[i].panel;
    row.titled = row.titled || !panel.title.empty();
    if (!shared_legend_)
      row.legend_height = std::max(row.legend_height, draw_legend(nullptr, legend_entries(panel, names_), 0,
                                                                  0, figure_.panel_width - margins_.left));
  }
  for (Row& row : rows_)
    row.height = (row.titled ? panel_title_height : 8) + row.legend_height + plot_.height + margins_.bottom;
}

void Page::draw_cell(std::size_t index, double x, double y, const Row& row) {
  const PanelLayout& layout = layouts_[index];
  const Panel& panel = *layout.panel;
  const double top = (row.titled ? panel_title_height : 8) + row.legend_height;
  xml_.open("g").set("class", "panel");
  xml_.set("transform",
           "translate(" + coordinate_text(x + margins_.left) + ' ' + coordinate_text(y + top) + ')');
  if (!panel.title.empty()) xml_.leaf("title", panel.title);
  draw_panel(xml_, layout, x_names_[index], margins_, plot_, series_styles(panel, names_));
  if (!panel.title.empty())
    draw_shortened(xml_, 0, 13 - top, panel.title, figure_.panel_width - margins_.left,
                   {.font = label_font, .bold = true});
  if (!shared_legend_)
    draw_legend(&xml_, legend_entries(panel, names_), 0, -row.legend_height - 2,
                figure_.panel_width - margins_.left);
  xml_.close();
}

std::string Page::drawn() {
  const double inner = width_ - 2 * border;
  // The widths of bold letters are about a tenth above those of the others.
  const std::vector<std::string> title = wrapped(figure_.title, 1.1 * title_font, inner);
  const std::vector<std::string> caption = wrapped(figure_.caption, tick_font, inner);
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
